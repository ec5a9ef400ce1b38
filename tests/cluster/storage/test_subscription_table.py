"""The subscriptions of a channel: identity, brokers, and the view that Spark joins with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tocsin.cluster.model import Channel, Parameter, Subscription
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage import chunks
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.cluster.storage.subscription_table import SubscriptionTable
from tocsin.errors import NotFound, StorageError, TypeMismatch


def channel(**parameters: str) -> Channel:
    return Channel(4, "Near", "continuous", tuple(Parameter(name, kind) for name, kind in parameters.items()), "")


@pytest.fixture
def store(tmp_path: Path) -> SegmentStore:
    return SegmentStore(str(tmp_path / "root"))


@pytest.fixture
def table(store: SegmentStore) -> SubscriptionTable:
    return SubscriptionTable(channel(Type="string", level="int"), store)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Chunks are sealed from ten rows on."""
    monkeypatch.setattr(chunks, "TAIL_ROWS", 10)
    yield


def add(table: SubscriptionTable, ids: range, broker: int = 1) -> None:
    for id in ids:
        table.add(id, table.canonical([f"type {id}", id]), broker)


def seen(table: SubscriptionTable, runtime: SparkRuntime) -> list[tuple[Any, ...]]:
    """The rows of the view, without those of removed subscriptions."""
    with table.view(runtime) as name:
        rows = [tuple(row) for row in runtime.session.table(name).collect()]
    live = table.live(np.array([row[0] for row in rows], np.int64))
    return sorted((row for row, alive in zip(rows, live, strict=True) if alive), key=lambda row: row[0])


def expected(ids: range) -> list[tuple[Any, ...]]:
    return [(id, f"type {id}", id) for id in ids]


# --- arguments


@pytest.mark.parametrize("args", [["fire", 3], ("fire", 3), {"Type": "fire", "level": 3}, {"LEVEL": 3, "type": "fire"}])
def test_the_same_arguments_have_one_canonical_text(table: SubscriptionTable, args: Any) -> None:
    assert table.canonical(args) == '["fire",3]'


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ([], "takes 2 arguments, not 0"),
        (["fire"], "takes 2 arguments, not 1"),
        (["fire", 1, 2], "takes 2 arguments, not 3"),
        ({}, "needs 'Type', 'level'"),
        ({"type": "fire"}, "needs 'level'"),
        ({"type": "fire", "level": 1, "x": 1}, "no parameter 'x'"),
        ({"type": "fire", "level": 1, 3: 1}, "no parameter 3"),
        ({"type": "fire", "TYPE": "x", "level": 1}, "given twice"),
        ("fire", "a list or an object, not str"),
        (b"fi", "a list or an object, not bytes"),
        (None, "a list or an object, not NoneType"),
        (7, "a list or an object, not int"),
        (["fire", "3"], "parameter 'level'"),
        (["fire", 3.5], "parameter 'level'"),
        (["fire", True], "parameter 'level'"),
        (["fire", 1 << 31], "parameter 'level'"),
        ([3, 3], "parameter 'Type'"),
        (["\ud800", 3], "parameter 'Type'"),
        ([["fire"], 3], "parameter 'Type'"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(table: SubscriptionTable, args: Any, says: str) -> None:
    with pytest.raises(TypeMismatch) as caught:
        table.canonical(args)
    assert says in caught.value.message


def test_the_order_of_a_maps_keys_makes_no_difference(store: SegmentStore) -> None:
    table = SubscriptionTable(channel(m="map<string,int>"), store)
    assert table.canonical([{"b": 1, "a": 2}]) == table.canonical([{"a": 2, "b": 1}])


def test_a_null_argument_is_allowed(table: SubscriptionTable) -> None:
    assert table.canonical([None, None]) == "[null,null]"


# --- in memory


def test_a_subscription_is_stored_once_with_its_brokers(table: SubscriptionTable) -> None:
    text = table.canonical(["fire", 3])
    table.add(7, text, 1)
    table.add(7, text, 2)
    assert (len(table), table.find(text), table.brokers(7)) == (1, 7, frozenset({1, 2}))
    assert table.get(7) == Subscription(7, 4, ("fire", 3), frozenset({1, 2}))


def test_a_subscription_ends_with_its_last_broker(table: SubscriptionTable) -> None:
    text = table.canonical(["fire", 3])
    table.add(7, text, 1)
    table.add(7, text, 2)
    assert table.discard(7, 1)
    assert not table.discard(7, 1)
    assert table.find(text) == 7
    assert table.discard(7, 2)
    assert (len(table), table.find(text), table.brokers(7)) == (0, None, frozenset())
    assert not table.discard(7, None)
    with pytest.raises(NotFound):
        table.get(7)


def test_the_same_arguments_cannot_have_a_second_id(table: SubscriptionTable) -> None:
    table.add(7, '["fire",3]', 1)
    with pytest.raises(ValueError, match="subscription 7 has these arguments"):
        table.add(8, '["fire",3]', 1)
    with pytest.raises(ValueError, match="used for other arguments"):
        table.add(7, '["flood",3]', 1)


def test_loading_restores_the_subscriptions_of_the_catalog(table: SubscriptionTable) -> None:
    table.load([(9, '["b",1]', [2, 1]), (3, '["a",1]', [1])])
    assert table.of_broker(1).tolist() == [3, 9]
    assert table.of_broker(2).tolist() == [9]
    assert table.of_broker(3).tolist() == []
    assert table.get(9).brokers == frozenset({1, 2})
    assert table.live(np.array([9, 1, 3, 99])).tolist() == [True, False, True, False]


def test_matched_subscriptions_are_split_by_broker(table: SubscriptionTable) -> None:
    add(table, range(1, 10), broker=5)
    add(table, range(2, 10, 2), broker=6)
    table.discard(3, None)
    found = table.brokers_of(np.array([9, 3, 2, 1, 2, 100]))
    assert {broker: ids.tolist() for broker, ids in found.items()} == {5: [1, 2, 9], 6: [2]}
    assert table.brokers_of(np.array([], np.int64)) == {}


def test_the_arrow_table_contains_the_current_subscriptions(table: SubscriptionTable) -> None:
    add(table, range(1, 4), broker=5)
    table.add(2, table.canonical(["type 2", 2]), 3)
    table.discard(1, None)
    assert table.arrow().to_pylist() == [
        {"subscription_id": 2, "p_0": "type 2", "p_1": 2, "brokers": [3, 5]},
        {"subscription_id": 3, "p_0": "type 3", "p_1": 3, "brokers": [5]},
    ]


class AgainstADictionary(RuleBasedStateMachine):
    """Any order of adds and removals, with ids out of order, agrees with a dictionary of sets."""

    def __init__(self) -> None:
        super().__init__()
        self.table = SubscriptionTable(channel(n="int"), None)  # type: ignore[arg-type]
        self.model: dict[int, set[int]] = {}
        self.used: set[int] = set()
        self.begin: dict[int, int] = {}
        self.late: set[int] | None = None
        self.position = 0

    @rule(id=st.integers(1, 40), broker=st.integers(1, 4))
    def add(self, id: int, broker: int) -> None:
        if id in self.used and id not in self.model:
            return
        self.table.add(id, f"[{id}]", broker)
        if id not in self.model:
            self.begin[id] = self.position
            if self.late is not None:
                self.late.add(id)
        self.model.setdefault(id, set()).add(broker)
        self.used.add(id)

    @rule()
    def start_run(self) -> None:
        self.table.start_run()
        self.late = self.late or set()

    @rule(found=st.booleans())
    def end_run(self, found: bool) -> None:
        """With a result it has a number."""
        if self.late is None:
            return
        if found:
            self.position += 1
            self.table.executed(self.position)
            self.begin |= dict.fromkeys(self.late, self.position)
        self.table.end_run()
        self.late = None

    @rule(id=st.integers(1, 40), broker=st.one_of(st.none(), st.integers(1, 4)))
    def discard(self, id: int, broker: int | None) -> None:
        had = self.model.get(id, set())
        assert self.table.discard(id, broker) == (bool(had) if broker is None else broker in had)
        had -= had if broker is None else {broker}
        if not had:
            self.model.pop(id, None)

    @rule()
    def reclaim(self) -> None:
        self.table._reclaim()

    @invariant()
    def agrees(self) -> None:
        ids = np.arange(0, 45)
        assert len(self.table) == len(self.model)
        for id in self.model:
            assert self.table.begins_after(id) == (None if id in (self.late or ()) else self.begin[id])
        assert self.table.ids().tolist() == sorted(self.model)
        assert self.table.live(ids).tolist() == [id in self.model for id in ids.tolist()]
        for broker in range(1, 5):
            expected = sorted(id for id, brokers in self.model.items() if broker in brokers)
            assert self.table.of_broker(broker).tolist() == expected
            assert self.table.brokers_of(ids).get(broker, np.array([])).tolist() == expected


TestAgainstADictionary = AgainstADictionary.TestCase


def test_many_removals_free_memory(table: SubscriptionTable) -> None:
    add(table, range(1, 4001))
    for id in range(1, 3901):
        table.discard(id, None)
    assert table._used < 2000
    assert table.ids().tolist() == list(range(3901, 4001))
    assert table.get(4000).args == ("type 4000", 4000)


def test_loaded_subscriptions_begin_after_the_last_execution(table: SubscriptionTable) -> None:
    table.load([(7, '["fire",1]', [1]), (3, '["flood",2]', [2])], 41)
    assert (table.begins_after(3), table.begins_after(7)) == (41, 41)
    with pytest.raises(NotFound):
        table.begins_after(5)


# --- for Spark


def test_the_view_is_typed_by_the_parameters(store: SegmentStore, spark_runtime: SparkRuntime) -> None:
    kinds = {
        "a": "string",
        "b": "bigint",
        "c": "double",
        "d": "timestamp",
        "e": "date",
        "f": "decimal(10,2)",
        "g": "array<int>",
        "h": "struct<x:int,y:string>",
        "i": "boolean",
        "j": "map<string,int>",
        "k": "binary",
    }
    table = SubscriptionTable(channel(**kinds), store)
    values = ["é'\"", 1, 2, "2026-01-02T03:04:05Z", "2026-01-02", 1.5, [1, None], {"x": 1}, True, {"k": 1}, "AAE="]
    table.add(1, table.canonical(values), 1)
    table.add(2, table.canonical([None] * 11), 1)
    with table.view(spark_runtime) as name:
        frame = spark_runtime.session.table(name)
        assert frame.dtypes == [
            ("subscription_id", "bigint"),
            *((f"p_{n}", kind) for n, kind in enumerate(kinds.values())),
        ]
        row = spark_runtime.session.sql(
            f"SELECT p_0, p_1, p_2, string(p_3), string(p_4), string(p_5), p_6, p_7.x, p_7.y, p_8, p_9['k'], hex(p_10) "
            f"FROM {name} WHERE subscription_id = 1"
        ).collect()[0]
        nulls = spark_runtime.session.sql(f"SELECT * FROM {name} WHERE subscription_id = 2").collect()[0]
    assert tuple(row) == (
        "é'\"", 1, 2.0, "2026-01-02 03:04:05", "2026-01-02", "1.50", [1, None], 1, None, True, 1, "0001"
    )  # fmt: skip
    assert tuple(nulls) == (2, *[None] * 11)


def test_a_channel_without_parameters_has_a_view(store: SegmentStore, spark_runtime: SparkRuntime) -> None:
    table = SubscriptionTable(channel(), store)
    assert seen(table, spark_runtime) == []
    table.add(1, table.canonical([]), 1)
    assert table.canonical({}) == "[]"
    assert seen(table, spark_runtime) == [(1,)]


def test_a_view_has_every_subscription_added_before_it(table: SubscriptionTable, spark_runtime: SparkRuntime) -> None:
    assert seen(table, spark_runtime) == []
    add(table, range(1, 5))
    assert seen(table, spark_runtime) == expected(range(1, 5))
    add(table, range(5, 8))
    table.discard(1, None)
    assert seen(table, spark_runtime) == expected(range(2, 8))


def test_an_unchanged_table_keeps_its_view(table: SubscriptionTable, spark_runtime: SparkRuntime) -> None:
    add(table, range(1, 5))
    with table.view(spark_runtime) as first, table.view(spark_runtime) as second:
        assert first == second
    table.discard(2, None)
    with table.view(spark_runtime) as third:
        assert third == first
    add(table, range(5, 6))
    with table.view(spark_runtime) as fourth:
        assert fourth != first
    assert not spark_runtime.session.catalog.tableExists(first)


def paths(table: SubscriptionTable) -> set[str]:
    return {chunk.path for chunk in table._view._chunks}


def wait_for_merge(table: SubscriptionTable) -> None:
    if table._view._merging is not None:
        table._view._merging.join()


@pytest.mark.usefixtures("small")
def test_chunks_stay_few_and_complete(
    table: SubscriptionTable, spark_runtime: SparkRuntime, store: SegmentStore
) -> None:
    for start in range(1, 200, 13):
        add(table, range(start, start + 13))
        assert seen(table, spark_runtime) == expected(range(1, start + 13))
        wait_for_merge(table)
    seen(table, spark_runtime)
    sizes = sorted(chunk.rows for chunk in table._view._chunks)
    assert len(sizes) <= 4
    assert sum(sizes) + table._view._tail.num_rows == len(table)
    assert store.orphans(paths(table)) == []


@pytest.mark.usefixtures("small")
def test_merged_chunks_stay_until_their_last_reader_is_done(
    table: SubscriptionTable, spark_runtime: SparkRuntime, store: SegmentStore
) -> None:
    add(table, range(1, 21))
    with table.view(spark_runtime) as old:
        before = paths(table)
        add(table, range(21, 41))
        with table.view(spark_runtime):
            wait_for_merge(table)
        assert seen(table, spark_runtime) == expected(range(1, 41))
        assert not before & paths(table)
        assert before <= set(store.orphans(set()))
        assert spark_runtime.session.table(old).count() == 20
    assert store.orphans(paths(table)) == []
    assert not spark_runtime.session.catalog.tableExists(old)


@pytest.mark.usefixtures("small")
def test_chunks_with_many_deleted_rows_are_rewritten(
    table: SubscriptionTable, spark_runtime: SparkRuntime, store: SegmentStore
) -> None:
    add(table, range(1, 101))
    assert seen(table, spark_runtime) == expected(range(1, 101))
    for id in range(1, 15):
        table.discard(id, None)
    seen(table, spark_runtime)
    wait_for_merge(table)
    assert [chunk.rows for chunk in table._view._chunks] == [100]
    for id in range(15, 31):
        table.discard(id, None)
    seen(table, spark_runtime)
    wait_for_merge(table)
    assert [chunk.rows for chunk in table._view._chunks] == [70]
    assert seen(table, spark_runtime) == expected(range(31, 101))
    for id in range(31, 101):
        table.discard(id, None)
    seen(table, spark_runtime)
    wait_for_merge(table)
    assert seen(table, spark_runtime) == []
    assert store.orphans(set()) == []


@pytest.mark.usefixtures("small")
def test_subscriptions_can_change_while_executions_read(table: SubscriptionTable, spark_runtime: SparkRuntime) -> None:
    confirmed = 0
    stop = threading.Event()

    def subscribe() -> None:
        nonlocal confirmed
        for id in range(1, 3001):
            table.add(id, f'["type {id}",{id}]', 1)
            if id % 10 == 0:
                table.discard(id, None)
            confirmed = id
        stop.set()

    thread = threading.Thread(target=subscribe)
    thread.start()
    while True:
        last = stop.is_set()
        before = confirmed
        ids = [row[0] for row in seen(table, spark_runtime)]
        assert ids[: before - before // 10] == [id for id in range(1, before + 1) if id % 10]
        if last:
            break
    thread.join()
    wait_for_merge(table)


@pytest.mark.usefixtures("small")
def test_a_full_disk_loses_no_subscription(
    table: SubscriptionTable, spark_runtime: SparkRuntime, tmp_path: Path
) -> None:
    add(table, range(1, 30))
    (tmp_path / "root").rename(tmp_path / "unmounted")
    for _ in range(2):
        with pytest.raises(StorageError):
            seen(table, spark_runtime)
    (tmp_path / "unmounted").rename(tmp_path / "root")
    assert seen(table, spark_runtime) == expected(range(1, 30))


@pytest.mark.usefixtures("small")
def test_a_dropped_channel_leaves_no_files_and_no_view(
    table: SubscriptionTable, spark_runtime: SparkRuntime, store: SegmentStore
) -> None:
    add(table, range(1, 30))
    with table.view(spark_runtime) as name:
        table.close()
        assert spark_runtime.session.table(name).count() == 29
    assert store.orphans(set()) == []
    assert not spark_runtime.session.catalog.tableExists(name)


class NextSession:
    """The runtime as it is after a restart: a session that knows none of the earlier views."""

    def __init__(self, runtime: SparkRuntime) -> None:
        self.session = runtime.session.newSession()
        self.generation = runtime.generation + 1
        self.to_arrow = runtime.to_arrow
        self.alive = runtime.alive
        self.pool = runtime.pool

    def from_arrow(self, table: Any) -> Any:
        return self.session.createDataFrame(table.combine_chunks())


@pytest.mark.usefixtures("small")
def test_views_are_created_again_for_another_session(table: SubscriptionTable, spark_runtime: SparkRuntime) -> None:
    add(table, range(1, 30))
    assert seen(table, spark_runtime) == expected(range(1, 30))
    with table.view(spark_runtime):
        following: Any = NextSession(spark_runtime)
        assert seen(table, following) == expected(range(1, 30))
    add(table, range(30, 60))
    assert seen(table, following) == expected(range(1, 60))
    wait_for_merge(table)
    assert seen(table, following) == expected(range(1, 60))
