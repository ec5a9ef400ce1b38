"""FE subscriptions, and the BE subscriptions they share."""

from __future__ import annotations

import pytest
from stand import Stand, executions

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Problem
from tocsin.broker.core.subscriptions import MOST_WANTED
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def stand() -> Stand:
    stand = Stand(grace=60.0, heartbeat=0.0)
    stand.open("p", "q")
    return stand


# -- wanting -----------------------------------------------------------------------------------------------------------


def test_the_data_cluster_is_asked_for_what_nobody_has(stand):
    stand.subscribe("p")
    assert stand.did(do.Want) == [do.Want("C", [["fire"]])]
    assert stand.took("p") == []


def test_it_is_confirmed_when_the_data_cluster_has_it(stand):
    stand.subscribe("p", id=5)
    stand.wanted(7, position=3)
    assert stand.took("p") == [wire.Subscribed(5, 7, "C", 3)]


def test_two_who_want_the_same_share_one(stand):
    stand.subscribed("p")
    stand.subscribe("q")
    assert stand.did(do.Want) == []
    assert stand.took("q") == [wire.Subscribed(1, 7, "C", 0)]


def test_two_who_want_the_same_at_once_are_asked_for_once(stand):
    stand.subscribe("p")
    stand.subscribe("q")
    assert stand.did(do.Want) == [do.Want("C", [["fire"]])]
    stand.wanted(7)
    assert len(stand.took("p")) == len(stand.took("q")) == 1


def test_what_comes_while_a_request_is_under_way_goes_together_into_the_next(stand):
    for kind in ("fire", "flood", "storm"):
        stand.subscribe("p", kind)
    assert stand.did(do.Want) == [do.Want("C", [["fire"]])]
    stand.wanted(7)
    assert stand.did(do.Want) == [do.Want("C", [["flood"], ["storm"]])]


def test_one_request_holds_only_so_many():
    stand = Stand(BrokerLimits(subscriptions=MOST_WANTED + 5))
    stand.open("p")
    for number in range(MOST_WANTED + 2):
        stand.subscribe("p", str(number))
    stand.wanted(1)
    assert [len(it.args) for it in stand.did(do.Want)] == [1, MOST_WANTED]


def test_channels_do_not_wait_for_each_other(stand):
    stand.say("p", wire.Subscribe(1, "C", []), wire.Subscribe(2, "D", []))
    assert [it.channel for it in stand.did(do.Want)] == ["C", "D"]


def test_the_name_of_a_channel_is_the_same_in_any_case(stand):
    stand.subscribed("p")
    stand.say("q", wire.Subscribe(1, "c", ["fire"]))
    assert stand.took("q") == [wire.Subscribed(1, 7, "C", 0)]


def test_arguments_by_name_are_the_same_in_any_order(stand):
    stand.say("p", wire.Subscribe(1, "C", {"a": 1, "b": 2}))
    stand.wanted(7)
    stand.did(do.Want)
    stand.say("p", wire.Subscribe(2, "C", {"b": 2, "a": 1}))
    assert stand.did(do.Want) == []


def test_the_same_written_in_another_way_is_one_subscription(stand):
    stand.subscribed("p")
    stand.say("q", wire.Subscribe(1, "C", {"kind": "fire"}))
    assert stand.did(do.Want) == [do.Want("C", [{"kind": "fire"}])]
    stand.wanted(7, position=4)
    assert stand.took("q") == [wire.Subscribed(1, 7, "C", 0)]
    stand.executed(5, 7)
    assert executions(stand.took("p")) == executions(stand.took("q")) == [5]


def test_what_the_data_cluster_refuses_is_refused_to_all_who_asked(stand):
    stand.subscribe("p")
    stand.subscribe("q")
    stand.wanted(Problem("type_mismatch", "no", "hint"))
    assert stand.took("p") == stand.took("q") == [wire.Error(1, "type_mismatch", "no", "hint")]


def test_one_that_is_wrong_does_not_harm_the_others(stand):
    stand.subscribe("p", "x")
    stand.subscribe("p", "bad", id=2)
    stand.subscribe("p", "good", id=3)
    stand.wanted(1)
    stand.took("p")
    stand.wanted(Problem("type_mismatch", "no"), 8)
    assert stand.took("p") == [wire.Error(2, "type_mismatch", "no"), wire.Subscribed(3, 8, "C", 0)]


def test_what_was_refused_is_asked_for_again_by_the_next(stand):
    stand.subscribe("p")
    stand.wanted(Problem("not_found", "no"))
    stand.did(do.Want)
    stand.subscribe("p")
    assert stand.did(do.Want) == [do.Want("C", [["fire"]])]


def test_nothing_is_kept_of_a_channel_that_does_not_exist(stand):
    stand.subscribe("p")
    stand.wanted(Problem("not_found", "no"))
    assert stand.state.channels == {} and stand.state._keys == {}


def test_at_most_so_many_subscriptions_a_subscriber():
    stand = Stand(BrokerLimits(subscriptions=2))
    stand.open("p")
    for number in range(3):
        stand.subscribe("p", str(number), id=number)
    (error,) = stand.took("p")
    assert (error.id, error.code) == (2, "limit_exceeded")


def test_a_refusal_makes_room_again():
    stand = Stand(BrokerLimits(subscriptions=1))
    stand.open("p")
    stand.subscribe("p", "x")
    stand.wanted(Problem("not_found", "no"))
    stand.took("p")
    stand.subscribe("p", "y")
    assert stand.took("p") == []


def test_who_has_left_before_the_answer_gets_none(stand):
    stand.subscribe("p")
    stand.close("p")
    stand.wanted(7)
    assert stand.took("p") == []
    assert stand.state.backs[7].unused


# -- asking again ------------------------------------------------------------------------------------------------------


def test_asking_again_changes_nothing(stand):
    stand.subscribed("p")
    stand.executed(4, 7)
    stand.took("p")
    stand.subscribe("p", id=9)
    stand.executed(5, 7)
    subscribed, *rest = stand.took("p")
    assert subscribed == wire.Subscribed(9, 7, "C", 4) and executions(rest) == [5]


def test_asking_again_from_before_repeats_what_came_since(stand):
    stand.subscribed("p")
    stand.executed(4, 7)
    stand.executed(5, 7)
    stand.took("p")
    stand.subscribe("p", after=4, id=9)
    first, *rest, last = stand.took("p")
    assert first == wire.Subscribed(9, 7, "C", 4) and executions(rest) == [5] and last == wire.Live(7, 5)


def test_asking_again_does_not_shorten_the_grace_period(stand):
    stand.subscribed("p")
    stand.subscribe("p", after=0, id=2)
    stand.now += 50
    stand.close("p")
    stand.tick(20)
    assert stand.did(do.Unwant) == []
    stand.tick(41)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7])]


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_nothing_follows_unsubscribed(stand):
    stand.subscribed("p")
    stand.say("p", wire.Unsubscribe(2, 7))
    stand.executed(1, 7)
    assert stand.took("p") == [wire.Unsubscribed(2, 7)]


def test_others_keep_what_one_has_left(stand):
    stand.subscribed("p")
    stand.subscribed("q")
    stand.say("p", wire.Unsubscribe(2, 7))
    stand.executed(1, 7)
    assert executions(stand.took("q")) == [1]


@pytest.mark.parametrize("number", [7, 8])
def test_what_one_does_not_have_cannot_be_left(stand, number):
    stand.subscribed("q")
    stand.say("p", wire.Unsubscribe(2, number))
    (error,) = stand.took("p")
    assert (error.id, error.code) == (2, "not_found")


def test_what_nobody_has_is_kept_for_the_grace_period_and_then_let_go(stand):
    stand.subscribed("p")
    stand.close("p")
    stand.tick(59)
    assert stand.did(do.Unwant) == []
    stand.tick(1)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7])]


def test_who_comes_back_within_the_grace_period_costs_nothing(stand):
    stand.subscribed("p")
    stand.close("p")
    stand.tick(59)
    stand.subscribed("q")
    stand.tick(100)
    assert stand.did(do.Unwant) == [] and stand.did(do.Want) == []


def test_what_is_let_go_goes_together(stand):
    stand.subscribed("p")
    stand.subscribed("p", 8, kind="flood")
    stand.close("p")
    stand.tick(61)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7, 8])]


def test_only_so_many_are_let_go_at_once():
    stand = Stand(BrokerLimits(subscriptions=MOST_WANTED + 5), heartbeat=0.0)
    stand.open("p")
    numbers = list(range(1, MOST_WANTED + 3))
    for number in numbers:
        stand.subscribe("p", str(number), id=number)
    confirmed = iter(numbers)
    while wants := stand.did(do.Want):
        stand.wanted(*[next(confirmed) for _ in wants[0].args])
    stand.close("p")
    stand.tick(stand.state.config.grace + 1)
    assert [it.subscriptions for it in stand.did(do.Unwant)] == [numbers[:MOST_WANTED]]
    stand.handle(ev.Unwanted("C"))
    assert [it.subscriptions for it in stand.did(do.Unwant)] == [numbers[MOST_WANTED:]]
    assert not stand.state.backs


def test_what_was_let_go_is_asked_for_anew_behind_it(stand):
    stand.subscribed("p")
    stand.close("p")
    stand.tick(61)
    stand.subscribe("q")
    assert stand.did(do.Want) == []
    stand.handle(ev.Unwanted("C"))
    assert stand.did(do.Want) == [do.Want("C", [["fire"]])]


def test_what_is_wanted_in_other_words_is_not_let_go_first(stand):
    stand.subscribed("p")
    stand.close("p")
    stand.subscribe("q", "busy")
    stand.say("q", wire.Subscribe(2, "C", {"kind": "fire"}))
    stand.tick(61)
    stand.wanted(8)
    assert stand.did(do.Unwant) == []
    stand.wanted(7)
    assert stand.did(do.Unwant) == []
    stand.executed(1, 7)
    assert executions(stand.took("q")) == [1]


def test_letting_go_has_its_turn_however_much_is_wanted(stand):
    stand.subscribed("p")
    stand.close("p")
    stand.subscribe("q", "1")
    stand.tick(61)
    stand.subscribe("q", "2", id=2)
    stand.wanted(8)
    stand.subscribe("q", "3", id=3)
    stand.wanted(9)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7])]


def test_nothing_is_kept_of_what_was_let_go(stand):
    stand.subscribed("p")
    stand.executed(1, 7)
    stand.close("p")
    stand.tick(61)
    stand.handle(ev.Unwanted("C"))
    state = stand.state
    assert not (state.backs or state.channels or state._keys or state._idle or state.cache.frames)


# -- a former life -----------------------------------------------------------------------------------------------------


def test_what_is_inherited_needs_no_asking(stand):
    stand.handle(ev.Inherited("C", [(7, ["fire"])], 12))
    stand.subscribe("p")
    assert stand.did(do.Want) == [] and stand.took("p") == [wire.Subscribed(1, 7, "C", 12)]


def test_what_is_inherited_and_nobody_wants_is_let_go(stand):
    stand.handle(ev.Inherited("C", [(7, ["fire"])], 12))
    stand.tick(61)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7])]


def test_what_is_being_let_go_is_not_inherited(stand):
    stand.subscribed("p")
    stand.close("p")
    stand.tick(61)
    stand.handle(ev.Inherited("C", [(7, ["fire"])], 0))
    assert stand.state.backs == {}


def test_what_is_being_asked_for_is_not_inherited(stand):
    stand.subscribe("p")
    stand.handle(ev.Inherited("C", [(7, ["fire"])], 12))
    stand.wanted(7, position=13)
    assert stand.took("p") == [wire.Subscribed(1, 7, "C", 13)]


# -- a channel that is dropped -----------------------------------------------------------------------------------------


def test_who_has_something_of_a_dropped_channel_is_told(stand):
    stand.subscribed("p")
    stand.handle(ev.Dropped("C"))
    (ended,) = stand.took("p")
    assert (ended.subscription, ended.code) == (7, "not_found")


def test_nothing_is_kept_of_a_dropped_channel(stand):
    stand.subscribed("p")
    stand.executed(1, 7)
    stand.handle(ev.Told("C", 2))
    stand.handle(ev.Dropped("C"))
    state = stand.state
    assert not (state.backs or state.channels or state._keys or state._idle or state.cache.frames)
    assert state.fronts["p"].subscriptions == {}


def test_a_channel_made_anew_counts_from_the_beginning(stand):
    stand.subscribed("p", position=40)
    stand.executed(41, 7)
    stand.handle(ev.Dropped("C"))
    stand.took("p")
    stand.subscribed("p", 9)
    stand.executed(1, 9)
    assert executions(stand.took("p")) == [1]


def test_a_channel_made_anew_while_it_is_asked_for_counts_from_the_beginning(stand):
    stand.subscribed("p", position=40)
    stand.executed(41, 7)
    stand.subscribe("q", "flood")
    stand.handle(ev.Dropped("C"))
    stand.wanted(9)
    stand.executed(1, 9)
    assert executions(stand.took("q")) == [1]


def test_dropping_what_nobody_has_does_nothing(stand):
    assert stand.handle(ev.Dropped("D")) == []
