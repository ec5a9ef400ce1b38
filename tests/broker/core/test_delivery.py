"""From the notification of an execution to the frames that go out."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness, at, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.model.rate import seconds
from tocsin.wire import messages as wire


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p", "q")
    harness.subscribed("p")
    harness.subscribed("q")
    return harness


def test_a_notified_execution_is_pulled(harness):
    harness.handle(ev.Notified("C", 1))
    assert harness.did(do.Pull) == [do.Pull("C", at(1))]


def test_all_subscribers_receive_the_same_message(harness):
    harness.handle(ev.Notified("C", 1))
    (send,) = harness.handle(ev.Pulled("C", at(1), [line(7, 1, b'[{"n": 1}]')]))
    text = b'{"type":"notify","channel":"C","subscription":7,"execution":1,"count":1,"results":[{"n": 1}]}'
    assert send == do.Send(("p", "q"), (text,))


def test_an_audience_that_stays_the_same_is_the_same_object(harness):
    audiences = []
    for execution in (1, 2):
        harness.handle(ev.Notified("C", execution))
        (send,) = harness.handle(ev.Pulled("C", at(execution), [line(7, execution)]))
        audiences.append(send.peers)
    assert audiences[0] is audiences[1]


def test_a_subscriber_receives_only_its_own_results(harness):
    harness.subscribed("q", 8, kind="flood")
    harness.executed(1, 8)
    assert harness.took("p") == [] and executions(harness.took("q")) == [1]


def test_executions_are_pulled_one_at_a_time_and_in_order(harness):
    for execution in (1, 2, 3):
        harness.handle(ev.Notified("C", execution))
    assert harness.did(do.Pull) == [do.Pull("C", at(1))]
    harness.handle(ev.Pulled("C", at(1), [line(7, 1)]))
    assert harness.did(do.Pull) == [do.Pull("C", at(2))]


def test_channels_are_pulled_concurrently(harness):
    harness.handle(ev.Notified("C", 1))
    harness.handle(ev.Notified("D", 1))
    assert [it.channel for it in harness.did(do.Pull)] == ["C", "D"]


def test_a_notification_that_arrives_twice_is_pulled_once(harness):
    harness.executed(1, 7)
    harness.handle(ev.Notified("C", 1))
    assert harness.did(do.Pull) == []


def test_the_parts_of_a_pull_are_delivered_as_they_arrive(harness):
    harness.subscribed("p", 8, kind="flood")
    harness.handle(ev.Notified("C", 1))
    harness.handle(ev.Pulled("C", at(1), [line(7, 1)], last=False))
    assert executions(harness.took("p")) == [1]
    harness.handle(ev.Pulled("C", at(1), [line(8, 1)]))
    assert executions(harness.took("p")) == [1]


def test_a_restarted_pull_delivers_nothing_twice(harness):
    harness.handle(ev.Notified("C", 1))
    for _ in range(2):
        harness.handle(ev.Pulled("C", at(1), [line(7, 1)], last=False))
    harness.handle(ev.Pulled("C", at(1), []))
    assert executions(harness.took("p")) == [1]


def test_results_of_an_execution_that_is_not_being_pulled_are_ignored(harness):
    assert harness.handle(ev.Pulled("C", at(4), [line(7, 4)])) == []


def test_pushed_results_need_no_pull(harness):
    harness.handle(ev.Notified("C", 1, [line(7, 1)]))
    assert harness.did(do.Pull) == [] and executions(harness.took("p")) == [1]


def test_pushed_results_wait_for_the_pull_before_them(harness):
    harness.handle(ev.Notified("C", 1))
    harness.handle(ev.Notified("C", 2, [line(7, 2)]))
    assert harness.took("p") == []
    harness.handle(ev.Pulled("C", at(1), [line(7, 1)]))
    assert executions(harness.took("p")) == [1, 2]


def test_results_without_a_subscriber_are_dropped(harness):
    harness.executed(1, 99)
    assert harness.took("p") == []


def test_executions_before_the_subscription_are_not_delivered():
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.subscribed("p", position=5)
    harness.executed(5, 7)
    harness.executed(6, 7)
    assert executions(harness.took("p")) == [6]


def test_a_subscription_confirmed_during_a_pull_begins_after_it(harness):
    """Its line may have been in a part that was already processed."""
    harness.handle(ev.Notified("C", 3))
    harness.subscribe("p", "flood")
    harness.handle(ev.Pulled("C", at(3), [line(8, 3)], last=False))
    harness.confirm(8, position=2)
    assert harness.took("p") == [wire.Subscribed(1, 8, "C", 3)]


def test_a_subscription_resumed_during_a_pull_receives_all_of_it(harness):
    harness.handle(ev.Notified("C", 3))
    harness.subscribe("p", "flood", after=1)
    harness.handle(ev.Pulled("C", at(3), [line(8, 3)], last=False))
    harness.confirm(8, position=2)
    (fetch,) = harness.did(do.Fetch)
    harness.handle(ev.Fetched(fetch.job, [line(8, 3)]))
    assert executions(harness.took("p")) == [3]


def test_deliveries_and_notifications_are_counted(harness):
    harness.executed(1, 7)
    counters = harness.state.counters
    assert (counters.notifications, counters.deliveries, counters.bytes_in) == (1, 2, 3)


def test_the_load_of_a_subscription_is_its_rate_and_its_subscribers(harness):
    for execution in range(1, 61):
        harness.executed(execution, 7)
    (load,) = harness.state.load_reports.report(harness.now).subscriptions
    assert (load.subscription, load.subscribers, load.lam) == (7, 2, 60 / seconds(0.0))


def test_a_notification_without_subscribers_leaves_no_channel():
    harness = BrokerHarness()
    harness.executed(1, 7)
    assert harness.state.be_subscriptions.channels == {}
