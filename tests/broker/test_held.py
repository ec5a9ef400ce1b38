"""What is kept for users who are away."""

from __future__ import annotations

from stand import Stand, executions

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Problem
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.reports import ReportReply


def test_what_a_user_subscribes_to_is_remembered():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.subscribed("p", position=3)
    assert stand.did(do.Remember) == [do.Remember("ann", 7, "C", ["fire"], 3)]


def test_what_nobody_in_particular_subscribes_to_is_not():
    stand = Stand()
    stand.open("p")
    stand.subscribed("p")
    assert stand.did(do.Remember) == []


def test_it_is_remembered_once():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.close("p")
    stand.log_in("q", "ann")
    stand.subscribed("q")
    assert len(stand.did(do.Remember)) == 1


def test_the_welcome_says_what_is_kept():
    stand = Stand()
    held = DurableSubscription(7, "C", ["fire"], 3)
    stand.log_in("p", "ann", held)
    (welcome,) = stand.took("p")
    assert welcome.subscriptions == [held]


def test_what_is_kept_is_not_let_go_while_the_user_is_away():
    stand = Stand(grace=60.0)
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.close("p")
    stand.tick(1_000)
    assert stand.did(do.Unwant) == []


def test_what_the_user_leaves_is_forgotten_and_let_go():
    stand = Stand(grace=60.0, heartbeat=0.0)
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.say("p", wire.Unsubscribe(2, 7))
    assert stand.did(do.Forget) == [do.Forget("ann", 7)]
    stand.tick(61)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7])]


def test_what_is_kept_can_be_left_without_being_resumed_first():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.close("p")
    stand.log_in("q", "ann")
    stand.took("q")
    stand.say("q", wire.Unsubscribe(2, 7))
    assert stand.took("q") == [wire.Unsubscribed(2, 7)] and stand.did(do.Forget) == [do.Forget("ann", 7)]


def test_what_somebody_else_keeps_cannot_be_left():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.log_in("q", "bob")
    stand.took("q")
    stand.say("q", wire.Unsubscribe(2, 7))
    assert stand.took("q")[0].code == "not_found"


def test_what_is_kept_from_a_former_life_is_subscribed_to_again():
    stand = Stand(grace=60.0)
    stand.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    assert stand.did(do.Want) == [do.Want("C", [["fire"]])]
    stand.wanted(7, position=9)
    stand.tick(1_000)
    assert stand.did(do.Unwant) == []


def test_what_has_another_number_now_is_remembered_under_that():
    stand = Stand()
    stand.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    stand.wanted(9, position=9)
    assert stand.did(do.Renumber) == [do.Renumber("ann", 7, 9, 9, 9)]
    assert stand.did(do.Remember) == stand.did(do.Forget) == []


def test_what_does_not_exist_any_more_is_forgotten():
    stand = Stand()
    stand.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    stand.wanted(Problem("not_found", "no"))
    assert stand.did(do.Forget) == [do.Forget("ann", 7)]


def test_what_a_dropped_channel_had_for_a_user_is_forgotten():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.handle(ev.Dropped("C"))
    assert stand.did(do.Forget) == [do.Forget("ann", 7)] and stand.state._held == {}


# -- acknowledging -----------------------------------------------------------------------------------------------------


def test_what_a_user_has_dealt_with_is_kept():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.say("p", wire.Ack({7: 4, 8: 9}))
    assert stand.did(do.Acknowledge) == [do.Acknowledge("ann", {7: 4})]


def test_what_nobody_in_particular_has_dealt_with_is_nobodys_concern():
    stand = Stand()
    stand.open("p")
    stand.subscribed("p")
    stand.say("p", wire.Ack({7: 4}))
    assert stand.done == []


# -- the end of a user -------------------------------------------------------------------------------------------------


def test_who_logs_out_is_sent_away_and_keeps_nothing():
    stand = Stand(grace=60.0)
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.handle(ev.UserEnded("ann"))
    (close,) = stand.did(do.Close)
    assert (close.peer, close.close.name) == ("p", "logged_out")
    stand.tick(61)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7])] and stand.state._held == {}


def test_callers_of_a_user_who_logs_out_are_sent_away_too():
    stand = Stand()
    stand.handle(ev.Assumed("call", "ann"))
    stand.handle(ev.UserEnded("ann"))
    assert [it.peer for it in stand.did(do.Close)] == ["call"] and stand.state._callers == {}


def test_what_is_being_asked_for_a_user_who_logs_out_is_not_kept():
    stand = Stand(grace=60.0)
    stand.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    stand.handle(ev.UserEnded("ann"))
    stand.wanted(7)
    assert stand.did(do.Remember) == []
    stand.tick(61)
    assert stand.did(do.Unwant) == [do.Unwant("C", [7])]


def test_others_keep_what_one_user_had():
    stand = Stand(grace=60.0)
    for peer, user in (("p", "ann"), ("q", "bob")):
        stand.log_in(peer, user)
        stand.subscribed(peer)
    stand.handle(ev.UserEnded("ann"))
    stand.tick(61)
    assert stand.did(do.Unwant) == []


# -- requests over REST ------------------------------------------------------------------------------------------------


def test_a_call_of_a_user_does_not_replace_its_connection():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.handle(ev.Assumed("call", "ann"))
    assert stand.did(do.Close) == []


def test_a_call_needs_no_hello_and_is_not_pinged():
    stand = Stand(heartbeat=1.0)
    stand.handle(ev.Assumed("call", "ann"))
    stand.subscribe("call")
    stand.wanted(7)
    stand.tick(100)
    assert stand.took("call") == [wire.Subscribed(1, 7, "C", 0)]


def test_what_a_call_subscribed_to_stays_when_it_ends():
    stand = Stand(grace=60.0)
    stand.handle(ev.Assumed("call", "ann"))
    stand.subscribed("call")
    stand.close("call")
    stand.tick(100)
    assert stand.did(do.Unwant) == [] and stand.state._callers == {}


def test_a_call_and_a_connection_of_a_user_both_get_everything():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.subscribed("p")
    stand.handle(ev.Assumed("call", "ann"))
    stand.subscribed("call")
    stand.executed(1, 7)
    assert executions(stand.took("p")) == executions(stand.took("call")) == [1]


# -- users who go elsewhere


def away(*, here: bool = False) -> Stand:
    """A user for whom something is kept, and who is away."""
    stand = Stand(heartbeat=0.0, grace=10.0)
    stand.log_in("p", "ann")
    stand.subscribed("p")
    if not here:
        stand.close("p")
    stand.done.clear()
    return stand


def test_what_another_broker_keeps_is_let_go_and_not_forgotten():
    stand = away()
    assert stand.state.holders() == ["ann"]
    stand.handle(ev.Elsewhere("ann"))
    stand.tick(11.0)
    assert stand.done == [do.Unwant("C", [7])] and stand.state.holders() == []


def test_who_is_here_is_not_elsewhere():
    stand = away(here=True)
    assert stand.state.holders() == []
    stand.handle(ev.Elsewhere("ann"))
    stand.close("p")
    stand.tick(11.0)
    assert stand.done == [] and stand.state.holders() == ["ann"]


def test_who_calls_here_is_not_elsewhere():
    stand = away()
    stand.handle(ev.Assumed("call", "ann"))
    stand.handle(ev.Elsewhere("ann"))
    stand.close("call")
    stand.tick(11.0)
    assert stand.done == []


def test_a_user_who_was_moved_is_not_kept_here():
    stand = Stand(heartbeat=0.0, grace=10.0)
    stand.handle(ev.Opened("p", "address"))
    stand.say("p", wire.Hello(0, "token", subscriber="abcdefgh"))
    stand.handle(ev.Authenticated("p", "ann", []))
    stand.subscribed("p")
    stand.done.clear()
    stand.handle(ev.Ordered(ReportReply(1, drop=["abcdefgh"])))
    assert [it.close for it in stand.did(do.Close)] == [close_codes.MIGRATED]
    stand.tick(11.0)
    assert stand.done == [do.Unwant("C", [7])]
