from __future__ import annotations

import random
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seeds import examples
from tocsin.cluster.model import Column, Dataset, Segment
from tocsin.cluster.ops import kill_points
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.catalog import Append, Catalog, Commit, open_catalog
from tocsin.cluster.storage.compaction import Compactor
from tocsin.cluster.storage.dataset import ORDINAL, DatasetStore
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import Damaged, StorageError

COLUMNS = (Column("k", "bigint", False), Column("v", "string"))


class Bench:
    """A dataset with its catalog and files, as the committer and the compactor use it."""

    def __init__(self, root: Path, *, key: tuple[str, ...] = (), resident_rows: int = 1000) -> None:
        self.catalog: Catalog = open_catalog("", str(root))
        self.segments = SegmentStore(str(root / "segments"))
        self.dataset = Dataset(self.catalog.new_id(), "d", COLUMNS, key, active=True)
        self.catalog.add(self.dataset)
        self.resident_rows = resident_rows
        self.store = self.opened()
        self.compactor = Compactor(self.catalog, tail_rows=resident_rows, tail_segments=1000)

    def opened(self) -> DatasetStore:
        store = DatasetStore(self.dataset, self.segments, resident_rows=self.resident_rows)
        store.load(self.catalog.head(self.dataset.id), self.catalog.segments(self.dataset.id))
        return store

    def commit(self, rows: pa.Table) -> int:
        written = self.segments.write(rows, f"datasets/{self.dataset.id}")
        append = Append(self.dataset.id, written.path, written.rows, written.bytes)
        (ordinal,) = self.catalog.commit(Commit(appends=[append]))
        segment = Segment(self.dataset.id, ordinal, ordinal, "log", written.path, written.rows, written.bytes)
        self.store.appended(segment, rows)
        return ordinal

    def bulk(self, rows: pa.Table) -> int:
        """As executors write it: two files of one commit, without an ordinal."""
        half = rows.num_rows // 2
        pieces = [piece for piece in (rows.slice(0, half), rows.slice(half)) if piece.num_rows]
        files = [self.segments.write(piece, f"datasets/{self.dataset.id}") for piece in pieces]
        appends = [
            Append(self.dataset.id, file.path, file.rows, file.bytes, kind="delta", more=at > 0)
            for at, file in enumerate(files)
        ]
        ordinal = self.catalog.commit(Commit(appends=appends))[0]
        self.store.extended(
            [Segment(self.dataset.id, ordinal, ordinal, "delta", file.path, file.rows, file.bytes) for file in files]
        )
        return ordinal

    def table(self, rows: list[tuple[int, str | None]]) -> pa.Table:
        keys, values = [row[0] for row in rows], [row[1] for row in rows]
        return self.store.as_log(pa.table({"k": pa.array(keys, pa.int64()), "v": pa.array(values, pa.string())}))

    def put(self, rows: list[tuple[int, str | None]]) -> int:
        return self.commit(self.table(rows))

    def put_bulk(self, rows: list[tuple[int, str | None]]) -> int:
        """A bulk write of a keyed dataset has each key once."""
        return self.bulk(self.table(list(dict(rows).items()) if self.dataset.key else rows))

    def tombstones(self, keys: list[int]) -> pa.Table:
        return self.store.tombstones(pa.table({"k": pa.array(keys, pa.int64())}))

    def delete(self, keys: list[int]) -> int:
        return self.commit(self.tombstones(keys))

    def delete_bulk(self, keys: list[int]) -> int:
        return self.bulk(self.tombstones(keys))

    def rows(self) -> list[tuple[int, str | None, int]]:
        snapshot = self.store.snapshot()
        try:
            return sorted((row["k"], row["v"], row[ORDINAL]) for row in snapshot.table().to_pylist())
        finally:
            snapshot.release()

    def close(self) -> None:
        self.catalog.close()


def test_an_append_only_dataset_keeps_every_row_with_its_ordinal(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put([(1, "a"), (1, "b")])
    bench.put([(1, "a")])
    assert bench.rows() == [(1, "a", 1), (1, "a", 2), (1, "b", 1)]
    bench.close()


def test_a_keyed_dataset_keeps_the_latest_row_of_each_key(tmp_path: Path) -> None:
    bench = Bench(tmp_path, key=("k",))
    bench.put([(1, "a"), (2, "b"), (1, "c")])
    bench.put([(2, "d")])
    bench.delete([1])
    assert bench.rows() == [(2, "d", 2)]
    bench.close()


operations = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["put", "put_bulk"]),
            st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=1, max_size=4),
        ),
        st.tuples(
            st.sampled_from(["delete", "delete_bulk"]), st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)
        ),
        st.tuples(st.just("compact"), st.none()),
        st.tuples(st.just("reopen"), st.none()),
    ),
    max_size=12,
)


@pytest.mark.parametrize("resident_rows", [1000, 2])
@given(steps=operations)
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_keyed_dataset_agrees_with_a_dictionary_after_any_history(
    steps: list[tuple[str, object]], resident_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(tmp_path_factory.mktemp("d"), key=("k",), resident_rows=resident_rows)
    model: dict[int, tuple[str, int]] = {}
    for what, given_rows in steps:
        if what in ("put", "put_bulk"):
            ordinal = getattr(bench, what)(given_rows)
            model.update({k: (v, ordinal) for k, v in given_rows})  # type: ignore[attr-defined]
        elif what in ("delete", "delete_bulk"):
            getattr(bench, what)(given_rows)
            for k in given_rows:  # type: ignore[attr-defined]
                model.pop(k, None)
        elif what == "compact":
            bench.compactor.run(bench.store)
        else:
            bench.store = bench.opened()
        assert bench.rows() == sorted((k, v, at) for k, (v, at) in model.items())
    assert not bench.segments.orphans(bench.catalog.all_paths())
    bench.close()


@pytest.mark.parametrize("resident_rows", [1000, 2])
@given(steps=operations)
@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_an_append_only_dataset_agrees_with_a_list_after_any_history(
    steps: list[tuple[str, object]], resident_rows: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bench = Bench(tmp_path_factory.mktemp("d"), resident_rows=resident_rows)
    model: list[tuple[int, str, int]] = []
    for what, given_rows in steps:
        if what in ("put", "put_bulk"):
            ordinal = getattr(bench, what)(given_rows)
            model += [(k, v, ordinal) for k, v in given_rows]  # type: ignore[attr-defined]
        elif what == "compact":
            bench.compactor.run(bench.store)
        elif what == "reopen":
            bench.store = bench.opened()
        assert bench.rows() == sorted(model)
    bench.close()


def test_many_small_base_files_become_few(tmp_path: Path) -> None:
    bench = Bench(tmp_path, resident_rows=0)
    for number in range(40):
        bench.put([(number, "x")])
        bench.compactor.run(bench.store)
    assert len(bench.store.base) < 12
    assert [row[0] for row in bench.rows()] == list(range(40))
    bench.close()


def test_files_that_a_snapshot_reads_stay_until_it_is_released(tmp_path: Path) -> None:
    bench = Bench(tmp_path, key=("k",), resident_rows=0)
    bench.put([(1, "a")])
    bench.compactor.run(bench.store)
    snapshot = bench.store.snapshot()
    (old,) = (segment.path for segment in snapshot.base)
    bench.put([(1, "b")])
    bench.compactor.run(bench.store)
    assert snapshot.table().to_pylist() == [{"k": 1, "v": "a", ORDINAL: 1}]
    assert (tmp_path / "segments" / old).exists()
    snapshot.release()
    assert not (tmp_path / "segments" / old).exists()
    bench.close()


def test_driver_memory_holds_no_share_of_a_large_keyed_dataset(tmp_path: Path) -> None:
    """The recent rows leave memory as a delta long before they are an eighth of the base."""
    bench = Bench(tmp_path, key=("k",), resident_rows=10)
    bench.put_bulk([(number, "base") for number in range(1000)])
    bench.compactor.run(bench.store)
    assert (bench.store.base_rows, bench.store.delta_rows) == (1000, 0)
    for start in range(0, 100, 11):
        bench.put([(number, "new") for number in range(start, start + 11)])
        assert bench.compactor.due(bench.store)
        bench.compactor.run(bench.store)
        assert bench.store.recent_rows == 0
    assert bench.store.delta_rows == 110 and bench.store.base_rows == 1000
    bench.put([(number, "last") for number in range(11)])
    bench.delete(list(range(500, 520)))
    bench.compactor.run(bench.store)
    assert (bench.store.base_rows, bench.store.delta_rows, bench.store.recent_rows) == (980, 0, 0)
    assert [row[1] for row in bench.rows() if row[0] in (0, 50, 200)] == ["last", "new", "base"]
    bench.close()


@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize("resident_rows", [1000, 0])
def test_a_bulk_commit_during_a_compaction_stays(
    tmp_path: Path, key: tuple[str, ...], resident_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = Bench(tmp_path, key=key, resident_rows=resident_rows)
    bench.put_bulk([(1, "a"), (2, "a")])
    bench.put([(3, "a")])

    def meanwhile(point: str) -> None:
        if point == "compaction.written":
            bench.put_bulk([(2, "b"), (4, "b")])
            bench.put([(5, "b")])

    monkeypatch.setattr(kill_points, "hit", meanwhile)
    bench.compactor.run(bench.store)
    monkeypatch.undo()
    later = [(2, "b", 3), (4, "b", 3), (5, "b", 4)]
    expected = sorted([(1, "a", 1), *([] if key else [(2, "a", 1)]), (3, "a", 2), *later])
    assert bench.rows() == expected
    bench.store = bench.opened()
    assert bench.rows() == expected
    assert not bench.segments.orphans(bench.catalog.all_paths())
    bench.close()


def test_a_bulk_commit_stands_while_the_log_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path, key=("k",))
    bench.put([(1, "a")])
    read = bench.segments.read

    def unreachable(path: str, columns: object = None) -> pa.Table:
        raise StorageError("the file system does not answer", path=path)

    monkeypatch.setattr(bench.segments, "read", unreachable)
    assert bench.put_bulk([(2, "b")]) == 2
    assert (bench.store.head, bench.store.resident, len(bench.store.delta)) == (2, False, 1)
    with pytest.raises(Damaged, match="does not answer"):
        bench.store.snapshot()
    bench.put([(3, "c")])
    monkeypatch.setattr(bench.segments, "read", read)
    bench.store.load(3, bench.catalog.segments(bench.dataset.id), {})
    assert bench.rows() == [(1, "a", 1), (2, "b", 2), (3, "c", 3)]
    bench.close()


def test_files_may_be_verified_while_others_replace_them(tmp_path: Path) -> None:
    bench = Bench(tmp_path)

    class Verified(str):
        """A path whose comparison is the moment at which another thread adds a stamp."""

        __slots__ = ()

        def __hash__(self) -> int:
            bench.store._stamps.setdefault("another", (0, 0))
            return super().__hash__()

    bench.store._stamps[Verified("gone")] = (1, 1)
    del bench.store._stamps["another"]
    bench.put([(1, "a")])
    bench.compactor.run(bench.store)
    assert bench.store._stamps == {}
    bench.close()


@pytest.mark.parametrize("resident_rows", [1000, 0])
def test_every_row_is_counted_once_in_memory_and_in_files(tmp_path: Path, resident_rows: int) -> None:
    bench = Bench(tmp_path, resident_rows=resident_rows)
    bench.put([(1, "a"), (2, "b")])
    bench.compactor.run(bench.store)
    assert bench.store.stored_rows == 2
    bench.put_bulk([(3, "c"), (4, "d")])
    bench.put([(5, "e")])
    assert bench.store.stored_rows == 5
    bench.close()


def test_a_compaction_that_may_not_wait_leaves_a_dataset_that_is_being_changed(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.put([(1, "a")])
    with bench.store.maintenance:
        assert not bench.compactor.run(bench.store, wait=False)
    assert len(bench.store.log) == 1
    assert bench.compactor.run(bench.store, wait=False)
    assert not bench.store.log
    assert not bench.store.maintenance.locked()
    bench.close()


@pytest.mark.parametrize(
    ("made", "uncertain", "fails", "orphans"),
    [(False, False, True, 0), (False, True, True, 1), (True, True, False, 0)],
    ids=["refused", "lost before", "lost after"],
)
def test_a_compaction_that_fails_in_the_catalog_leaves_no_files_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: bool, uncertain: bool, fails: bool, orphans: int
) -> None:
    bench = Bench(tmp_path)
    bench.put([(1, "a")])
    compact = bench.catalog.compact

    def failing(*args: Any) -> None:
        if made:
            compact(*args)
        raise StorageError("no connection", uncertain=uncertain)

    with monkeypatch.context() as patched:
        patched.setattr(bench.catalog, "compact", failing)
        with pytest.raises(StorageError) if fails else nullcontext():
            bench.compactor.run(bench.store)
    assert len(bench.segments.orphans(bench.catalog.all_paths())) == orphans
    bench.put([(2, "b")])
    assert bench.compactor.run(bench.store)
    assert bench.rows() == [(1, "a", 1), (2, "b", 2)]
    bench.store = bench.opened()
    assert bench.rows() == [(1, "a", 1), (2, "b", 2)]
    bench.close()


@pytest.mark.parametrize("resident_rows", [1000, 0])
def test_a_dataset_that_was_loaded_during_a_compaction_has_each_file_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resident_rows: int
) -> None:
    bench = Bench(tmp_path, resident_rows=resident_rows)
    bench.put([(1, "a")])

    def load(point: str) -> None:
        if point == "compaction.swapped":
            bench.store.load(1, bench.catalog.segments(bench.dataset.id))

    monkeypatch.setattr(kill_points, "hit", load)
    bench.compactor.run(bench.store)
    assert (len(bench.store.files), bench.rows()) == (1, [(1, "a", 1)])
    bench.close()


def test_without_spark_a_large_rewrite_waits_but_memory_is_freed(tmp_path: Path) -> None:
    bench = Bench(tmp_path, key=("k",), resident_rows=2)
    bench.compactor.bulk_bytes = 0
    bench.put_bulk([(number, "base") for number in range(9)])
    bench.put([(number, "new") for number in range(9)])
    bench.compactor.run(bench.store)
    assert (bench.store.delta_rows, bench.store.recent_rows) == (18, 0)
    assert [row[1] for row in bench.rows()] == ["new"] * 9
    bench.close()


@pytest.mark.parametrize("key", [(), ("k",)])
def test_executors_compact_what_is_too_large_for_the_driver(
    tmp_path: Path, spark_runtime: SparkRuntime, key: tuple[str, ...]
) -> None:
    bench = Bench(tmp_path, key=key, resident_rows=2)
    bench.compactor.bulk_bytes = 0
    expected = []
    for number in range(17):
        ordinal = bench.put_bulk([(number, "x"), (number + 100, "x")])
        expected += [(number, "x", ordinal), (number + 100, "x", ordinal)]
    if key:
        bench.delete([0])
        expected = expected[1:]
    assert bench.compactor.due(bench.store)
    bench.compactor.run(bench.store, spark_runtime)
    assert not bench.store.delta and bench.store.base and not bench.compactor.due(bench.store)
    assert bench.rows() == sorted(expected)
    bench.store = bench.opened()
    assert bench.rows() == sorted(expected)
    bench.close()


def test_spark_and_the_driver_read_the_same_of_a_mixed_history(tmp_path: Path, spark_runtime: SparkRuntime) -> None:
    bench = Bench(tmp_path, key=("k",), resident_rows=0)
    bench.compactor.tail_rows = 1000
    chance = random.Random(7)
    for step in range(14):
        keys = chance.sample(range(12), 4)
        if step % 5 == 4:
            bench.delete_bulk(keys) if chance.random() < 0.5 else bench.delete(keys)
        else:
            rows: list[tuple[int, str | None]] = [(key, f"{step}") for key in keys]
            bench.put_bulk(rows) if chance.random() < 0.5 else bench.put(rows)
        if step == 6:
            bench.compactor.tail_rows = 0
            bench.compactor.run(bench.store)
            bench.compactor.tail_rows = 1000
        if step < 9:
            continue
        snapshot, table = bench.store.snapshot(), bench.rows()
        for after in (0, 5, 9):
            found = snapshot.numbered(spark_runtime, after).collect()
            assert sorted(tuple(row) for row in found) == [row for row in table if row[2] > after], (step, after)
        snapshot.release()
    bench.close()


@pytest.mark.parametrize("key", [(), ("k",)])
@pytest.mark.parametrize("resident_rows", [1000, 0])
def test_spark_sees_all_rows_new_rows_and_marks(
    tmp_path: Path, spark_runtime: SparkRuntime, key: tuple[str, ...], resident_rows: int
) -> None:
    bench = Bench(tmp_path, key=key, resident_rows=resident_rows)
    bench.put([(1, "old"), (2, "old"), (3, "old")])
    bench.compactor.run(bench.store)
    position = bench.put([(4, "seen")])
    bench.put([(2, "new"), (5, "new")])
    if key:
        bench.delete([3])
    snapshot = bench.store.snapshot()

    def rows(mode: str, at: int = 0) -> list[tuple[object, ...]]:
        return sorted(tuple(row) for row in snapshot.frame(spark_runtime, mode, at).collect())  # type: ignore[arg-type]

    old = [(1, "old")] if key else [(1, "old"), (2, "old"), (3, "old")]
    assert rows("all") == sorted([*old, (2, "new"), (4, "seen"), (5, "new")])
    assert rows("new", position) == [(2, "new"), (5, "new")]
    assert rows("new", 1) == [(2, "new"), (4, "seen"), (5, "new")]
    assert {row for row in rows("marked", position) if row[2]} == {(2, "new", True), (5, "new", True)}
    # A channel that lags behind the base finds its new rows there.
    bench.compactor.run(bench.store)
    snapshot.release()
    snapshot = bench.store.snapshot()
    assert rows("new", position) == [(2, "new"), (5, "new")]
    assert rows("new", 1) == [(2, "new"), (4, "seen"), (5, "new")]
    snapshot.release()
    bench.close()
