"""A batch of notifications has the effect of the same notifications one by one, though bookkeeping is deferred."""

from __future__ import annotations

import msgspec
import pytest
from broker_harness import BrokerHarness, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core.delivery import UNBOOKED, UNBOOKED_BYTES
from tocsin.broker.transport.notify_endpoint import Notification


def harness_with(*ids: int) -> BrokerHarness:
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p", "q")
    for id_ in ids:
        harness.subscribed("p", id_, kind=str(id_))
    harness.subscribed("q", ids[0], kind=str(ids[0]))
    return harness


NOTIFICATIONS = [
    ev.Notified("C", 1, [line(7, 1), line(8, 1)]),
    ev.Notified("C", 2, [line(7, 2, b"[22]"), line(99, 2)]),
    ev.Notified("C", 2, [line(7, 2)]),  # again
    ev.Notified("C", 3, [line(8, 3, b"x" * (UNBOOKED_BYTES + 1))]),
    ev.Notified("C", 4, [line(7, 4)]),
]


def test_a_batch_of_notifications_equals_the_same_notifications_one_by_one():
    together, apart = harness_with(7, 8), harness_with(7, 8)
    found = together.state.on_notify(NOTIFICATIONS, 5.0)
    expected = [it for notification in NOTIFICATIONS for it in apart.state.handle(notification, 5.0)]
    assert found == expected and found
    assert together.state.counters == apart.state.counters
    assert together.state.load_reports.report(9.0) == apart.state.load_reports.report(9.0)
    kept = [[be.recent.entries for be in each.state.be_subscriptions.by_id.values()] for each in (together, apart)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("read", ["counters", "cache", "report", "tick", "changes"])
def test_every_read_of_the_state_includes_deferred_bookkeeping(read):
    harness = harness_with(7)
    harness.state.on_notify([ev.Notified("C", 1, [line(7, 1)])], 1.0)
    be = harness.state.be_subscriptions.by_id[7]
    assert not be.recent.entries
    match read:
        case "report":
            assert harness.state.load_reports.report(1.0).subscriptions[0].lam > 0
        case "changes":
            assert harness.state.load_reports.changes(1, 1.0, full=True).rates[7] > 0
        case "tick":
            harness.tick()
        case _:
            getattr(harness.state, read)
    assert len(be.recent.entries) == 1


def test_a_returning_subscriber_receives_the_latest_notifications():
    harness = harness_with(7)
    harness.state.on_notify([ev.Notified("C", 1, [line(7, 1)]), ev.Notified("C", 2, [line(7, 2)])], 0.0)
    harness.open("r")
    harness.subscribe("r", "7", after=0)
    assert executions(harness.took("r")) == [1, 2]


def test_a_recreated_channel_leaves_nothing_of_the_previous_one():
    harness = harness_with(7)
    harness.state.on_notify([ev.Notified("C", 5, [line(7, 5)], 1), ev.Notified("C", 1, [line(9, 1)], 2)], 0.0)
    assert (harness.state.cache.bytes, harness.state.cache.messages, list(harness.state.be_subscriptions.by_id)) == (
        0,
        0,
        [],
    )


def test_the_deferred_bookkeeping_is_limited():
    harness = harness_with(7)
    for execution in range(1, UNBOOKED):
        harness.state.on_notify([ev.Notified("C", execution, [line(7, execution)])], 0.0)
    be = harness.state.be_subscriptions.by_id[7]
    assert not be.recent.entries
    harness.state.on_notify([ev.Notified("C", UNBOOKED, [line(7, UNBOOKED)])], 0.0)
    assert be.recent.entries


def test_the_broker_decodes_the_data_clusters_notification():
    text = b'{"broker":"b","channel":"C","epoch":4,"execution":3,"results":[],"time":1.5,"subscriptions":[7]}'
    notification = msgspec.json.decode(text, type=Notification)
    assert (
        notification.broker,
        notification.channel,
        notification.execution,
        notification.lines,
        notification.epoch,
    ) == ("b", "C", 3, [], 4)
