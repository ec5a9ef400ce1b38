"""Replay for lagging subscribers: they reconnected, are slow, or their broker was disconnected."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness, at, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def harness() -> BrokerHarness:
    """``p`` is live and has executions 11, 12 and 13, of which the broker keeps two."""
    harness = BrokerHarness(BrokerLimits(cache_results=2), heartbeat=0.0)
    harness.open("p", "q")
    harness.subscribed("p", position=10)
    for execution in (11, 12, 13):
        harness.executed(execution, 7)
    harness.took("p")
    return harness


def fetch(harness: BrokerHarness) -> do.Fetch:
    (found,) = harness.did(do.Fetch)
    return found


# -- resuming ----------------------------------------------------------------------------------------------------------


def test_a_short_gap_is_replayed_from_recent_results(harness):
    harness.subscribe("q", after=11)
    first, *rest, last = harness.took("q")
    assert first == wire.Subscribed(1, 7, "C", 11)
    assert executions(rest) == [12, 13] and last == wire.Live(7, 13)
    assert harness.did(do.Fetch) == [] and harness.state.cache.hits == 1


def test_a_resumed_subscription_that_missed_nothing_is_live(harness):
    harness.subscribe("q", after=13)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 13), wire.Live(7, 13)]


def test_a_new_subscription_is_live_without_a_live_message(harness):
    harness.subscribe("q")
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 13)]


def test_a_subscriber_ahead_of_the_broker_resumes_at_the_brokers_position(harness):
    harness.subscribe("q", after=20)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 13), wire.Live(7, 13)]


def test_a_long_gap_is_replayed_from_the_data_cluster(harness):
    harness.subscribe("q", after=3)
    request = fetch(harness)
    assert (request.channel, request.subscription, request.position.execution) == ("C", 7, 3)
    harness.took("q")
    harness.handle(ev.Fetched(request.job, [line(7, 5), line(7, 13)]))
    *rest, last = harness.took("q")
    assert executions(rest) == [5, 13] and last == wire.Live(7, 13)


def test_missed_results_are_fetched_in_pages(harness):
    harness.subscribe("q", after=3)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 5)], more=True))
    request = fetch(harness)
    assert request.position.execution == 5
    harness.handle(ev.Fetched(request.job, [line(7, 12)]))
    assert executions(harness.took("q")) == [5, 12]


def test_replay_switches_to_recent_results_as_soon_as_they_suffice(harness):
    harness.subscribe("q", after=3)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 5), line(7, 11)], more=True))
    assert executions(harness.took("q")) == [5, 11, 12, 13] and harness.did(do.Fetch) == []


def test_a_fetched_result_that_will_come_live_is_not_sent_twice(harness):
    harness.subscribe("q", after=3)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 13), line(7, 14)]))
    assert executions(harness.took("q")) == [13]
    harness.executed(14, 7)
    assert executions(harness.took("q")) == [14]


def test_one_fetch_serves_all_waiting_subscribers_each_with_its_part(harness):
    harness.open("r")
    harness.subscribe("q", after=3)
    harness.subscribe("r", after=5)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 4), line(7, 5), line(7, 6)]))
    assert executions(harness.took("q")) == [4, 5, 6] and executions(harness.took("r")) == [6]


def test_a_subscriber_with_an_older_position_waits_for_the_next_fetch(harness):
    harness.open("r")
    harness.subscribe("q", after=5)
    request = fetch(harness)
    harness.subscribe("r", after=3)
    harness.handle(ev.Fetched(request.job, [line(7, 6)]))
    assert executions(harness.took("r")) == []
    assert fetch(harness).position.execution == 3


def test_a_subscriber_that_leaves_during_its_fetch_receives_nothing(harness):
    harness.subscribe("q", after=3)
    harness.close("q")
    harness.took("q")
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 5)]))
    assert harness.took("q") == []


def test_an_answer_to_an_unknown_fetch_is_ignored(harness):
    assert harness.handle(ev.Fetched(99, [line(7, 5)])) == harness.handle(ev.FetchGap(99, at(5))) == []


# -- gaps --------------------------------------------------------------------------------------------------------------


def test_expired_results_are_announced_as_a_gap_and_the_rest_follows(harness):
    harness.subscribe("q", after=3)
    harness.took("q")
    harness.handle(ev.FetchGap(fetch(harness).job, at(8)))
    assert harness.took("q") == [wire.Gap(7, 3, 8, "retention")]
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 9)]))
    assert executions(harness.took("q")) == [9]


def test_only_subscribers_that_missed_results_receive_the_gap(harness):
    harness.open("r")
    harness.subscribe("q", after=3)
    harness.subscribe("r", after=9)
    harness.took("r")
    harness.handle(ev.FetchGap(fetch(harness).job, at(8)))
    assert harness.took("r") == []


# -- slow readers ------------------------------------------------------------------------------------------------------


def test_a_slow_subscriber_receives_lagging_and_no_more_results(harness):
    harness.handle(ev.Congested("p"))
    harness.executed(14, 7)
    assert harness.took("p") == [wire.Lagging(7, 13)]


def test_a_slow_subscriber_does_not_affect_the_others(harness):
    harness.subscribed("q")
    harness.handle(ev.Congested("p"))
    harness.executed(14, 7)
    assert executions(harness.took("q")) == [14]


def test_a_drained_subscriber_receives_what_it_missed(harness):
    harness.handle(ev.Congested("p"))
    harness.executed(14, 7)
    harness.took("p")
    harness.handle(ev.Drained("p"))
    *rest, last = harness.took("p")
    assert executions(rest) == [14] and last == wire.Live(7, 14)


def test_a_subscriber_that_was_slow_for_long_is_replayed_from_the_data_cluster(harness):
    harness.handle(ev.Congested("p"))
    for execution in range(14, 18):
        harness.executed(execution, 7)
    harness.handle(ev.Drained("p"))
    assert fetch(harness).position.execution == 13


def test_repeated_congestion_events_change_nothing(harness):
    harness.handle(ev.Congested("p"))
    harness.took("p")
    assert harness.handle(ev.Congested("p")) == []
    harness.handle(ev.Drained("p"))
    assert harness.handle(ev.Drained("p")) == []


def test_a_subscriber_that_becomes_slow_during_its_fetch_is_fetched_for_later(harness):
    harness.subscribe("q", after=3)
    request = fetch(harness)
    harness.handle(ev.Congested("q"))
    harness.took("q")
    harness.handle(ev.Fetched(request.job, [line(7, 5)]))
    assert harness.took("q") == []
    harness.handle(ev.Drained("q"))
    assert fetch(harness).position.execution == 3


def test_a_subscription_made_while_slow_is_served_after_draining(harness):
    harness.handle(ev.Congested("q"))
    harness.subscribe("q", after=12)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 12)]
    harness.handle(ev.Drained("q"))
    assert executions(harness.took("q")) == [13]


def test_a_slow_subscriber_that_leaves_is_forgotten(harness):
    harness.handle(ev.Congested("p"))
    harness.close("p")
    assert harness.state.be_subscriptions.by_id[7].unused


def test_the_report_contains_the_largest_lag(harness):
    harness.subscribe("q", after=3)
    assert harness.state.load_reports.largest_lag() == 10
    assert harness.state.load_reports.report(0.0).catching_up == 1


# -- previous ids ------------------------------------------------------------------------------------------------------


def test_results_of_the_previous_id_come_first_then_the_gap_between_the_ids(harness):
    harness.subscribe("q", after=3, previous_id=4)
    request = fetch(harness)
    assert (request.subscription, request.position.execution) == (4, 3)
    harness.took("q")
    harness.handle(ev.Fetched(request.job, [line(4, 5)]))
    request = fetch(harness)
    assert (request.subscription, request.position.execution, request.find_begin) == (7, 5, True)
    harness.handle(ev.Fetched(request.job, [line(7, 11), line(7, 12)], begins_after=at(10)))
    notify, gap = harness.took("q")
    assert (notify.subscription, notify.execution) == (7, 5)
    assert gap == wire.Gap(7, 5, 11, "released")
    assert fetch(harness).position.execution == 10


def test_results_of_the_current_id_from_another_broker_are_not_a_gap(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    harness.took("q")
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 4)], begins_after=at(10)))
    assert harness.took("q") == []
    assert fetch(harness).position.execution == 3


def test_a_previous_id_without_results_leaves_a_gap_up_to_the_current_id(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    harness.took("q")
    harness.handle(ev.Fetched(fetch(harness).job, [], begins_after=at(10)))
    assert harness.took("q") == [wire.Gap(7, 3, 11, "released")]


def fetch_early(harness: BrokerHarness, after: int = 3) -> None:
    """Fetches the beginning of the current id while an execution runs that began before it."""
    harness.subscribe("q", after=after, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    harness.took("q")
    harness.handle(ev.FetchEarly(fetch(harness).job))


@pytest.mark.parametrize("after", [3, 10])  # 10: only the running execution comes after it
def test_an_execution_that_began_before_the_subscription_is_part_of_the_gap(harness, after):
    fetch_early(harness, after)
    assert harness.did(do.Fetch) == [] and harness.took("q") == []
    harness.tick()
    request = fetch(harness)
    assert (request.subscription, request.position.execution, request.find_begin) == (
        4,
        after,
        False,
    )  # it may have got something by now
    harness.handle(ev.Fetched(request.job, []))
    harness.handle(ev.Fetched(fetch(harness).job, [], begins_after=at(11)))
    gap, *rest = harness.took("q")
    assert gap == wire.Gap(7, after, 12, "released")
    assert executions(rest) == [12, 13]


def test_a_subscriber_that_has_left_is_not_fetched_for_again(harness):
    fetch_early(harness)
    harness.close("q")
    harness.took("q")
    harness.tick()
    assert harness.did(do.Fetch) == []


def test_a_subscriber_that_subscribed_again_is_fetched_for_once(harness):
    fetch_early(harness)
    harness.subscribe("q", after=3, previous_id=4, id=2)
    harness.tick()
    assert len(harness.did(do.Fetch)) == 1


def test_an_early_answer_to_an_unknown_fetch_is_ignored(harness):
    assert harness.handle(ev.FetchEarly(99)) == []


def test_the_previous_id_is_fetched_in_pages(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, [line(4, 5)], more=True))
    request = fetch(harness)
    assert (request.subscription, request.position.execution) == (4, 5)


def test_expired_results_of_the_previous_id_are_a_gap_and_the_rest_follows(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.took("q")
    harness.handle(ev.FetchGap(fetch(harness).job, at(6)))
    assert harness.took("q") == [wire.Gap(7, 3, 6, "retention")]
    request = fetch(harness)
    assert (request.subscription, request.position.execution) == (4, 5)


def test_replay_continues_from_recent_results_if_the_previous_id_expired(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.took("q")
    harness.handle(ev.FetchGap(fetch(harness).job, at(12)))
    assert executions(harness.took("q")) == [12, 13]


def test_a_subscriber_with_all_results_of_the_previous_id_resumes_as_usual(harness):
    harness.subscribe("q", after=11, previous_id=4)
    assert executions(harness.took("q")) == [12, 13]


def test_only_the_answer_to_the_latest_fetch_counts(harness):
    harness.subscribe("q", after=5, previous_id=4)
    old = fetch(harness)
    harness.subscribe("q", after=3, previous_id=4, id=2)
    new = fetch(harness)
    harness.took("q")
    harness.handle(ev.Fetched(old.job, [line(4, 6)]))
    assert harness.took("q") == []
    harness.handle(ev.Fetched(new.job, [line(4, 4), line(4, 6)]))
    assert executions(harness.took("q")) == [4, 6]


def returning_user(harness: BrokerHarness, after: int = 3) -> None:
    """A user resumes whose subscription had id 4 up to execution 6, and id 5 since; it sends only its position."""
    harness.log_in("u", "ann", wire.DurableSubscription(5, "C", ["fire"], after, {4: 6}))
    harness.subscribe("u", after=after)
    harness.took("u")


def test_all_previous_ids_of_a_user_are_replayed_in_their_order(harness):
    returning_user(harness)
    request = fetch(harness)
    assert (request.subscription, request.position.execution) == (4, 3)
    harness.handle(ev.Fetched(request.job, [line(4, 4)]))
    request = fetch(harness)
    assert (request.subscription, request.position.execution, request.find_begin) == (5, 4, False)
    harness.handle(ev.Fetched(request.job, [line(5, 7)], more=True))
    harness.handle(ev.Fetched(fetch(harness).job, [line(5, 9)]))
    request = fetch(harness)
    assert (request.subscription, request.position.execution, request.find_begin) == (7, 9, True)
    harness.handle(ev.Fetched(request.job, [line(7, 11)], begins_after=at(10)))
    first, gap, second, third, last = harness.took("u")
    assert [first.execution, second.execution, third.execution] == [4, 7, 9]
    assert (gap, last) == (wire.Gap(7, 4, 7, "released"), wire.Gap(7, 9, 11, "released"))


def test_previous_ids_before_the_users_position_are_not_fetched(harness):
    returning_user(harness, after=7)
    assert fetch(harness).subscription == 5


def test_a_user_that_is_slow_between_two_ids_receives_the_gap_between_them(harness):
    returning_user(harness)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    request = fetch(harness)
    harness.handle(ev.Congested("u"))
    harness.handle(ev.Fetched(request.job, [line(5, 7)]))
    harness.took("u")
    harness.handle(ev.Drained("u"))
    harness.handle(ev.Fetched(fetch(harness).job, [line(5, 7)]))
    gap, notify = harness.took("u")
    assert gap == wire.Gap(7, 3, 7, "released") and notify.execution == 7


def test_a_subscriber_that_becomes_slow_continues_with_its_previous_id_later(harness):
    harness.subscribe("q", after=3, previous_id=4)
    request = fetch(harness)
    harness.handle(ev.Congested("q"))
    harness.took("q")
    harness.handle(ev.Fetched(request.job, [line(4, 5)]))
    assert harness.took("q") == []
    harness.handle(ev.Drained("q"))
    request = fetch(harness)
    assert (request.subscription, request.position.execution) == (4, 3)


def test_the_previous_id_is_not_fetched_for_a_subscriber_that_has_left(harness):
    harness.subscribe("q", after=3, previous_id=4)
    request = fetch(harness)
    harness.close("q")
    harness.took("q")
    harness.handle(ev.Fetched(request.job, [line(4, 5)], more=True))
    assert harness.took("q") == [] and harness.did(do.Fetch) == []


def test_results_of_a_claimed_id_are_asked_for_as_those_of_the_present_one(harness):
    """The data cluster gives nothing of an id with other arguments: then a gap is announced."""
    harness.close("p")
    harness.tick(100)
    harness.did(do.Unsubscribe)
    harness.handle(ev.Unsubscribed("C"))
    harness.subscribe("q", after=3, previous_id=4)
    harness.confirm(9, position=20)
    request = fetch(harness)
    assert (request.subscription, request.same_as) == (4, 9)
    harness.handle(ev.Fetched(request.job, []))
    request = fetch(harness)
    assert (request.subscription, request.same_as, request.find_begin) == (9, None, True)
    harness.handle(ev.Fetched(request.job, [], begins_after=at(20)))
    _, gap, live = harness.took("q")
    assert (gap.after, gap.next, gap.reason) == (3, 21, "released") and live == wire.Live(9, 20)


# -- lost notifications ------------------------------------------------------------------------------------------------


def test_all_subscriptions_are_fetched_again_after_lost_notifications(harness):
    harness.handle(ev.Missed({"C": at(20)}))
    request = fetch(harness)
    assert request.position.execution == 13
    harness.handle(ev.Fetched(request.job, [line(7, 15)]))
    *rest, last = harness.took("p")
    assert executions(rest) == [15] and last == wire.Live(7, 20)


def test_a_late_notification_of_fetched_results_sends_nothing_twice(harness):
    harness.handle(ev.Missed({"C": at(20)}))
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 15)]))
    harness.took("p")
    harness.executed(15, 7)
    harness.executed(21, 7)
    assert executions(harness.took("p")) == [21]


def test_no_subscription_is_fetched_again_if_no_notification_was_lost(harness):
    assert harness.handle(ev.Missed({"C": at(13), "D": at(5)})) == []


def test_a_subscription_after_the_lost_notifications_is_not_fetched_again(harness):
    harness.subscribed("q", 8, position=30, kind="flood")
    harness.handle(ev.Missed({"C": at(20)}))
    assert [it.subscription for it in harness.did(do.Fetch)] == [7]
    harness.executed(25, 8)
    assert harness.took("q") == []


def test_a_subscription_confirmed_late_begins_after_the_lost_notifications(harness):
    harness.subscribe("q", "flood")
    harness.handle(ev.Missed({"C": at(20)}))
    harness.confirm(8, position=15)
    assert harness.took("q") == [wire.Subscribed(1, 8, "C", 20)]


def test_an_execution_that_expired_before_it_was_pulled_is_a_gap(harness):
    harness.handle(ev.Notified("C", 14))
    harness.handle(ev.Missed({"C": at(14)}))
    request = fetch(harness)
    harness.handle(ev.Pulled("C", at(14), []))
    harness.handle(ev.FetchGap(request.job, at(15)))
    assert harness.took("p") == [wire.Gap(7, 13, 15, "retention"), wire.Live(7, 14)]
