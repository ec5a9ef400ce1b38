"""FE subscriptions, and the BE subscriptions they share."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness, at, executions

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.be_subscriptions import MOST_IN_REQUEST
from tocsin.broker.core.events import Problem
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(grace=60.0, heartbeat=0.0)
    harness.open("p", "q")
    return harness


# -- wanting -----------------------------------------------------------------------------------------------------------


def test_the_data_cluster_is_asked_for_what_nobody_has(harness):
    harness.subscribe("p")
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    assert harness.took("p") == []


def test_it_is_confirmed_when_the_data_cluster_has_it(harness):
    harness.subscribe("p", id=5)
    harness.confirm(7, position=3)
    assert harness.took("p") == [wire.Subscribed(5, 7, "C", 3)]


def test_two_who_want_the_same_share_one(harness):
    harness.subscribed("p")
    harness.subscribe("q")
    assert harness.did(do.Subscribe) == []
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 0)]


def test_two_who_want_the_same_at_once_are_asked_for_once(harness):
    harness.subscribe("p")
    harness.subscribe("q")
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    harness.confirm(7)
    assert len(harness.took("p")) == len(harness.took("q")) == 1


def test_what_comes_while_a_request_is_under_way_goes_together_into_the_next(harness):
    for kind in ("fire", "flood", "storm"):
        harness.subscribe("p", kind)
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    harness.confirm(7)
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["flood"], ["storm"]])]


def test_one_request_holds_only_so_many():
    harness = BrokerHarness(BrokerLimits(subscriptions=MOST_IN_REQUEST + 5))
    harness.open("p")
    for number in range(MOST_IN_REQUEST + 2):
        harness.subscribe("p", str(number))
    harness.confirm(1)
    assert [len(it.args) for it in harness.did(do.Subscribe)] == [1, MOST_IN_REQUEST]


def test_channels_do_not_wait_for_each_other(harness):
    harness.say("p", wire.Subscribe(1, "C", []), wire.Subscribe(2, "D", []))
    assert [it.channel for it in harness.did(do.Subscribe)] == ["C", "D"]


def test_the_name_of_a_channel_is_the_same_in_any_case(harness):
    harness.subscribed("p")
    harness.say("q", wire.Subscribe(1, "c", ["fire"]))
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 0)]


def test_arguments_by_name_are_the_same_in_any_order(harness):
    harness.say("p", wire.Subscribe(1, "C", {"a": 1, "b": 2}))
    harness.confirm(7)
    harness.did(do.Subscribe)
    harness.say("p", wire.Subscribe(2, "C", {"b": 2, "a": 1}))
    assert harness.did(do.Subscribe) == []


def test_the_same_written_in_another_way_is_one_subscription(harness):
    harness.subscribed("p")
    harness.say("q", wire.Subscribe(1, "C", {"kind": "fire"}))
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [{"kind": "fire"}])]
    harness.confirm(7, position=4)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 0)]
    harness.executed(5, 7)
    assert executions(harness.took("p")) == executions(harness.took("q")) == [5]


def test_what_the_data_cluster_refuses_is_refused_to_all_who_asked(harness):
    harness.subscribe("p")
    harness.subscribe("q")
    harness.confirm(Problem("type_mismatch", "no", "hint"))
    assert harness.took("p") == harness.took("q") == [wire.Error(1, "type_mismatch", "no", "hint")]


def test_one_that_is_wrong_does_not_harm_the_others(harness):
    harness.subscribe("p", "x")
    harness.subscribe("p", "bad", id=2)
    harness.subscribe("p", "good", id=3)
    harness.confirm(1)
    harness.took("p")
    harness.confirm(Problem("type_mismatch", "no"), 8)
    assert harness.took("p") == [wire.Error(2, "type_mismatch", "no"), wire.Subscribed(3, 8, "C", 0)]


def test_what_was_refused_is_asked_for_again_by_the_next(harness):
    harness.subscribe("p")
    harness.confirm(Problem("not_found", "no"))
    harness.did(do.Subscribe)
    harness.subscribe("p")
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]


def test_nothing_is_kept_of_a_channel_that_does_not_exist(harness):
    harness.subscribe("p")
    harness.confirm(Problem("not_found", "no"))
    assert harness.state.be_subscriptions.channels == {} and harness.state.be_subscriptions._by_key == {}


def test_at_most_so_many_subscriptions_a_subscriber():
    harness = BrokerHarness(BrokerLimits(subscriptions=2))
    harness.open("p")
    for number in range(3):
        harness.subscribe("p", str(number), id=number)
    (error,) = harness.took("p")
    assert (error.id, error.code) == (2, "limit_exceeded")


def test_a_refusal_makes_room_again():
    harness = BrokerHarness(BrokerLimits(subscriptions=1))
    harness.open("p")
    harness.subscribe("p", "x")
    harness.confirm(Problem("not_found", "no"))
    harness.took("p")
    harness.subscribe("p", "y")
    assert harness.took("p") == []


def test_who_has_left_before_the_answer_gets_none(harness):
    harness.subscribe("p")
    harness.close("p")
    harness.confirm(7)
    assert harness.took("p") == []
    assert harness.state.be_subscriptions.by_id[7].unused


# -- asking again ------------------------------------------------------------------------------------------------------


def test_asking_again_changes_nothing(harness):
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.took("p")
    harness.subscribe("p", id=9)
    harness.executed(5, 7)
    subscribed, *rest = harness.took("p")
    assert subscribed == wire.Subscribed(9, 7, "C", 4) and executions(rest) == [5]


def test_asking_again_from_before_repeats_what_came_since(harness):
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.executed(5, 7)
    harness.took("p")
    harness.subscribe("p", after=4, id=9)
    first, *rest, last = harness.took("p")
    assert first == wire.Subscribed(9, 7, "C", 4) and executions(rest) == [5] and last == wire.Live(7, 5)


def test_asking_again_does_not_shorten_the_grace_period(harness):
    harness.subscribed("p")
    harness.subscribe("p", after=0, id=2)
    harness.now += 50
    harness.close("p")
    harness.tick(20)
    assert harness.did(do.Unsubscribe) == []
    harness.tick(41)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_nothing_follows_unsubscribed(harness):
    harness.subscribed("p")
    harness.say("p", wire.Unsubscribe(2, 7))
    harness.executed(1, 7)
    assert harness.took("p") == [wire.Unsubscribed(2, 7)]


def test_others_keep_what_one_has_left(harness):
    harness.subscribed("p")
    harness.subscribed("q")
    harness.say("p", wire.Unsubscribe(2, 7))
    harness.executed(1, 7)
    assert executions(harness.took("q")) == [1]


@pytest.mark.parametrize("number", [7, 8])
def test_what_one_does_not_have_cannot_be_left(harness, number):
    harness.subscribed("q")
    harness.say("p", wire.Unsubscribe(2, number))
    (error,) = harness.took("p")
    assert (error.id, error.code) == (2, "not_found")


def test_what_nobody_has_is_kept_for_the_grace_period_and_then_let_go(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(59)
    assert harness.did(do.Unsubscribe) == []
    harness.tick(1)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_who_comes_back_within_the_grace_period_costs_nothing(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(59)
    harness.subscribed("q")
    harness.tick(100)
    assert harness.did(do.Unsubscribe) == [] and harness.did(do.Subscribe) == []


def test_what_is_let_go_goes_together(harness):
    harness.subscribed("p")
    harness.subscribed("p", 8, kind="flood")
    harness.close("p")
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7, 8])]


def test_only_so_many_are_let_go_at_once():
    harness = BrokerHarness(BrokerLimits(subscriptions=MOST_IN_REQUEST + 5), heartbeat=0.0)
    harness.open("p")
    numbers = list(range(1, MOST_IN_REQUEST + 3))
    for number in numbers:
        harness.subscribe("p", str(number), id=number)
    confirmed = iter(numbers)
    while wants := harness.did(do.Subscribe):
        harness.confirm(*[next(confirmed) for _ in wants[0].args])
    harness.close("p")
    harness.tick(harness.state.config.grace + 1)
    assert [it.subscriptions for it in harness.did(do.Unsubscribe)] == [numbers[:MOST_IN_REQUEST]]
    harness.handle(ev.Unsubscribed("C"))
    assert [it.subscriptions for it in harness.did(do.Unsubscribe)] == [numbers[MOST_IN_REQUEST:]]
    assert not harness.state.be_subscriptions.by_id


def test_what_was_let_go_is_asked_for_anew_behind_it(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(61)
    harness.subscribe("q")
    assert harness.did(do.Subscribe) == []
    harness.handle(ev.Unsubscribed("C"))
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]


def test_what_is_wanted_in_other_words_is_not_let_go_first(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.subscribe("q", "busy")
    harness.say("q", wire.Subscribe(2, "C", {"kind": "fire"}))
    harness.tick(61)
    harness.confirm(8)
    assert harness.did(do.Unsubscribe) == []
    harness.confirm(7)
    assert harness.did(do.Unsubscribe) == []
    harness.executed(1, 7)
    assert executions(harness.took("q")) == [1]


def test_letting_go_has_its_turn_however_much_is_wanted(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.subscribe("q", "1")
    harness.tick(61)
    harness.subscribe("q", "2", id=2)
    harness.confirm(8)
    harness.subscribe("q", "3", id=3)
    harness.confirm(9)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_nothing_is_kept_of_what_was_let_go(harness):
    harness.subscribed("p")
    harness.executed(1, 7)
    harness.close("p")
    harness.tick(61)
    harness.handle(ev.Unsubscribed("C"))
    state = harness.state
    assert not (
        state.be_subscriptions.by_id
        or state.be_subscriptions.channels
        or state.be_subscriptions._by_key
        or state.be_subscriptions._idle
        or state.cache.messages
    )


# -- a former life -----------------------------------------------------------------------------------------------------


def test_what_is_inherited_needs_no_asking(harness):
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(12)))
    harness.subscribe("p")
    assert harness.did(do.Subscribe) == [] and harness.took("p") == [wire.Subscribed(1, 7, "C", 12)]


def test_what_is_inherited_and_nobody_wants_is_let_go(harness):
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(12)))
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_what_is_being_let_go_is_not_inherited(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(61)
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(0)))
    assert harness.state.be_subscriptions.by_id == {}


def test_what_is_being_asked_for_is_not_inherited(harness):
    harness.subscribe("p")
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(12)))
    harness.confirm(7, position=13)
    assert harness.took("p") == [wire.Subscribed(1, 7, "C", 13)]


# -- a channel that is dropped -----------------------------------------------------------------------------------------


def test_who_has_something_of_a_dropped_channel_is_told(harness):
    harness.subscribed("p")
    harness.handle(ev.Dropped("C"))
    (ended,) = harness.took("p")
    assert (ended.subscription, ended.code) == (7, "not_found")


def test_nothing_is_kept_of_a_dropped_channel(harness):
    harness.subscribed("p")
    harness.executed(1, 7)
    harness.handle(ev.Notified("C", 2))
    harness.handle(ev.Dropped("C"))
    state = harness.state
    assert not (
        state.be_subscriptions.by_id
        or state.be_subscriptions.channels
        or state.be_subscriptions._by_key
        or state.be_subscriptions._idle
        or state.cache.messages
    )
    assert state.sessions.by_peer["p"].subscriptions == {}


def test_a_channel_made_anew_counts_from_the_beginning(harness):
    harness.subscribed("p", position=40)
    harness.executed(41, 7)
    harness.handle(ev.Dropped("C"))
    harness.took("p")
    harness.subscribed("p", 9)
    harness.executed(1, 9)
    assert executions(harness.took("p")) == [1]


def test_a_channel_made_anew_while_it_is_asked_for_counts_from_the_beginning(harness):
    harness.subscribed("p", position=40)
    harness.executed(41, 7)
    harness.subscribe("q", "flood")
    harness.handle(ev.Dropped("C"))
    harness.confirm(9)
    harness.executed(1, 9)
    assert executions(harness.took("q")) == [1]


def test_dropping_what_nobody_has_does_nothing(harness):
    assert harness.handle(ev.Dropped("D")) == []
