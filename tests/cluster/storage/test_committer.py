from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tocsin.cluster.model import Broker, Channel, Column, Dataset
from tocsin.cluster.ops.metrics import Metrics
from tocsin.cluster.storage.catalog import Catalog, Unwant, Want, open_catalog
from tocsin.cluster.storage.committer import Committer
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import NotFound, StorageError, SystemTrouble


class Desk:
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

    def put(self, *numbers: int, **more: Any) -> Future[int]:
        table = pa.table({"n": pa.array(numbers, pa.int64())})
        return self.committer.submit(store=self.store, table=table, **more)

    def together(self, *requests: Any) -> list[Future[Any]]:
        """Lets requests pile up behind a first one, so that they share a commit."""
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

    def wants(self) -> list[int]:
        return [number for number, _, _ in self.catalog.subscriptions(self.channel.id)]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path)
    yield made
    made.committer.close()
    made.catalog.close()


def test_a_commit_is_durable_visible_and_announced_when_it_is_answered(desk: Desk) -> None:
    assert desk.put(1, 2).result(120) == 1
    assert desk.catalog.head(desk.dataset.id) == desk.store.head == 1
    assert desk.grown == [{desk.dataset.id: 1}]


def test_requests_that_pile_up_share_one_segment(desk: Desk) -> None:
    futures = desk.together(*[lambda n=n: desk.put(n) for n in range(50)])
    assert {future.result(120) for future in futures} == {2}
    assert [segment.rows for segment in desk.catalog.segments(desk.dataset.id)] == [1, 50]


def test_loose_records_become_columns_together_and_keep_their_place(desk: Desk) -> None:
    def loose(*numbers: int) -> Future[int]:
        return desk.committer.submit(store=desk.store, loose=[(number,) for number in numbers])

    requests = [lambda: loose(1), lambda: loose(2), lambda: desk.put(3, 4), lambda: loose(5, 6), lambda: loose(7)]
    assert {future.result(120) for future in desk.together(*requests)} == {2}
    assert desk.store.snapshot().table()["n"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_records_that_are_no_columns_fail_alone(desk: Desk) -> None:
    def loose(value: Any) -> Future[int]:
        return desk.committer.submit(store=desk.store, loose=[(value,)])

    good, bad, also_good = desk.together(lambda: loose(1), lambda: loose("x"), lambda: loose(2))
    with pytest.raises(ValueError, match="x"):
        bad.result(120)
    assert {good.result(120), also_good.result(120)} == {2, 3}


def test_one_bad_request_does_not_fail_the_others(desk: Desk) -> None:
    bad = Want(desk.catalog.new_id(), 999_999, "[]", desk.broker.id)
    good, refused, also_good = desk.together(
        lambda: desk.put(1), lambda: desk.committer.submit(want=[bad]), lambda: desk.put(2)
    )
    with pytest.raises(NotFound):
        refused.result(120)
    assert {good.result(120), also_good.result(120)} == {2, 3}


@pytest.mark.parametrize("last", ["want", "unwant"])
def test_of_wanting_and_not_wanting_the_later_one_counts(desk: Desk, last: str) -> None:
    number = desk.catalog.new_id()
    want = Want(number, desk.channel.id, "[]", desk.broker.id)
    steps = {
        "want": lambda: desk.committer.submit(want=[want]),
        "unwant": lambda: desk.committer.submit(unwant=[Unwant(number, desk.broker.id)]),
    }
    first = "unwant" if last == "want" else "want"
    for future in desk.together(steps[first], steps[last]):
        future.result(120)
    assert desk.wants() == ([number] if last == "want" else [])


def test_a_failed_write_is_answered_with_the_reason_and_leaves_nothing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise StorageError("the catalog's disk is full")

    monkeypatch.setattr(desk.catalog, "commit", broken)
    with pytest.raises(StorageError, match="full"):
        desk.put(1).result(120)
    monkeypatch.undo()
    assert desk.segments.orphans(desk.catalog.all_paths()) == []
    assert desk.put(2).result(120) == 1


def test_a_commit_whose_fate_is_uncertain_is_looked_up(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = desk.catalog.commit

    def lost_answer(batch: Any) -> None:
        real(batch)
        raise StorageError("the connection was lost", uncertain=True)

    monkeypatch.setattr(desk.catalog, "commit", lost_answer)
    with pytest.raises(StorageError, match="lost"):
        desk.put(7).result(120)
    monkeypatch.undo()
    assert desk.store.head == 1
    snapshot = desk.store.snapshot()
    assert snapshot.table()["n"].to_pylist() == [7]
    snapshot.release()


def test_after_closing_nothing_is_taken(desk: Desk) -> None:
    desk.committer.close()
    with pytest.raises(SystemTrouble, match="shutting down"):
        desk.put(1).result(120)
