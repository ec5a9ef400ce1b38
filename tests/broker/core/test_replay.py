"""Those who are behind: who came back, who is slow, who was cut off with the broker itself."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness, at, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def harness() -> BrokerHarness:
    """p is live and has executions 11, 12 and 13, of which the broker remembers two."""
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


# -- coming back -------------------------------------------------------------------------------------------------------


def test_who_missed_little_gets_it_from_recent_results(harness):
    harness.subscribe("q", after=11)
    first, *rest, last = harness.took("q")
    assert first == wire.Subscribed(1, 7, "C", 11)
    assert executions(rest) == [12, 13] and last == wire.Live(7, 13)
    assert harness.did(do.Fetch) == [] and harness.state.cache.hits == 1


def test_who_missed_nothing_is_live(harness):
    harness.subscribe("q", after=13)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 13), wire.Live(7, 13)]


def test_who_is_new_is_live_without_a_word(harness):
    harness.subscribe("q")
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 13)]


def test_who_is_ahead_of_the_broker_gets_some_of_it_twice(harness):
    harness.subscribe("q", after=20)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 13), wire.Live(7, 13)]


def test_who_missed_more_gets_it_from_the_data_cluster(harness):
    harness.subscribe("q", after=3)
    asked = fetch(harness)
    assert (asked.channel, asked.subscription, asked.position.execution) == ("C", 7, 3)
    harness.took("q")
    harness.handle(ev.Fetched(asked.job, [line(7, 5), line(7, 13)]))
    *rest, last = harness.took("q")
    assert executions(rest) == [5, 13] and last == wire.Live(7, 13)


def test_what_was_missed_comes_in_pages(harness):
    harness.subscribe("q", after=3)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 5)], more=True))
    asked = fetch(harness)
    assert asked.position.execution == 5
    harness.handle(ev.Fetched(asked.job, [line(7, 12)]))
    assert executions(harness.took("q")) == [5, 12]


def test_the_rest_comes_from_recent_results_as_soon_as_they_reach_back(harness):
    harness.subscribe("q", after=3)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 5), line(7, 11)], more=True))
    assert executions(harness.took("q")) == [5, 11, 12, 13] and harness.did(do.Fetch) == []


def test_what_is_fetched_and_still_to_come_live_is_left_to_that(harness):
    harness.subscribe("q", after=3)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 13), line(7, 14)]))
    assert executions(harness.took("q")) == [13]
    harness.executed(14, 7)
    assert executions(harness.took("q")) == [14]


def test_all_who_wait_are_fetched_for_at_once_and_each_gets_its_part(harness):
    harness.open("r")
    harness.subscribe("q", after=3)
    harness.subscribe("r", after=5)
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 4), line(7, 5), line(7, 6)]))
    assert executions(harness.took("q")) == [4, 5, 6] and executions(harness.took("r")) == [6]


def test_who_comes_with_an_older_position_waits_for_the_next_fetch(harness):
    harness.open("r")
    harness.subscribe("q", after=5)
    asked = fetch(harness)
    harness.subscribe("r", after=3)
    harness.handle(ev.Fetched(asked.job, [line(7, 6)]))
    assert executions(harness.took("r")) == []
    assert fetch(harness).position.execution == 3


def test_who_leaves_while_it_is_fetched_for_gets_nothing(harness):
    harness.subscribe("q", after=3)
    harness.close("q")
    harness.took("q")
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 5)]))
    assert harness.took("q") == []


def test_an_answer_that_nobody_asked_for_is_ignored(harness):
    assert harness.handle(ev.Fetched(99, [line(7, 5)])) == harness.handle(ev.FetchGap(99, at(5))) == []


# -- gaps --------------------------------------------------------------------------------------------------------------


def test_what_has_expired_is_announced_and_the_rest_follows(harness):
    harness.subscribe("q", after=3)
    harness.took("q")
    harness.handle(ev.FetchGap(fetch(harness).job, at(8)))
    assert harness.took("q") == [wire.Gap(7, 3, 8, "retention")]
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 9)]))
    assert executions(harness.took("q")) == [9]


def test_only_who_missed_it_is_told_of_a_gap(harness):
    harness.open("r")
    harness.subscribe("q", after=3)
    harness.subscribe("r", after=9)
    harness.took("r")
    harness.handle(ev.FetchGap(fetch(harness).job, at(8)))
    assert harness.took("r") == []


# -- slow readers ------------------------------------------------------------------------------------------------------


def test_who_is_slow_is_told_where_it_is_and_gets_no_more(harness):
    harness.handle(ev.Congested("p"))
    harness.executed(14, 7)
    assert harness.took("p") == [wire.Lagging(7, 13)]


def test_others_do_not_notice_who_is_slow(harness):
    harness.subscribed("q")
    harness.handle(ev.Congested("p"))
    harness.executed(14, 7)
    assert executions(harness.took("q")) == [14]


def test_who_has_read_everything_gets_what_came_meanwhile(harness):
    harness.handle(ev.Congested("p"))
    harness.executed(14, 7)
    harness.took("p")
    harness.handle(ev.Drained("p"))
    *rest, last = harness.took("p")
    assert executions(rest) == [14] and last == wire.Live(7, 14)


def test_who_was_slow_for_long_gets_it_from_the_data_cluster(harness):
    harness.handle(ev.Congested("p"))
    for execution in range(14, 18):
        harness.executed(execution, 7)
    harness.handle(ev.Drained("p"))
    assert fetch(harness).position.execution == 13


def test_being_slow_twice_is_being_slow_once(harness):
    harness.handle(ev.Congested("p"))
    harness.took("p")
    assert harness.handle(ev.Congested("p")) == []
    harness.handle(ev.Drained("p"))
    assert harness.handle(ev.Drained("p")) == []


def test_who_becomes_slow_while_it_is_fetched_for_is_fetched_for_later(harness):
    harness.subscribe("q", after=3)
    asked = fetch(harness)
    harness.handle(ev.Congested("q"))
    harness.took("q")
    harness.handle(ev.Fetched(asked.job, [line(7, 5)]))
    assert harness.took("q") == []
    harness.handle(ev.Drained("q"))
    assert fetch(harness).position.execution == 3


def test_who_subscribes_while_it_is_slow_is_served_when_it_has_read(harness):
    harness.handle(ev.Congested("q"))
    harness.subscribe("q", after=12)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 12)]
    harness.handle(ev.Drained("q"))
    assert executions(harness.took("q")) == [13]


def test_who_is_slow_and_leaves_is_forgotten(harness):
    harness.handle(ev.Congested("p"))
    harness.close("p")
    assert harness.state.be_subscriptions.by_id[7].unused


def test_the_one_who_is_furthest_behind_is_measured(harness):
    harness.subscribe("q", after=3)
    assert harness.state.load_reports.largest_lag() == 10
    assert harness.state.load_reports.report(0.0).catching_up == 1


# -- another number ----------------------------------------------------------------------------------------------------


def test_the_rest_of_the_former_number_comes_first_and_then_what_lies_between_is_announced(harness):
    harness.subscribe("q", after=3, previous_id=4)
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution) == (4, 3)
    harness.took("q")
    harness.handle(ev.Fetched(asked.job, [line(4, 5)]))
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution, asked.find_begin) == (7, 5, True)
    harness.handle(ev.Fetched(asked.job, [line(7, 11), line(7, 12)], begins_after=at(10)))
    notify, gap = harness.took("q")
    assert (notify.subscription, notify.execution) == (7, 5)
    assert gap == wire.Gap(7, 5, 11, "released")
    assert fetch(harness).position.execution == 10


def test_what_the_present_number_got_at_another_broker_is_no_gap(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    harness.took("q")
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 4)], begins_after=at(10)))
    assert harness.took("q") == []
    assert fetch(harness).position.execution == 3


def test_a_former_number_without_results_leaves_a_gap_up_to_the_present_one(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    harness.took("q")
    harness.handle(ev.Fetched(fetch(harness).job, [], begins_after=at(10)))
    assert harness.took("q") == [wire.Gap(7, 3, 11, "released")]


def early(harness: BrokerHarness, after: int = 3) -> None:
    """Asked where the present number begins while an execution is under way that has not seen it."""
    harness.subscribe("q", after=after, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    harness.took("q")
    harness.handle(ev.FetchEarly(fetch(harness).job))


@pytest.mark.parametrize("after", [3, 10])  # 10: nothing happened since, but for what is under way
def test_an_execution_that_the_subscription_came_too_late_for_is_part_of_the_gap(harness, after):
    early(harness, after)
    assert harness.did(do.Fetch) == [] and harness.took("q") == []
    harness.tick()
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution, asked.find_begin) == (
        4,
        after,
        False,
    )  # it may have got something by now
    harness.handle(ev.Fetched(asked.job, []))
    harness.handle(ev.Fetched(fetch(harness).job, [], begins_after=at(11)))
    gap, *rest = harness.took("q")
    assert gap == wire.Gap(7, after, 12, "released")
    assert executions(rest) == [12, 13]


def test_who_has_left_is_not_asked_for_again(harness):
    early(harness)
    harness.close("q")
    harness.took("q")
    harness.tick()
    assert harness.did(do.Fetch) == []


def test_who_asked_anew_meanwhile_is_asked_for_once(harness):
    early(harness)
    harness.subscribe("q", after=3, previous_id=4, id=2)
    harness.tick()
    assert len(harness.did(do.Fetch)) == 1


def test_an_answer_that_nobody_waits_for_is_nothing(harness):
    assert harness.handle(ev.FetchEarly(99)) == []


def test_the_former_number_is_asked_in_pages(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.handle(ev.Fetched(fetch(harness).job, [line(4, 5)], more=True))
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution) == (4, 5)


def test_what_expired_of_the_former_number_is_announced_and_its_rest_follows(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.took("q")
    harness.handle(ev.FetchGap(fetch(harness).job, at(6)))
    assert harness.took("q") == [wire.Gap(7, 3, 6, "retention")]
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution) == (4, 5)


def test_a_former_number_that_expired_altogether_is_one_gap(harness):
    harness.subscribe("q", after=3, previous_id=4)
    harness.took("q")
    harness.handle(ev.FetchGap(fetch(harness).job, at(12)))
    assert executions(harness.took("q")) == [12, 13]


def test_who_has_all_of_the_former_number_resumes_as_usual(harness):
    harness.subscribe("q", after=11, previous_id=4)
    assert executions(harness.took("q")) == [12, 13]


def test_only_the_answer_to_the_latest_request_counts(harness):
    harness.subscribe("q", after=5, previous_id=4)
    old = fetch(harness)
    harness.subscribe("q", after=3, previous_id=4, id=2)
    new = fetch(harness)
    harness.took("q")
    harness.handle(ev.Fetched(old.job, [line(4, 6)]))
    assert harness.took("q") == []
    harness.handle(ev.Fetched(new.job, [line(4, 4), line(4, 6)]))
    assert executions(harness.took("q")) == [4, 6]


def kept(harness: BrokerHarness, after: int = 3) -> None:
    """A user comes back who had the subscription as 4 up to execution 6, and then as 5; all that it says is how far it
    has come."""
    harness.log_in("u", "ann", wire.DurableSubscription(5, "C", ["fire"], after, {4: 6}))
    harness.subscribe("u", after=after)
    harness.took("u")


def test_all_numbers_that_a_user_had_come_in_their_order(harness):
    kept(harness)
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution) == (4, 3)
    harness.handle(ev.Fetched(asked.job, [line(4, 4)]))
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution, asked.find_begin) == (5, 4, False)
    harness.handle(ev.Fetched(asked.job, [line(5, 7)], more=True))
    harness.handle(ev.Fetched(fetch(harness).job, [line(5, 9)]))
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution, asked.find_begin) == (7, 9, True)
    harness.handle(ev.Fetched(asked.job, [line(7, 11)], begins_after=at(10)))
    first, gap, second, third, last = harness.took("u")
    assert [first.execution, second.execution, third.execution] == [4, 7, 9]
    assert (gap, last) == (wire.Gap(7, 4, 7, "released"), wire.Gap(7, 9, 11, "released"))


def test_numbers_that_a_user_is_behind_are_not_asked(harness):
    kept(harness, after=7)
    assert fetch(harness).subscription == 5


def test_who_is_slow_between_two_of_its_numbers_is_told_what_lies_there(harness):
    kept(harness)
    harness.handle(ev.Fetched(fetch(harness).job, []))
    asked = fetch(harness)
    harness.handle(ev.Congested("u"))
    harness.handle(ev.Fetched(asked.job, [line(5, 7)]))
    harness.took("u")
    harness.handle(ev.Drained("u"))
    harness.handle(ev.Fetched(fetch(harness).job, [line(5, 7)]))
    gap, notify = harness.took("u")
    assert gap == wire.Gap(7, 3, 7, "released") and notify.execution == 7


def test_who_is_slow_in_the_middle_of_its_former_number_goes_on_with_it_later(harness):
    harness.subscribe("q", after=3, previous_id=4)
    asked = fetch(harness)
    harness.handle(ev.Congested("q"))
    harness.took("q")
    harness.handle(ev.Fetched(asked.job, [line(4, 5)]))
    assert harness.took("q") == []
    harness.handle(ev.Drained("q"))
    asked = fetch(harness)
    assert (asked.subscription, asked.position.execution) == (4, 3)


def test_who_leaves_in_the_middle_of_its_former_number_is_not_fetched_for(harness):
    harness.subscribe("q", after=3, previous_id=4)
    asked = fetch(harness)
    harness.close("q")
    harness.took("q")
    harness.handle(ev.Fetched(asked.job, [line(4, 5)], more=True))
    assert harness.took("q") == [] and harness.did(do.Fetch) == []


# -- the broker was cut off --------------------------------------------------------------------------------------------


def test_everybody_looks_again_when_tells_were_lost(harness):
    harness.handle(ev.Missed({"C": at(20)}))
    asked = fetch(harness)
    assert asked.position.execution == 13
    harness.handle(ev.Fetched(asked.job, [line(7, 15)]))
    *rest, last = harness.took("p")
    assert executions(rest) == [15] and last == wire.Live(7, 20)


def test_what_is_told_late_of_what_was_looked_for_is_not_sent_twice(harness):
    harness.handle(ev.Missed({"C": at(20)}))
    harness.handle(ev.Fetched(fetch(harness).job, [line(7, 15)]))
    harness.took("p")
    harness.executed(15, 7)
    harness.executed(21, 7)
    assert executions(harness.took("p")) == [21]


def test_nobody_looks_again_when_nothing_was_lost(harness):
    assert harness.handle(ev.Missed({"C": at(13), "D": at(5)})) == []


def test_who_came_after_what_was_lost_does_not_look_again(harness):
    harness.subscribed("q", 8, position=30, kind="flood")
    harness.handle(ev.Missed({"C": at(20)}))
    assert [it.subscription for it in harness.did(do.Fetch)] == [7]
    harness.executed(25, 8)
    assert harness.took("q") == []


def test_who_is_confirmed_late_begins_behind_what_was_lost(harness):
    harness.subscribe("q", "flood")
    harness.handle(ev.Missed({"C": at(20)}))
    harness.confirm(8, position=15)
    assert harness.took("q") == [wire.Subscribed(1, 8, "C", 20)]


def test_an_execution_that_expired_before_it_was_pulled_is_a_gap(harness):
    harness.handle(ev.Notified("C", 14))
    harness.handle(ev.Missed({"C": at(14)}))
    asked = fetch(harness)
    harness.handle(ev.Pulled("C", at(14), []))
    harness.handle(ev.FetchGap(asked.job, at(15)))
    assert harness.took("p") == [wire.Gap(7, 13, 15, "retention"), wire.Live(7, 14)]
