"""The contract of the catalog, on SQLite and on PostgreSQL: executions, the outbox, schedules, tables, lease."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catalogs import Open, a_broker, a_channel, a_dataset, a_feed, append, execution, subscriptions_of
from tocsin.cluster.model import Channel, Execution, Function, OutboxEntry, Parameter, Procedure, Schedule
from tocsin.cluster.storage.catalog import TABLES, Catalog, Commit, open_catalog
from tocsin.errors import Conflict, LeaseHeld, NotFound, StorageError, UserError
from tocsin.identity.grants import Grant

# -- executions --------------------------------------------------------------------------------------------------------


def test_recording_an_execution_stores_result_positions_and_outbox(catalog: Catalog) -> None:
    dataset, one, two = a_dataset(catalog), a_broker(catalog, "one"), a_broker(catalog, "two")
    append(catalog, dataset, "a", "b", "c")
    channel = a_channel(catalog, positions={dataset.id: 1})
    assert (catalog.first_execution(channel.id), catalog.last_execution(channel.id)) == (1, 0)
    done = execution(channel, 1, time=1234567890.123456, path="r1")
    catalog.record(done, {dataset.id: 3}, [two.id, one.id, one.id, 999])
    assert catalog.execution(channel.id, 1) == done
    assert catalog.positions(channel.id) == {dataset.id: 3}
    assert catalog.outbox(one.id) == [OutboxEntry(one.id, channel.id, 1)]
    assert catalog.outbox(two.id) == [OutboxEntry(two.id, channel.id, 1)]
    assert catalog.last_execution(channel.id) == 1
    assert catalog.all_paths() == {"a", "b", "c", "r1"}


@pytest.mark.parametrize("number", [0, 1, 3, -1])
def test_an_execution_must_follow_the_last(catalog: Catalog, number: int) -> None:
    channel, broker = a_channel(catalog), a_broker(catalog)
    catalog.record(execution(channel, 1), {}, [])
    with pytest.raises(Conflict):
        catalog.record(execution(channel, number), {}, [broker.id])
    assert catalog.last_execution(channel.id) == 1
    assert catalog.outbox(broker.id) == []


@pytest.mark.parametrize("ordinal, error", [(1, Conflict), (4, Conflict), (-1, Conflict), (None, NotFound)])
def test_positions_neither_go_back_nor_beyond_the_head(
    catalog: Catalog, ordinal: int | None, error: type[Exception]
) -> None:
    dataset = a_dataset(catalog)
    append(catalog, dataset, "a", "b", "c")
    channel = a_channel(catalog, positions={dataset.id: 2})
    positions = {999: 0} if ordinal is None else {dataset.id: ordinal}
    with pytest.raises(error):
        catalog.advance(channel.id, positions)
    with pytest.raises(error):
        catalog.record(execution(channel, 1), positions, [])
    assert catalog.positions(channel.id) == {dataset.id: 2}
    assert catalog.last_execution(channel.id) == 0


def test_an_unknown_dataset_is_reported_before_a_position_that_goes_back(catalog: Catalog) -> None:
    dataset = a_dataset(catalog)
    append(catalog, dataset, "a", "b", "c")
    channel = a_channel(catalog, positions={dataset.id: 2})
    with pytest.raises(NotFound):
        catalog.record(execution(channel, 1), {dataset.id: 1, 999: 0}, [])
    assert catalog.positions(channel.id) == {dataset.id: 2}


def test_a_channel_cannot_start_beyond_the_head(catalog: Catalog) -> None:
    dataset = a_dataset(catalog)
    with pytest.raises(Conflict):
        a_channel(catalog, positions={dataset.id: 1})
    assert catalog.all(Channel) == []


def test_positions_advance_without_an_execution(catalog: Catalog) -> None:
    one, two = a_dataset(catalog, "one"), a_dataset(catalog, "two")
    append(catalog, one, "a")
    channel = a_channel(catalog, positions={one.id: 0})
    catalog.advance(channel.id, {one.id: 1, two.id: 0})
    assert catalog.positions(channel.id) == {one.id: 1, two.id: 0}
    assert catalog.last_execution(channel.id) == 0


def test_executions_are_read_from_any_offset(catalog: Catalog) -> None:
    channel = a_channel(catalog)
    done = [execution(channel, number) for number in range(1, 8)]
    for item in done:
        catalog.record(item, {}, [])
    assert catalog.executions(channel.id) == done
    assert catalog.executions(channel.id, after=2, limit=3) == done[2:5]
    assert catalog.executions(channel.id, after=7) == []
    assert catalog.execution(channel.id, 8) is None


def test_expiry_does_not_delete_entries_from_the_outbox(catalog: Catalog) -> None:
    channel, broker = a_channel(catalog), a_broker(catalog)
    catalog.record(execution(channel, 1, 10.0, "r1"), {}, [broker.id])
    catalog.expire(channel.id, 30.0)
    assert catalog.outbox(broker.id) == [OutboxEntry(broker.id, channel.id, 1)]
    catalog.delete_notified(catalog.outbox(broker.id))
    assert catalog.outbox(broker.id) == []


def test_the_numbering_survives_expiry(opener: Open) -> None:
    catalog = opener()
    channel, broker = a_channel(catalog), a_broker(catalog)
    for number, time in ((1, 10.0), (2, 20.0), (3, 30.0)):
        catalog.record(execution(channel, number, time, f"r{number}" if number != 2 else None), {}, [broker.id])
    assert catalog.expire(channel.id, 30.0) == ["r1"]
    assert (catalog.first_execution(channel.id), catalog.last_execution(channel.id)) == (3, 3)
    assert catalog.expire(channel.id, 99.0) == ["r3"]
    catalog.close()
    catalog = opener()
    assert (catalog.first_execution(channel.id), catalog.last_execution(channel.id)) == (4, 3)
    catalog.record(execution(channel, 4), {}, [])


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.head(999),
        lambda c: c.last_execution(999),
        lambda c: c.first_execution(999),
        lambda c: c.advance(999, {}),
        lambda c: c.record(Execution(999, 1, 0.0, 0.0, 0, 0, 0, None), {}, []),
        lambda c: c.add_schedule(Schedule(1, "none", (), 0.0)),
        lambda c: c.rows("definitions"),
    ],
)
def test_an_unknown_object_is_not_found(catalog: Catalog, call: Callable[[Catalog], Any]) -> None:
    with pytest.raises(NotFound):
        call(catalog)


# -- outbox ------------------------------------------------------------------------------------------------------------


def test_an_entry_stays_in_the_outbox_until_it_is_notified(catalog: Catalog) -> None:
    channel, one, two = a_channel(catalog), a_broker(catalog, "one"), a_broker(catalog, "two")
    for number in (1, 2, 3):
        catalog.record(execution(channel, number), {}, [one.id, two.id])
    pending = catalog.outbox(one.id, limit=2)
    assert [entry.execution for entry in pending] == [1, 2]
    catalog.delete_notified(pending)
    catalog.delete_notified(pending)
    catalog.delete_notified([])
    assert [entry.execution for entry in catalog.outbox(one.id)] == [3]
    assert catalog.delete_outbox(two.id) == 3
    assert catalog.outbox(two.id) == []


@pytest.mark.parametrize("quiet_first", [True, False])
def test_a_quiet_channel_does_not_wait_for_the_backlog_of_a_busy_one(catalog: Catalog, quiet_first: bool) -> None:
    first, second = a_channel(catalog, "first"), a_channel(catalog, "second")
    quiet, busy = (first, second) if quiet_first else (second, first)
    broker = a_broker(catalog)
    for number in range(1, 301):
        catalog.record(execution(busy, number, float(number)), {}, [broker.id])
    catalog.record(execution(quiet, 1, 301.0), {}, [broker.id])
    sent = list[OutboxEntry]()
    while found := catalog.outbox(broker.id, 10, sent[-64:]):
        assert len(found) == 10 or len(sent) + len(found) == 301
        sent += found
        catalog.delete_notified(sent[:-64])
    assert sent.index(OutboxEntry(broker.id, quiet.id, 1)) == 1
    assert [entry.execution for entry in sent if entry.channel == busy.id] == list(range(1, 301))


def test_more_channels_than_one_read_takes_are_served_by_age(catalog: Catalog) -> None:
    channels, broker = [a_channel(catalog, f"c{number}") for number in range(12)], a_broker(catalog)
    for number in (1, 2):
        for place, channel in enumerate(channels):
            catalog.record(execution(channel, number, 100.0 * number - place), {}, [broker.id])
    sent = list[OutboxEntry]()
    for _ in range(6):
        sent += catalog.outbox(broker.id, 4, sent)
    oldest_first = [channel.id for channel in reversed(channels)]
    assert [entry.channel for entry in sent] == oldest_first * 2


# -- periodic procedures -----------------------------------------------------------------------------------------------


def test_schedules_belong_to_their_procedure(catalog: Catalog) -> None:
    for name in ("Clean", "Other"):
        catalog.add(Procedure(catalog.new_id(), name, (), "delete from d", 5.0))
    first = Schedule(catalog.new_id(), "Clean", ("x", 1, None, 2.5), 7.25)
    second, third = Schedule(catalog.new_id(), "Other", (), 8.0), Schedule(catalog.new_id(), "Clean", (), 9.0)
    for schedule in (first, second, third):
        catalog.add_schedule(schedule)
    assert catalog.schedules() == [first, second, third]
    with pytest.raises(Conflict):
        catalog.add_schedule(second)
    clean = catalog.get(Procedure, "CLEAN")
    assert clean is not None
    catalog.remove(clean)
    assert catalog.schedules() == [second]


# -- retrospection -----------------------------------------------------------------------------------------------------


def test_the_catalog_is_readable_as_tables(catalog: Catalog) -> None:
    dataset, broker = a_dataset(catalog), a_broker(catalog)
    a_feed(catalog)
    catalog.add(Function(catalog.new_id(), "f", (Parameter("a", "int"),), "select a"))
    catalog.add(Procedure(catalog.new_id(), "p", (), "delete from d", 5.0))
    append(catalog, dataset, "a", "b")
    channel = a_channel(catalog, positions={dataset.id: 2})
    catalog.commit(Commit(subscribe=subscriptions_of(channel, broker, 70, 71)))
    catalog.record(execution(channel, 1, time=1.5, path="r1"), {}, [])
    catalog.add_grant(Grant("user", "subscribe", "Near"))
    tables = {name: catalog.rows(name) for name in TABLES}
    assert all(len(columns) == len(row) for columns, rows in tables.values() for row in rows)
    assert {name: len(rows) for name, (_, rows) in tables.items()} == {
        **dict.fromkeys(TABLES, 1),
        **dict.fromkeys(("columns", "subscriptions", "segments", "roles"), 2),
    }
    assert catalog.rows("DATASETS")[1] == [(dataset.id, "Reports", False, ["id"], False, 2, 2, 200)]
    assert catalog.rows("columns")[1][0] == ("Reports", 1, "id", "bigint", False, True)
    assert catalog.rows("subscriptions")[1][0] == (70, "Near", '["x",70]', ["b1"])
    time = datetime(1970, 1, 1, 0, 0, 1, 500_000, UTC)
    assert catalog.rows("executions")[1] == [("Near", 1, time, time.replace(microsecond=750_000), 3, 2, 99, "r1")]
    assert catalog.rows("segments")[1][0] == ("Reports", 1, 1, "log", 10, 100, "a")
    assert catalog.rows("channels")[1][0][-2:] == (1, 2)


# -- lease -------------------------------------------------------------------------------------------------------------


def test_only_one_catalog_holds_the_lease(opener: Open) -> None:
    first, second = opener(), opener()
    first.acquire_lease()
    first.acquire_lease()
    with pytest.raises(LeaseHeld) as caught:
        second.acquire_lease()
    assert caught.value.fields["pid"] > 0
    assert caught.value.fields["host"]
    first.close()
    second.acquire_lease()
    a_dataset(second)


def test_a_closed_catalog_raises(opener: Open) -> None:
    catalog = opener()
    catalog.close()
    catalog.close()
    for call in (catalog.new_id, catalog.all_paths, lambda: list(catalog.subscriptions(1))):
        with pytest.raises(StorageError, match="closed"):
            call()


@pytest.mark.parametrize("address", ["mysql://localhost/x", "catalog.sqlite3", " "])
def test_another_kind_of_address_is_refused(address: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="postgresql"):
        open_catalog(address, str(tmp_path))
