"""From being told of an execution to the frames that go out."""

from __future__ import annotations

import pytest
from stand import Stand, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.rate import seconds
from tocsin.wire import messages as wire
from tocsin.wire.frames import frame


@pytest.fixture
def stand() -> Stand:
    stand = Stand(heartbeat=0.0)
    stand.open("p", "q")
    stand.subscribed("p")
    stand.subscribed("q")
    return stand


def test_what_is_told_is_pulled(stand):
    stand.handle(ev.Told("C", 1))
    assert stand.did(do.Pull) == [do.Pull("C", 1)]


def test_the_same_frame_goes_to_all_of_them(stand):
    stand.handle(ev.Told("C", 1))
    (send,) = stand.handle(ev.Pulled("C", 1, [line(7, 1, b'[{"n": 1}]')]))
    text = b'{"type":"notify","channel":"C","subscription":7,"execution":1,"count":1,"results":[{"n": 1}]}'
    assert send == do.Send(("p", "q"), frame(text))


def test_an_audience_that_stays_the_same_is_the_same_object(stand):
    audiences = []
    for execution in (1, 2):
        stand.handle(ev.Told("C", execution))
        (send,) = stand.handle(ev.Pulled("C", execution, [line(7, execution)]))
        audiences.append(send.peers)
    assert audiences[0] is audiences[1]


def test_each_gets_only_its_own(stand):
    stand.subscribed("q", 8, kind="flood")
    stand.executed(1, 8)
    assert stand.took("p") == [] and executions(stand.took("q")) == [1]


def test_executions_are_pulled_one_at_a_time_and_in_order(stand):
    for execution in (1, 2, 3):
        stand.handle(ev.Told("C", execution))
    assert stand.did(do.Pull) == [do.Pull("C", 1)]
    stand.handle(ev.Pulled("C", 1, [line(7, 1)]))
    assert stand.did(do.Pull) == [do.Pull("C", 2)]


def test_channels_are_pulled_side_by_side(stand):
    stand.handle(ev.Told("C", 1))
    stand.handle(ev.Told("D", 1))
    assert [it.channel for it in stand.did(do.Pull)] == ["C", "D"]


def test_what_is_told_twice_is_pulled_once(stand):
    stand.executed(1, 7)
    stand.handle(ev.Told("C", 1))
    assert stand.did(do.Pull) == []


def test_parts_are_delivered_as_they_come(stand):
    stand.subscribed("p", 8, kind="flood")
    stand.handle(ev.Told("C", 1))
    stand.handle(ev.Pulled("C", 1, [line(7, 1)], last=False))
    assert executions(stand.took("p")) == [1]
    stand.handle(ev.Pulled("C", 1, [line(8, 1)]))
    assert executions(stand.took("p")) == [1]


def test_a_pull_that_begins_again_repeats_nothing(stand):
    stand.handle(ev.Told("C", 1))
    for _ in range(2):
        stand.handle(ev.Pulled("C", 1, [line(7, 1)], last=False))
    stand.handle(ev.Pulled("C", 1, []))
    assert executions(stand.took("p")) == [1]


def test_parts_of_what_is_not_being_pulled_are_ignored(stand):
    assert stand.handle(ev.Pulled("C", 4, [line(7, 4)])) == []


def test_what_is_pushed_needs_no_pull(stand):
    stand.handle(ev.Told("C", 1, [line(7, 1)]))
    assert stand.did(do.Pull) == [] and executions(stand.took("p")) == [1]


def test_what_is_pushed_waits_for_what_is_being_pulled(stand):
    stand.handle(ev.Told("C", 1))
    stand.handle(ev.Told("C", 2, [line(7, 2)]))
    assert stand.took("p") == []
    stand.handle(ev.Pulled("C", 1, [line(7, 1)]))
    assert executions(stand.took("p")) == [1, 2]


def test_results_that_nobody_here_has_go_nowhere(stand):
    stand.executed(1, 99)
    assert stand.took("p") == []


def test_what_was_there_before_the_subscription_is_not_delivered():
    stand = Stand(heartbeat=0.0)
    stand.open("p")
    stand.subscribed("p", position=5)
    stand.executed(5, 7)
    stand.executed(6, 7)
    assert executions(stand.took("p")) == [6]


def test_who_is_confirmed_in_the_middle_of_a_pull_begins_behind_it(stand):
    """Its own line may have been in the part that has passed."""
    stand.handle(ev.Told("C", 3))
    stand.subscribe("p", "flood")
    stand.handle(ev.Pulled("C", 3, [line(8, 3)], last=False))
    stand.wanted(8, position=2)
    assert stand.took("p") == [wire.Subscribed(1, 8, "C", 3)]


def test_who_resumes_in_the_middle_of_a_pull_gets_all_of_it(stand):
    stand.handle(ev.Told("C", 3))
    stand.subscribe("p", "flood", after=1)
    stand.handle(ev.Pulled("C", 3, [line(8, 3)], last=False))
    stand.wanted(8, position=2)
    (fetch,) = stand.did(do.Fetch)
    stand.handle(ev.Fetched(fetch.job, [line(8, 3)]))
    assert executions(stand.took("p")) == [3]


def test_deliveries_and_notifications_are_counted(stand):
    stand.executed(1, 7)
    counters = stand.state.counters
    assert (counters.notifications, counters.deliveries, counters.bytes_in) == (1, 2, 3)


def test_the_load_of_a_subscription_is_its_rate_and_its_subscribers(stand):
    for execution in range(1, 61):
        stand.executed(execution, 7)
    (load,) = stand.state.report(stand.now).subscriptions
    assert (load.subscription, load.subscribers, load.lam) == (7, 2, 60 / seconds(0.0))


def test_nothing_is_kept_of_a_channel_that_is_told_for_nothing():
    stand = Stand()
    stand.executed(1, 7)
    assert stand.state.channels == {}
