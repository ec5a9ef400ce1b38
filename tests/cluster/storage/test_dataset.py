from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seeds import examples
from tocsin.cluster.model import Column, Dataset, Segment
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.catalog import Append, Catalog, Commit, open_catalog
from tocsin.cluster.storage.compaction import Compactor
from tocsin.cluster.storage.dataset import ORDINAL, DatasetStore
from tocsin.cluster.storage.segments import SegmentStore

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

    def put(self, rows: list[tuple[int, str | None]]) -> int:
        table = pa.table(
            {"k": pa.array([row[0] for row in rows], pa.int64()), "v": pa.array([row[1] for row in rows], pa.string())}
        )
        return self.commit(self.store.as_log(table))

    def delete(self, keys: list[int]) -> int:
        return self.commit(self.store.tombstones(pa.table({"k": pa.array(keys, pa.int64())})))

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
            st.just("put"), st.lists(st.tuples(st.integers(0, 9), st.sampled_from("abc")), min_size=1, max_size=4)
        ),
        st.tuples(st.just("delete"), st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True)),
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
        if what == "put":
            ordinal = bench.put(given_rows)  # type: ignore[arg-type]
            model.update({k: (v, ordinal) for k, v in given_rows})  # type: ignore[attr-defined]
        elif what == "delete":
            bench.delete(given_rows)  # type: ignore[arg-type]
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
        if what == "put":
            ordinal = bench.put(given_rows)  # type: ignore[arg-type]
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
