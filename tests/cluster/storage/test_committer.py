from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tocsin.cluster.model import Broker, Channel, Column, Dataset
from tocsin.cluster.ops.metrics import Metrics
from tocsin.cluster.storage.bulk_writer import BulkFiles, BulkWriter
from tocsin.cluster.storage.catalog import AddSubscription, Catalog, RemoveSubscription, open_catalog
from tocsin.cluster.storage.committer import CommitRequest, Committer
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.segments import SegmentStore, Written
from tocsin.errors import NotFound, StorageError, SystemFailure


def ordinal(number: int) -> int:
    return number


class CommitBench:
    def __init__(self, root: Path) -> None:
        self.catalog: Catalog = open_catalog("", str(root))
        self.segments = SegmentStore(str(root / "segments"))
        self.dataset = Dataset(self.catalog.new_id(), "d", (Column("n", "bigint"),))
        self.broker = Broker(self.catalog.new_id(), "b", "http://127.0.0.1:9/")
        self.channel = Channel(self.catalog.new_id(), "c", "continuous", (), "SELECT 1")
        for definition in (self.dataset, self.broker):
            self.catalog.add(definition)
        self.catalog.add_channel(self.channel, {})
        self.store = DatasetStore(self.dataset, self.segments, resident_rows=100)
        self.grown: list[dict[int, int]] = []
        self.committer = Committer(self.catalog, self.segments, Metrics(), self.grown.append)
        self.committer.start()

    def put(self, *numbers: int, applied: Callable[[int], Any] = ordinal) -> Future[Any]:
        table = pa.table({"n": pa.array(numbers, pa.int64())})
        return self.committer.submit(CommitRequest(applied=applied, store=self.store, table=table))

    def submit(self, **changes: Any) -> Future[Any]:
        return self.committer.submit(CommitRequest(applied=ordinal, **changes))

    def written(self, *numbers: int) -> Written:
        """As executors write it."""
        return self.segments.write(pa.table({"n": pa.array(numbers, pa.int64())}), f"datasets/{self.dataset.id}")

    def together(self, *requests: Any) -> list[Future[Any]]:
        """Queue requests while a first one is applied, so that they share a commit."""
        go, begun = threading.Event(), threading.Event()

        def hold(_: int) -> None:
            begun.set()
            go.wait(120)

        first = self.put(0, applied=hold)
        assert begun.wait(120)
        futures = [request() for request in requests]
        go.set()
        first.result(120)
        return futures

    def subscriptions(self) -> list[int]:
        return [number for number, _, _ in self.catalog.subscriptions(self.channel.id)]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[CommitBench]:
    made = CommitBench(tmp_path)
    yield made
    made.committer.close()
    made.catalog.close()


def test_a_commit_is_durable_visible_and_announced_when_it_is_answered(bench: CommitBench) -> None:
    assert bench.put(1, 2).result(120) == 1
    assert bench.catalog.head(bench.dataset.id) == bench.store.head == 1
    assert bench.grown == [{bench.dataset.id: 1}]


def test_queued_requests_share_one_segment(bench: CommitBench) -> None:
    futures = bench.together(*[lambda n=n: bench.put(n) for n in range(50)])
    assert {future.result(120) for future in futures} == {2}
    assert [segment.rows for segment in bench.catalog.segments(bench.dataset.id)] == [1, 50]


def test_loose_records_become_one_table_in_order(bench: CommitBench) -> None:
    def loose(*numbers: int) -> Future[int]:
        return bench.committer.submit(
            CommitRequest(applied=ordinal, store=bench.store, loose=[(number,) for number in numbers])
        )

    requests = [lambda: loose(1), lambda: loose(2), lambda: bench.put(3, 4), lambda: loose(5, 6), lambda: loose(7)]
    assert {future.result(120) for future in bench.together(*requests)} == {2}
    assert bench.store.snapshot().table()["n"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_request_whose_records_do_not_fit_fails_alone(bench: CommitBench) -> None:
    def loose(value: Any) -> Future[int]:
        return bench.submit(store=bench.store, loose=[(value,)])

    good, bad, also_good = bench.together(lambda: loose(1), lambda: loose("x"), lambda: loose(2))
    with pytest.raises(ValueError, match="x"):
        bad.result(120)
    assert {good.result(120), also_good.result(120)} == {2, 3}


def test_one_bad_request_does_not_fail_the_others(bench: CommitBench) -> None:
    bad = AddSubscription(bench.catalog.new_id(), 999_999, "[]", bench.broker.id)
    good, refused, also_good = bench.together(
        lambda: bench.put(1),
        lambda: bench.submit(subscribe=[bad]),
        lambda: bench.put(2),
    )
    with pytest.raises(NotFound):
        refused.result(120)
    assert {good.result(120), also_good.result(120)} == {2, 3}


@pytest.mark.parametrize("last", ["subscribe", "unsubscribe"])
def test_the_later_of_subscribing_and_unsubscribing_wins(bench: CommitBench, last: str) -> None:
    id = bench.catalog.new_id()
    added = AddSubscription(id, bench.channel.id, "[]", bench.broker.id)
    steps = {
        "subscribe": lambda: bench.submit(subscribe=[added]),
        "unsubscribe": lambda: bench.committer.submit(
            CommitRequest(applied=ordinal, unsubscribe=[RemoveSubscription(id, bench.broker.id)])
        ),
    }
    first = "unsubscribe" if last == "subscribe" else "subscribe"
    for future in bench.together(steps[first], steps[last]):
        future.result(120)
    assert bench.subscriptions() == ([id] if last == "subscribe" else [])


def test_a_failed_write_is_answered_with_the_reason_and_leaves_nothing(
    bench: CommitBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise StorageError("the catalog's disk is full")

    monkeypatch.setattr(bench.catalog, "commit", broken)
    with pytest.raises(StorageError, match="full"):
        bench.put(1).result(120)
    monkeypatch.undo()
    assert bench.segments.orphans(bench.catalog.all_paths()) == []
    assert bench.put(2).result(120) == 1


def test_a_commit_with_an_uncertain_outcome_is_looked_up(bench: CommitBench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = bench.catalog.commit

    def lost_answer(batch: Any) -> None:
        real(batch)
        raise StorageError("the connection was lost", uncertain=True)

    monkeypatch.setattr(bench.catalog, "commit", lost_answer)
    with pytest.raises(StorageError, match="lost"):
        bench.put(7).result(120)
    monkeypatch.undo()
    assert bench.store.head == 1
    snapshot = bench.store.snapshot()
    assert snapshot.table()["n"].to_pylist() == [7]
    snapshot.release()


@pytest.mark.parametrize(("uncertain", "kept"), [(False, False), (True, True)])
def test_the_committer_deletes_files_of_executors_only_if_they_are_not_committed(
    bench: CommitBench, monkeypatch: pytest.MonkeyPatch, uncertain: bool, kept: bool
) -> None:
    def fail(batch: object) -> list[int]:
        raise StorageError("no connection", uncertain=uncertain)

    file = bench.written(1, 2)
    monkeypatch.setattr(bench.catalog, "commit", fail)
    with pytest.raises(StorageError):
        bench.submit(store=bench.store, files=[file]).result(120)
    assert (file.path in bench.segments.orphans(set())) is kept


def test_an_error_after_a_commit_of_files_keeps_them(bench: CommitBench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(segments: object) -> None:
        raise StorageError("the log cannot be read")

    file = bench.written(1, 2)
    monkeypatch.setattr(bench.store, "extended", fail)
    bulk = BulkWriter(bench.segments, bench.committer, None, 0)  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        bulk.commit(bench.store, BulkFiles(file.path, (file,)))
    assert bench.store.head == 1
    assert file.path in bench.segments.orphans(set())


@pytest.mark.parametrize(("bulk_bytes", "large"), [(0, True), (1 << 20, False)])
def test_a_bulk_commit_says_whether_its_files_were_committed(bench: CommitBench, bulk_bytes: int, large: bool) -> None:
    bulk = BulkWriter(bench.segments, bench.committer, None, bulk_bytes)  # type: ignore[arg-type]
    file = bench.written(1, 2)
    assert bulk.commit(bench.store, BulkFiles(file.path, (file,))) is large
    assert bool(bench.store.delta) is large
    assert bench.store.stored_rows == 2


def test_a_closed_committer_refuses_requests(bench: CommitBench) -> None:
    bench.committer.close()
    with pytest.raises(SystemFailure, match="shutting down"):
        bench.put(1).result(120)
