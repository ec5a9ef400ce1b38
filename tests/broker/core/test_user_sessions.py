"""What is kept for users who are away."""

from __future__ import annotations

from broker_harness import BrokerHarness, at, executions

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Problem
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.reports import ReportReply


def test_what_a_user_subscribes_to_is_remembered():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p", position=3)
    assert harness.did(do.Remember) == [do.Remember("ann", 7, "C", ["fire"], at(3))]


def test_what_nobody_in_particular_subscribes_to_is_not():
    harness = BrokerHarness()
    harness.open("p")
    harness.subscribed("p")
    assert harness.did(do.Remember) == []


def test_it_is_remembered_once():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.close("p")
    harness.log_in("q", "ann")
    harness.subscribed("q")
    assert len(harness.did(do.Remember)) == 1


def test_the_welcome_says_what_is_kept():
    harness = BrokerHarness()
    held = DurableSubscription(7, "C", ["fire"], 3)
    harness.log_in("p", "ann", held)
    (welcome,) = harness.took("p")
    assert welcome.subscriptions == [held]


def test_what_is_kept_is_not_let_go_while_the_user_is_away():
    harness = BrokerHarness(grace=60.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.close("p")
    harness.tick(1_000)
    assert harness.did(do.Unsubscribe) == []


def test_what_the_user_leaves_is_forgotten_and_let_go():
    harness = BrokerHarness(grace=60.0, heartbeat=0.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.say("p", wire.Unsubscribe(2, 7))
    assert harness.did(do.Forget) == [do.Forget("ann", 7)]
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_what_is_kept_can_be_left_without_being_resumed_first():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.close("p")
    harness.log_in("q", "ann")
    harness.took("q")
    harness.say("q", wire.Unsubscribe(2, 7))
    assert harness.took("q") == [wire.Unsubscribed(2, 7)] and harness.did(do.Forget) == [do.Forget("ann", 7)]


def test_what_somebody_else_keeps_cannot_be_left():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.log_in("q", "bob")
    harness.took("q")
    harness.say("q", wire.Unsubscribe(2, 7))
    assert harness.took("q")[0].code == "not_found"


def test_what_is_kept_from_a_former_life_is_subscribed_to_again():
    harness = BrokerHarness(grace=60.0)
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    harness.confirm(7, position=9)
    harness.tick(1_000)
    assert harness.did(do.Unsubscribe) == []


def test_what_has_another_number_now_is_remembered_under_that():
    harness = BrokerHarness()
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    harness.confirm(9, position=9)
    assert harness.did(do.ChangeId) == [do.ChangeId("ann", 7, 9, at(9), at(9))]
    assert harness.did(do.Remember) == harness.did(do.Forget) == []


def test_what_does_not_exist_any_more_is_forgotten():
    harness = BrokerHarness()
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    harness.confirm(Problem("not_found", "no"))
    assert harness.did(do.Forget) == [do.Forget("ann", 7)]


def test_what_a_dropped_channel_had_for_a_user_is_forgotten():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.handle(ev.Dropped("C"))
    assert harness.did(do.Forget) == [do.Forget("ann", 7)] and harness.state.users.durable.by_user == {}


# -- acknowledging -----------------------------------------------------------------------------------------------------


def test_what_a_user_has_dealt_with_is_kept():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.say("p", wire.Ack({7: 4, 8: 9}))
    assert harness.did(do.Acknowledge) == [do.Acknowledge("ann", {7: at(4)})]


def test_what_nobody_in_particular_has_dealt_with_is_nobodys_concern():
    harness = BrokerHarness()
    harness.open("p")
    harness.subscribed("p")
    harness.say("p", wire.Ack({7: 4}))
    assert harness.done == []


# -- the end of a user -------------------------------------------------------------------------------------------------


def test_who_logs_out_is_sent_away_and_keeps_nothing():
    harness = BrokerHarness(grace=60.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.handle(ev.UserEnded("ann"))
    (close,) = harness.did(do.Close)
    assert (close.peer, close.close.name) == ("p", "logged_out")
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])] and harness.state.users.durable.by_user == {}


def test_callers_of_a_user_who_logs_out_are_sent_away_too():
    harness = BrokerHarness()
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.handle(ev.UserEnded("ann"))
    assert [it.peer for it in harness.did(do.Close)] == ["call"] and harness.state.sessions.rest == {}


def test_what_is_being_asked_for_a_user_who_logs_out_is_not_kept():
    harness = BrokerHarness(grace=60.0)
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    harness.handle(ev.UserEnded("ann"))
    harness.confirm(7)
    assert harness.did(do.Remember) == []
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_others_keep_what_one_user_had():
    harness = BrokerHarness(grace=60.0)
    for peer, user in (("p", "ann"), ("q", "bob")):
        harness.log_in(peer, user)
        harness.subscribed(peer)
    harness.handle(ev.UserEnded("ann"))
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == []


# -- requests over REST ------------------------------------------------------------------------------------------------


def test_a_call_of_a_user_does_not_replace_its_connection():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.handle(ev.OpenedForUser("call", "ann"))
    assert harness.did(do.Close) == []


def test_a_call_needs_no_hello_and_is_not_pinged():
    harness = BrokerHarness(heartbeat=1.0)
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribe("call")
    harness.confirm(7)
    harness.tick(100)
    assert harness.took("call") == [wire.Subscribed(1, 7, "C", 0)]


def test_what_a_call_subscribed_to_stays_when_it_ends():
    harness = BrokerHarness(grace=60.0)
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribed("call")
    harness.close("call")
    harness.tick(100)
    assert harness.did(do.Unsubscribe) == [] and harness.state.sessions.rest == {}


def test_a_call_and_a_connection_of_a_user_both_get_everything():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribed("call")
    harness.executed(1, 7)
    assert executions(harness.took("p")) == executions(harness.took("call")) == [1]


# -- users who go elsewhere


def away(*, here: bool = False) -> BrokerHarness:
    """A user for whom something is kept, and who is away."""
    harness = BrokerHarness(heartbeat=0.0, grace=10.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    if not here:
        harness.close("p")
    harness.done.clear()
    return harness


def test_what_another_broker_keeps_is_let_go_and_not_forgotten():
    harness = away()
    assert harness.state.users.offline() == ["ann"]
    harness.handle(ev.UserElsewhere("ann"))
    harness.tick(11.0)
    assert harness.done == [do.Unsubscribe("C", [7])] and harness.state.users.offline() == []


def test_who_is_here_is_not_elsewhere():
    harness = away(here=True)
    assert harness.state.users.offline() == []
    harness.handle(ev.UserElsewhere("ann"))
    harness.close("p")
    harness.tick(11.0)
    assert harness.done == [] and harness.state.users.offline() == ["ann"]


def test_who_calls_here_is_not_elsewhere():
    harness = away()
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.handle(ev.UserElsewhere("ann"))
    harness.close("call")
    harness.tick(11.0)
    assert harness.done == []


def test_a_user_who_was_moved_is_not_kept_here():
    harness = BrokerHarness(heartbeat=0.0, grace=10.0)
    harness.handle(ev.Opened("p", "address"))
    harness.say("p", wire.Hello(0, "token", subscriber="abcdefgh"))
    harness.handle(ev.Authenticated("p", "ann", []))
    harness.subscribed("p")
    harness.done.clear()
    harness.handle(ev.Ordered(ReportReply(1, drop=["abcdefgh"])))
    assert [it.close for it in harness.did(do.Close)] == [close_codes.MIGRATED]
    harness.tick(11.0)
    assert harness.done == [do.Unsubscribe("C", [7])]
