"""Those who are behind: who came back, who is slow, who was cut off with the broker itself."""

from __future__ import annotations

import pytest
from stand import Stand, executions, line

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def stand() -> Stand:
    """p is live and has executions 11, 12 and 13, of which the broker remembers two."""
    stand = Stand(BrokerLimits(cache_results=2), heartbeat=0.0)
    stand.open("p", "q")
    stand.subscribed("p", position=10)
    for execution in (11, 12, 13):
        stand.executed(execution, 7)
    stand.took("p")
    return stand


def fetch(stand: Stand) -> do.Fetch:
    (found,) = stand.did(do.Fetch)
    return found


# -- coming back -------------------------------------------------------------------------------------------------------


def test_who_missed_little_gets_it_from_recent_results(stand):
    stand.subscribe("q", after=11)
    first, *rest, last = stand.took("q")
    assert first == wire.Subscribed(1, 7, "C", 11)
    assert executions(rest) == [12, 13] and last == wire.Live(7, 13)
    assert stand.did(do.Fetch) == [] and stand.state.cache.hits == 1


def test_who_missed_nothing_is_live(stand):
    stand.subscribe("q", after=13)
    assert stand.took("q") == [wire.Subscribed(1, 7, "C", 13), wire.Live(7, 13)]


def test_who_is_new_is_live_without_a_word(stand):
    stand.subscribe("q")
    assert stand.took("q") == [wire.Subscribed(1, 7, "C", 13)]


def test_who_is_ahead_of_the_broker_gets_some_of_it_twice(stand):
    stand.subscribe("q", after=20)
    assert stand.took("q") == [wire.Subscribed(1, 7, "C", 13), wire.Live(7, 13)]


def test_who_missed_more_gets_it_from_the_data_cluster(stand):
    stand.subscribe("q", after=3)
    asked = fetch(stand)
    assert (asked.channel, asked.subscription, asked.after) == ("C", 7, 3)
    stand.took("q")
    stand.handle(ev.Fetched(asked.job, [line(7, 5), line(7, 13)]))
    *rest, last = stand.took("q")
    assert executions(rest) == [5, 13] and last == wire.Live(7, 13)


def test_what_was_missed_comes_in_pages(stand):
    stand.subscribe("q", after=3)
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 5)], more=True))
    asked = fetch(stand)
    assert asked.after == 5
    stand.handle(ev.Fetched(asked.job, [line(7, 12)]))
    assert executions(stand.took("q")) == [5, 12]


def test_the_rest_comes_from_recent_results_as_soon_as_they_reach_back(stand):
    stand.subscribe("q", after=3)
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 5), line(7, 11)], more=True))
    assert executions(stand.took("q")) == [5, 11, 12, 13] and stand.did(do.Fetch) == []


def test_what_is_fetched_and_still_to_come_live_is_left_to_that(stand):
    stand.subscribe("q", after=3)
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 13), line(7, 14)]))
    assert executions(stand.took("q")) == [13]
    stand.executed(14, 7)
    assert executions(stand.took("q")) == [14]


def test_all_who_wait_are_fetched_for_at_once_and_each_gets_its_part(stand):
    stand.open("r")
    stand.subscribe("q", after=3)
    stand.subscribe("r", after=5)
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 4), line(7, 5), line(7, 6)]))
    assert executions(stand.took("q")) == [4, 5, 6] and executions(stand.took("r")) == [6]


def test_who_comes_with_an_older_position_waits_for_the_next_fetch(stand):
    stand.open("r")
    stand.subscribe("q", after=5)
    asked = fetch(stand)
    stand.subscribe("r", after=3)
    stand.handle(ev.Fetched(asked.job, [line(7, 6)]))
    assert executions(stand.took("r")) == []
    assert fetch(stand).after == 3


def test_who_leaves_while_it_is_fetched_for_gets_nothing(stand):
    stand.subscribe("q", after=3)
    stand.close("q")
    stand.took("q")
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 5)]))
    assert stand.took("q") == []


def test_an_answer_that_nobody_asked_for_is_ignored(stand):
    assert stand.handle(ev.Fetched(99, [line(7, 5)])) == stand.handle(ev.FetchGap(99, 5)) == []


# -- gaps --------------------------------------------------------------------------------------------------------------


def test_what_has_expired_is_announced_and_the_rest_follows(stand):
    stand.subscribe("q", after=3)
    stand.took("q")
    stand.handle(ev.FetchGap(fetch(stand).job, 8))
    assert stand.took("q") == [wire.Gap(7, 3, 8, "retention")]
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 9)]))
    assert executions(stand.took("q")) == [9]


def test_only_who_missed_it_is_told_of_a_gap(stand):
    stand.open("r")
    stand.subscribe("q", after=3)
    stand.subscribe("r", after=9)
    stand.took("r")
    stand.handle(ev.FetchGap(fetch(stand).job, 8))
    assert stand.took("r") == []


# -- slow readers ------------------------------------------------------------------------------------------------------


def test_who_is_slow_is_told_where_it_is_and_gets_no_more(stand):
    stand.handle(ev.Congested("p"))
    stand.executed(14, 7)
    assert stand.took("p") == [wire.Lagging(7, 13)]


def test_others_do_not_notice_who_is_slow(stand):
    stand.subscribed("q")
    stand.handle(ev.Congested("p"))
    stand.executed(14, 7)
    assert executions(stand.took("q")) == [14]


def test_who_has_read_everything_gets_what_came_meanwhile(stand):
    stand.handle(ev.Congested("p"))
    stand.executed(14, 7)
    stand.took("p")
    stand.handle(ev.Drained("p"))
    *rest, last = stand.took("p")
    assert executions(rest) == [14] and last == wire.Live(7, 14)


def test_who_was_slow_for_long_gets_it_from_the_data_cluster(stand):
    stand.handle(ev.Congested("p"))
    for execution in range(14, 18):
        stand.executed(execution, 7)
    stand.handle(ev.Drained("p"))
    assert fetch(stand).after == 13


def test_being_slow_twice_is_being_slow_once(stand):
    stand.handle(ev.Congested("p"))
    stand.took("p")
    assert stand.handle(ev.Congested("p")) == []
    stand.handle(ev.Drained("p"))
    assert stand.handle(ev.Drained("p")) == []


def test_who_becomes_slow_while_it_is_fetched_for_is_fetched_for_later(stand):
    stand.subscribe("q", after=3)
    asked = fetch(stand)
    stand.handle(ev.Congested("q"))
    stand.took("q")
    stand.handle(ev.Fetched(asked.job, [line(7, 5)]))
    assert stand.took("q") == []
    stand.handle(ev.Drained("q"))
    assert fetch(stand).after == 3


def test_who_subscribes_while_it_is_slow_is_served_when_it_has_read(stand):
    stand.handle(ev.Congested("q"))
    stand.subscribe("q", after=12)
    assert stand.took("q") == [wire.Subscribed(1, 7, "C", 12)]
    stand.handle(ev.Drained("q"))
    assert executions(stand.took("q")) == [13]


def test_who_is_slow_and_leaves_is_forgotten(stand):
    stand.handle(ev.Congested("p"))
    stand.close("p")
    assert stand.state.backs[7].unused


def test_the_one_who_is_furthest_behind_is_measured(stand):
    stand.subscribe("q", after=3)
    assert stand.state.furthest_behind() == 10
    assert stand.state.report(0.0).catching_up == 1


# -- another number ----------------------------------------------------------------------------------------------------


def test_the_rest_of_the_former_number_comes_first_and_then_what_lies_between_is_announced(stand):
    stand.subscribe("q", after=3, former=4)
    asked = fetch(stand)
    assert (asked.subscription, asked.after) == (4, 3)
    stand.took("q")
    stand.handle(ev.Fetched(asked.job, [line(4, 5)]))
    asked = fetch(stand)
    assert (asked.subscription, asked.after, asked.begin) == (7, 5, True)
    stand.handle(ev.Fetched(asked.job, [line(7, 11), line(7, 12)], begin=10))
    notify, gap = stand.took("q")
    assert (notify.subscription, notify.execution) == (7, 5)
    assert gap == wire.Gap(7, 5, 11, "released")
    assert fetch(stand).after == 10


def test_what_the_present_number_got_at_another_broker_is_no_gap(stand):
    stand.subscribe("q", after=3, former=4)
    stand.handle(ev.Fetched(fetch(stand).job, []))
    stand.took("q")
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 4)], begin=10))
    assert stand.took("q") == []
    assert fetch(stand).after == 3


def test_a_former_number_without_results_leaves_a_gap_up_to_the_present_one(stand):
    stand.subscribe("q", after=3, former=4)
    stand.handle(ev.Fetched(fetch(stand).job, []))
    stand.took("q")
    stand.handle(ev.Fetched(fetch(stand).job, [], begin=10))
    assert stand.took("q") == [wire.Gap(7, 3, 11, "released")]


def early(stand: Stand, after: int = 3) -> None:
    """Asked where the present number begins while an execution is under way that has not seen it."""
    stand.subscribe("q", after=after, former=4)
    stand.handle(ev.Fetched(fetch(stand).job, []))
    stand.took("q")
    stand.handle(ev.FetchEarly(fetch(stand).job))


@pytest.mark.parametrize("after", [3, 10])  # 10: nothing happened since, but for what is under way
def test_an_execution_that_the_subscription_came_too_late_for_is_part_of_the_gap(stand, after):
    early(stand, after)
    assert stand.did(do.Fetch) == [] and stand.took("q") == []
    stand.tick()
    asked = fetch(stand)
    assert (asked.subscription, asked.after, asked.begin) == (4, after, False)  # it may have got something by now
    stand.handle(ev.Fetched(asked.job, []))
    stand.handle(ev.Fetched(fetch(stand).job, [], begin=11))
    gap, *rest = stand.took("q")
    assert gap == wire.Gap(7, after, 12, "released")
    assert executions(rest) == [12, 13]


def test_who_has_left_is_not_asked_for_again(stand):
    early(stand)
    stand.close("q")
    stand.took("q")
    stand.tick()
    assert stand.did(do.Fetch) == []


def test_who_asked_anew_meanwhile_is_asked_for_once(stand):
    early(stand)
    stand.subscribe("q", after=3, former=4, id=2)
    stand.tick()
    assert len(stand.did(do.Fetch)) == 1


def test_an_answer_that_nobody_waits_for_is_nothing(stand):
    assert stand.handle(ev.FetchEarly(99)) == []


def test_the_former_number_is_asked_in_pages(stand):
    stand.subscribe("q", after=3, former=4)
    stand.handle(ev.Fetched(fetch(stand).job, [line(4, 5)], more=True))
    asked = fetch(stand)
    assert (asked.subscription, asked.after) == (4, 5)


def test_what_expired_of_the_former_number_is_announced_and_its_rest_follows(stand):
    stand.subscribe("q", after=3, former=4)
    stand.took("q")
    stand.handle(ev.FetchGap(fetch(stand).job, 6))
    assert stand.took("q") == [wire.Gap(7, 3, 6, "retention")]
    asked = fetch(stand)
    assert (asked.subscription, asked.after) == (4, 5)


def test_a_former_number_that_expired_altogether_is_one_gap(stand):
    stand.subscribe("q", after=3, former=4)
    stand.took("q")
    stand.handle(ev.FetchGap(fetch(stand).job, 12))
    assert executions(stand.took("q")) == [12, 13]


def test_who_has_all_of_the_former_number_resumes_as_usual(stand):
    stand.subscribe("q", after=11, former=4)
    assert executions(stand.took("q")) == [12, 13]


def test_only_the_answer_to_the_latest_request_counts(stand):
    stand.subscribe("q", after=5, former=4)
    old = fetch(stand)
    stand.subscribe("q", after=3, former=4, id=2)
    new = fetch(stand)
    stand.took("q")
    stand.handle(ev.Fetched(old.job, [line(4, 6)]))
    assert stand.took("q") == []
    stand.handle(ev.Fetched(new.job, [line(4, 4), line(4, 6)]))
    assert executions(stand.took("q")) == [4, 6]


def kept(stand: Stand, after: int = 3) -> None:
    """A user comes back who had the subscription as 4 up to execution 6, and then as 5; all that it says is how far it
    has come."""
    stand.log_in("u", "ann", wire.DurableSubscription(5, "C", ["fire"], after, {4: 6}))
    stand.subscribe("u", after=after)
    stand.took("u")


def test_all_numbers_that_a_user_had_come_in_their_order(stand):
    kept(stand)
    asked = fetch(stand)
    assert (asked.subscription, asked.after) == (4, 3)
    stand.handle(ev.Fetched(asked.job, [line(4, 4)]))
    asked = fetch(stand)
    assert (asked.subscription, asked.after, asked.begin) == (5, 4, False)
    stand.handle(ev.Fetched(asked.job, [line(5, 7)], more=True))
    stand.handle(ev.Fetched(fetch(stand).job, [line(5, 9)]))
    asked = fetch(stand)
    assert (asked.subscription, asked.after, asked.begin) == (7, 9, True)
    stand.handle(ev.Fetched(asked.job, [line(7, 11)], begin=10))
    first, gap, second, third, last = stand.took("u")
    assert [first.execution, second.execution, third.execution] == [4, 7, 9]
    assert (gap, last) == (wire.Gap(7, 4, 7, "released"), wire.Gap(7, 9, 11, "released"))


def test_numbers_that_a_user_is_behind_are_not_asked(stand):
    kept(stand, after=7)
    assert fetch(stand).subscription == 5


def test_who_is_slow_between_two_of_its_numbers_is_told_what_lies_there(stand):
    kept(stand)
    stand.handle(ev.Fetched(fetch(stand).job, []))
    asked = fetch(stand)
    stand.handle(ev.Congested("u"))
    stand.handle(ev.Fetched(asked.job, [line(5, 7)]))
    stand.took("u")
    stand.handle(ev.Drained("u"))
    stand.handle(ev.Fetched(fetch(stand).job, [line(5, 7)]))
    gap, notify = stand.took("u")
    assert gap == wire.Gap(7, 3, 7, "released") and notify.execution == 7


def test_who_is_slow_in_the_middle_of_its_former_number_goes_on_with_it_later(stand):
    stand.subscribe("q", after=3, former=4)
    asked = fetch(stand)
    stand.handle(ev.Congested("q"))
    stand.took("q")
    stand.handle(ev.Fetched(asked.job, [line(4, 5)]))
    assert stand.took("q") == []
    stand.handle(ev.Drained("q"))
    asked = fetch(stand)
    assert (asked.subscription, asked.after) == (4, 3)


def test_who_leaves_in_the_middle_of_its_former_number_is_not_fetched_for(stand):
    stand.subscribe("q", after=3, former=4)
    asked = fetch(stand)
    stand.close("q")
    stand.took("q")
    stand.handle(ev.Fetched(asked.job, [line(4, 5)], more=True))
    assert stand.took("q") == [] and stand.did(do.Fetch) == []


# -- the broker was cut off --------------------------------------------------------------------------------------------


def test_everybody_looks_again_when_tells_were_lost(stand):
    stand.handle(ev.Returned({"C": 20}))
    asked = fetch(stand)
    assert asked.after == 13
    stand.handle(ev.Fetched(asked.job, [line(7, 15)]))
    *rest, last = stand.took("p")
    assert executions(rest) == [15] and last == wire.Live(7, 20)


def test_what_is_told_late_of_what_was_looked_for_is_not_sent_twice(stand):
    stand.handle(ev.Returned({"C": 20}))
    stand.handle(ev.Fetched(fetch(stand).job, [line(7, 15)]))
    stand.took("p")
    stand.executed(15, 7)
    stand.executed(21, 7)
    assert executions(stand.took("p")) == [21]


def test_nobody_looks_again_when_nothing_was_lost(stand):
    assert stand.handle(ev.Returned({"C": 13, "D": 5})) == []


def test_who_came_after_what_was_lost_does_not_look_again(stand):
    stand.subscribed("q", 8, position=30, kind="flood")
    stand.handle(ev.Returned({"C": 20}))
    assert [it.subscription for it in stand.did(do.Fetch)] == [7]
    stand.executed(25, 8)
    assert stand.took("q") == []


def test_who_is_confirmed_late_begins_behind_what_was_lost(stand):
    stand.subscribe("q", "flood")
    stand.handle(ev.Returned({"C": 20}))
    stand.wanted(8, position=15)
    assert stand.took("q") == [wire.Subscribed(1, 8, "C", 20)]


def test_an_execution_that_expired_before_it_was_pulled_is_a_gap(stand):
    stand.handle(ev.Told("C", 14))
    stand.handle(ev.Returned({"C": 14}))
    asked = fetch(stand)
    stand.handle(ev.Pulled("C", 14, []))
    stand.handle(ev.FetchGap(asked.job, 15))
    assert stand.took("p") == [wire.Gap(7, 13, 15, "retention"), wire.Live(7, 14)]
