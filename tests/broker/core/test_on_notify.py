"""What is told at once: as if one after the other, though the books are kept later."""

from __future__ import annotations

import msgspec
import pytest
from broker_harness import BrokerHarness, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core.delivery import UNBOOKED, UNBOOKED_BYTES
from tocsin.broker.transport.notify_endpoint import Notification


def harness_with(*numbers: int) -> BrokerHarness:
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p", "q")
    for number in numbers:
        harness.subscribed("p", number, kind=str(number))
    harness.subscribed("q", numbers[0], kind=str(numbers[0]))
    return harness


TELLS = [
    ev.Notified("C", 1, [line(7, 1), line(8, 1)]),
    ev.Notified("C", 2, [line(7, 2, b"[22]"), line(99, 2)]),
    ev.Notified("C", 2, [line(7, 2)]),  # again
    ev.Notified("C", 3, [line(8, 3, b"x" * (UNBOOKED_BYTES + 1))]),
    ev.Notified("C", 4, [line(7, 4)]),
]


def test_it_is_as_if_they_came_one_after_the_other():
    together, apart = harness_with(7, 8), harness_with(7, 8)
    found = together.state.on_notify(TELLS, 5.0)
    expected = [it for tell in TELLS for it in apart.state.handle(tell, 5.0)]
    assert found == expected and found
    assert together.state.counters == apart.state.counters
    assert together.state.load_reports.report(9.0) == apart.state.load_reports.report(9.0)
    kept = [[back.recent.entries for back in each.state.be_subscriptions.by_id.values()] for each in (together, apart)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("look", ["counters", "cache", "report", "tick", "changes"])
def test_whoever_looks_finds_the_books_kept(look):
    harness = harness_with(7)
    harness.state.on_notify([ev.Notified("C", 1, [line(7, 1)])], 1.0)
    back = harness.state.be_subscriptions.by_id[7]
    assert not back.recent.entries
    match look:
        case "report":
            assert harness.state.load_reports.report(1.0).subscriptions[0].lam > 0
        case "changes":
            assert harness.state.load_reports.changes(1, 1.0, full=True).rates[7] > 0
        case "tick":
            harness.tick()
        case _:
            getattr(harness.state, look)
    assert len(back.recent.entries) == 1


def test_who_comes_back_gets_what_was_told_a_moment_ago():
    harness = harness_with(7)
    harness.state.on_notify([ev.Notified("C", 1, [line(7, 1)]), ev.Notified("C", 2, [line(7, 2)])], 0.0)
    harness.open("r")
    harness.subscribe("r", "7", after=0)
    assert executions(harness.took("r")) == [1, 2]


def test_a_channel_made_anew_leaves_nothing_of_the_one_before():
    harness = harness_with(7)
    harness.state.on_notify([ev.Notified("C", 5, [line(7, 5)], 1), ev.Notified("C", 1, [line(9, 1)], 2)], 0.0)
    assert (harness.state.cache.bytes, harness.state.cache.messages, list(harness.state.be_subscriptions.by_id)) == (
        0,
        0,
        [],
    )


def test_only_so_much_is_put_off():
    harness = harness_with(7)
    for execution in range(1, UNBOOKED):
        harness.state.on_notify([ev.Notified("C", execution, [line(7, execution)])], 0.0)
    back = harness.state.be_subscriptions.by_id[7]
    assert not back.recent.entries
    harness.state.on_notify([ev.Notified("C", UNBOOKED, [line(7, UNBOOKED)])], 0.0)
    assert back.recent.entries


def test_what_the_data_cluster_writes_is_what_is_told():
    text = b'{"broker":"b","channel":"C","epoch":4,"execution":3,"results":[],"time":1.5,"subscriptions":[7]}'
    tell = msgspec.json.decode(text, type=Notification)
    assert (tell.broker, tell.channel, tell.execution, tell.lines, tell.epoch) == ("b", "C", 3, [], 4)
