"""What the broker keeps for offline users."""

from __future__ import annotations

from typing import Any

from broker_harness import BrokerHarness, at, executions

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Problem
from tocsin.config import BrokerLimits
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.reports import ReportReply


def test_a_users_subscription_is_stored():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p", position=3)
    assert harness.did(do.Remember) == [do.Remember("ann", 7, "C", ["fire"], at(3))]


def test_an_anonymous_subscription_is_not_stored():
    harness = BrokerHarness()
    harness.open("p")
    harness.subscribed("p")
    assert harness.did(do.Remember) == []


def test_a_users_subscription_is_stored_once():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.close("p")
    harness.log_in("q", "ann", DurableSubscription(7, "C", ["fire"], 0))
    harness.subscribed("q")
    assert len(harness.did(do.Remember)) == 1


def test_the_welcome_contains_the_durable_subscriptions():
    harness = BrokerHarness()
    held = DurableSubscription(7, "C", ["fire"], 3)
    harness.log_in("p", "ann", held)
    (welcome,) = harness.took("p")
    assert welcome.subscriptions == [held]


def test_a_durable_subscription_does_not_expire_while_its_user_is_offline():
    harness = BrokerHarness(grace=60.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.close("p")
    harness.tick(1_000)
    assert harness.did(do.Unsubscribe) == []


def test_a_durable_subscription_expires_after_its_user_unsubscribes():
    harness = BrokerHarness(grace=60.0, heartbeat=0.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.say("p", wire.Unsubscribe(2, 7))
    assert harness.did(do.Forget) == [do.Forget("ann", 7)]
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_a_user_can_unsubscribe_without_resuming_first():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.close("p")
    harness.log_in("q", "ann", DurableSubscription(7, "C", ["fire"], 0))
    harness.took("q")
    harness.say("q", wire.Unsubscribe(2, 7))
    assert harness.took("q") == [wire.Unsubscribed(2, 7)] and harness.did(do.Forget) == [do.Forget("ann", 7)]


def test_a_user_cannot_unsubscribe_from_another_users_subscription():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.log_in("q", "bob")
    harness.took("q")
    harness.say("q", wire.Unsubscribe(2, 7))
    assert harness.took("q")[0].code == "not_found"


def test_durable_subscriptions_are_restored_after_a_restart():
    harness = BrokerHarness(grace=60.0)
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    harness.confirm(7, position=9)
    harness.tick(1_000)
    assert harness.did(do.Unsubscribe) == []


def test_a_restored_subscription_is_stored_under_its_new_id():
    harness = BrokerHarness()
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    harness.confirm(9, position=9)
    assert harness.did(do.ChangeId) == [do.ChangeId("ann", 7, 9, at(9), at(9))]
    assert harness.did(do.Remember) == harness.did(do.Forget) == []


def test_a_restored_subscription_without_a_channel_is_deleted():
    harness = BrokerHarness()
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    harness.confirm(Problem("not_found", "no"))
    assert harness.did(do.Forget) == [do.Forget("ann", 7)]


def test_durable_subscriptions_to_a_dropped_channel_are_deleted():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.handle(ev.Dropped("C"))
    assert harness.did(do.Forget) == [do.Forget("ann", 7)] and harness.state.users.durable.by_user == {}


# -- acknowledging -----------------------------------------------------------------------------------------------------


def test_a_users_acknowledgement_is_stored():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.say("p", wire.Ack({7: 4, 8: 9}))
    assert harness.did(do.Acknowledge) == [do.Acknowledge("ann", {7: at(4)})]


def test_an_anonymous_acknowledgement_is_ignored():
    harness = BrokerHarness()
    harness.open("p")
    harness.subscribed("p")
    harness.say("p", wire.Ack({7: 4}))
    assert harness.done == []


# -- the end of a user -------------------------------------------------------------------------------------------------


def test_a_logout_closes_the_session_and_deletes_durable_subscriptions():
    harness = BrokerHarness(grace=60.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.handle(ev.UserEnded("ann"))
    (close,) = harness.did(do.Close)
    assert (close.peer, close.close.name) == ("p", "logged_out")
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])] and harness.state.users.durable.by_user == {}


def test_a_logout_closes_the_users_rest_calls():
    harness = BrokerHarness()
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.handle(ev.UserEnded("ann"))
    assert [it.peer for it in harness.did(do.Close)] == ["call"] and harness.state.sessions.rest == {}


def test_a_subscription_confirmed_after_logout_is_not_stored():
    harness = BrokerHarness(grace=60.0)
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    harness.handle(ev.UserEnded("ann"))
    harness.confirm(7)
    assert harness.did(do.Remember) == []
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_a_logout_does_not_affect_the_subscriptions_of_other_users():
    harness = BrokerHarness(grace=60.0)
    for peer, user in (("p", "ann"), ("q", "bob")):
        harness.log_in(peer, user)
        harness.subscribed(peer)
    harness.handle(ev.UserEnded("ann"))
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == []


# -- requests over REST ------------------------------------------------------------------------------------------------


def test_a_rest_call_does_not_replace_its_users_connection():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.handle(ev.OpenedForUser("call", "ann"))
    assert harness.did(do.Close) == []


def test_a_rest_call_needs_no_hello_and_is_not_pinged():
    harness = BrokerHarness(heartbeat=1.0)
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribe("call")
    harness.confirm(7)
    harness.tick(100)
    assert harness.took("call") == [wire.Subscribed(1, 7, "C", 0)]


def test_the_subscription_of_a_rest_call_outlives_the_call():
    harness = BrokerHarness(grace=60.0)
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribed("call")
    harness.close("call")
    harness.tick(100)
    assert harness.did(do.Unsubscribe) == [] and harness.state.sessions.rest == {}


def test_a_rest_call_and_a_connection_of_one_user_both_receive_everything():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribed("call")
    harness.executed(1, 7)
    assert executions(harness.took("p")) == executions(harness.took("call")) == [1]


# -- users at another broker


def offline_user(*, here: bool = False) -> BrokerHarness:
    """An offline user with a durable subscription; with ``here``, the user is still connected."""
    harness = BrokerHarness(heartbeat=0.0, grace=10.0)
    harness.log_in("p", "ann")
    harness.subscribed("p")
    if not here:
        harness.close("p")
    harness.done.clear()
    return harness


def test_the_subscriptions_of_a_user_at_another_broker_expire_but_stay_stored():
    harness = offline_user()
    assert harness.state.users.offline() == ["ann"]
    harness.handle(ev.UserElsewhere("ann"))
    harness.tick(11.0)
    assert harness.done == [do.Unsubscribe("C", [7])] and harness.state.users.offline() == []


def test_a_connected_user_is_not_released_to_another_broker():
    harness = offline_user(here=True)
    assert harness.state.users.offline() == []
    harness.handle(ev.UserElsewhere("ann"))
    harness.close("p")
    harness.tick(11.0)
    assert harness.done == [] and harness.state.users.offline() == ["ann"]


def test_a_user_with_an_open_call_is_not_released_to_another_broker():
    harness = offline_user()
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.handle(ev.UserElsewhere("ann"))
    harness.close("call")
    harness.tick(11.0)
    assert harness.done == []


def test_the_subscriptions_of_a_migrated_user_expire():
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


# -- limits of a user --------------------------------------------------------------------------------------------------


def asked_over_rest(harness: BrokerHarness, user: str, kind: str, id: int) -> list[wire.Error]:
    """Subscribes in a request of its own; returns the errors."""
    peer = f"{user} {kind}"
    harness.handle(ev.OpenedForUser(peer, user))
    harness.subscribe(peer, kind)
    if harness.did(do.Subscribe):
        harness.confirm(id)
    harness.close(peer)
    return [each for each in harness.took(peer) if isinstance(each, wire.Error)]


def test_the_limit_of_subscriptions_holds_over_all_requests_and_devices_of_a_user():
    harness = BrokerHarness(BrokerLimits(subscriptions=3))
    assert [asked_over_rest(harness, "ann/phone", str(n), n + 7) for n in range(3)] == [[], [], []]
    for user in ("ann/phone", "ann/laptop"):
        (error,) = asked_over_rest(harness, user, "more", 20)
        assert error.code == "limit_exceeded" and "at most 3" in error.message
    harness.log_in("p", "ann/phone", *(DurableSubscription(n + 7, "C", [str(n)], 0) for n in range(3)))
    harness.took("p")
    harness.subscribe("p", "more")
    (error,) = harness.took("p")
    assert error.code == "limit_exceeded"
    assert asked_over_rest(harness, "bob/phone", "more", 20) == []


def test_a_user_at_the_limit_resumes_what_is_durable():
    harness = BrokerHarness(BrokerLimits(subscriptions=1))
    assert asked_over_rest(harness, "ann/phone", "fire", 7) == []
    assert asked_over_rest(harness, "ann/phone", "fire", 7) == []


def test_what_is_being_restored_counts_for_the_user_and_can_be_resumed():
    harness = BrokerHarness(BrokerLimits(subscriptions=1))
    harness.log_in("p", "ann", DurableSubscription(7, "C", ["fire"], 3))
    harness.took("p")
    harness.subscribe("p", "flood", id=2)
    (error,) = harness.took("p")
    assert error.code == "limit_exceeded"
    harness.subscribe("p", "fire", id=3)
    harness.confirm(7)
    assert [type(each) for each in harness.took("p")] == [wire.Subscribed]


def test_the_arguments_of_a_user_have_a_limited_size_over_all_requests():
    harness = BrokerHarness(BrokerLimits(user_argument_bytes=50))
    assert asked_over_rest(harness, "ann/phone", "x" * 30, 7) == []
    (error,) = asked_over_rest(harness, "ann/laptop", "y" * 30, 8)
    assert error.code == "limit_exceeded" and "50 bytes" in error.message


def test_what_a_user_ends_does_not_count_any_more():
    harness = BrokerHarness(BrokerLimits(subscriptions=1))
    for turn in range(3):
        harness.log_in("p", "ann")
        harness.took("p")
        harness.subscribe("p", str(turn))
        harness.close("p")
        harness.did(do.Subscribe)
        harness.confirm(7 + turn)
        harness.log_in("p", "ann")
        harness.subscribe("p", str(turn))
        harness.say("p", wire.Unsubscribe(9, 7 + turn))
        assert [each for each in harness.took("p") if isinstance(each, wire.Error)] == []
        harness.close("p")
    asked_over_rest(harness, "ann", "more", 20)
    harness.handle(ev.UserEnded("ann"))
    assert harness.state.be_subscriptions.durable.quotas.by_user == {}


def test_a_restore_that_is_repeated_counts_once():
    harness = BrokerHarness()
    durable = [DurableSubscription(7, "C", ["fire"], 3)]
    for _ in range(5):
        harness.handle(ev.Restored("ann", durable))
    assert harness.state.be_subscriptions.durable.quotas.by_user["ann"].subscriptions == 1
    harness.confirm(7)
    assert harness.state.be_subscriptions.durable.quotas.by_user["ann"].subscriptions == 1


def authenticated(peer: str, user: str | None = "ann", issued: float = 5.0, expires: float = 100.0, **more: Any) -> Any:
    return ev.Authenticated(peer, user, [], issued=issued, expires=expires, **more)


def connect(harness: BrokerHarness, event: Any) -> None:
    harness.handle(ev.Opened(event.peer, "address"))
    harness.say(event.peer, wire.Hello(0, "token"))
    harness.handle(event)


def closes(harness: BrokerHarness) -> list[tuple[Any, int]]:
    return [(each.peer, each.close.code) for each in harness.did(do.Close)]


def test_a_connection_ends_with_its_token():
    harness = BrokerHarness()
    connect(harness, authenticated("p", expires=10.0))
    harness.tick(9.0)
    assert closes(harness) == []
    harness.tick(1.0)
    assert closes(harness) == [("p", close_codes.UNAUTHORIZED.code)]


def test_a_connection_with_a_new_token_stays():
    harness = BrokerHarness()
    connect(harness, authenticated("p", expires=10.0))
    harness.say("p", wire.Authenticate("next"))
    (asked,) = [each for each in harness.did(do.Authenticate) if each.token == "next"]
    harness.handle(authenticated(asked.peer, expires=20.0))
    harness.tick(10.0)
    assert closes(harness) == []
    harness.tick(10.0)
    assert closes(harness) == [("p", close_codes.UNAUTHORIZED.code)]


def test_a_token_of_another_session_ends_the_connection():
    harness = BrokerHarness()
    connect(harness, authenticated("p"))
    harness.handle(authenticated("p", "bob"))
    assert closes(harness) == [("p", close_codes.UNAUTHORIZED.code)]


def test_a_token_that_cannot_be_looked_up_ends_a_new_connection_for_now_and_keeps_others():
    harness = BrokerHarness()
    away = authenticated("p", None, problem="away", failed=True)
    connect(harness, away)
    assert closes(harness) == [("p", close_codes.UNVERIFIED.code)]
    assert close_codes.UNVERIFIED.reconnect and not close_codes.UNAUTHORIZED.reconnect
    connect(harness, authenticated("p"))
    harness.handle(away)
    assert closes(harness) == []


def test_a_token_that_is_not_valid_ends_the_connection():
    harness = BrokerHarness()
    connect(harness, authenticated("p", None, problem="no"))
    assert closes(harness) == [("p", close_codes.UNAUTHORIZED.code)]


def test_a_revocation_ends_the_connections_and_requests_of_older_tokens():
    harness = BrokerHarness()
    connect(harness, authenticated("p", issued=5.0))
    harness.subscribed("p")
    harness.handle(ev.OpenedForUser("old", "ann", issued=4.0))
    harness.handle(ev.OpenedForUser("new", "ann", issued=7.0))
    harness.handle(ev.UserRevoked("ann", 6.0))
    assert sorted(closes(harness)) == [("old", close_codes.UNAUTHORIZED.code), ("p", close_codes.UNAUTHORIZED.code)]
    assert harness.state.users.durable.has("ann", 7)


def test_nothing_new_is_accepted_for_a_user_while_it_cannot_be_stored():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.open("anonymous")
    harness.handle(ev.UsersAway(True))
    harness.subscribe("p", "flood", id=2)
    harness.confirm(8)
    (refused,) = harness.took("p")
    assert (refused.id, refused.code) == (2, "unreachable")
    harness.subscribe("p", id=3)  # is durable already
    assert [message.id for message in harness.took("p") if isinstance(message, wire.Subscribed)] == [3]
    harness.subscribe("anonymous", "flood", id=4)
    assert [message.id for message in harness.took("anonymous") if isinstance(message, wire.Subscribed)] == [4]
    harness.handle(ev.UsersAway(False))
    harness.subscribe("p", "flood", id=5)
    assert [message.id for message in harness.took("p") if isinstance(message, wire.Subscribed)] == [5]


def confirmed(harness: BrokerHarness, peer: str = "p") -> list[int]:
    return [message.id for message in harness.took(peer) if isinstance(message, wire.Subscribed)]


def test_a_users_subscription_is_confirmed_when_it_is_stored():
    harness = BrokerHarness()
    harness.stores = False
    harness.log_in("p", "ann")
    harness.subscribe("p")
    harness.confirm(7)
    harness.subscribe("p", id=2)
    harness.handle(ev.OpenedForUser("rest", "ann"))
    harness.subscribe("rest", id=3)
    assert not confirmed(harness) and not confirmed(harness, "rest")
    assert len(harness.did(do.Remember)) == 1
    harness.executed(1, 7)
    assert not harness.took("p")  # before it is confirmed, nothing follows
    harness.handle(ev.Stored([ev.Remembered("ann", 7)]))
    assert confirmed(harness) == [1, 2] and confirmed(harness, "rest") == [3]
    harness.executed(2, 7)
    assert executions(harness.took("p")) == [2]


def test_a_subscription_that_waits_for_the_store_is_refused_when_the_store_is_away():
    harness = BrokerHarness()
    harness.stores = False
    harness.log_in("p", "ann")
    harness.subscribe("p")
    harness.confirm(7)
    harness.took("p")
    harness.handle(ev.UsersAway(True))
    (refused,) = harness.took("p")
    assert (refused.id, refused.code) == (1, "unreachable")
    assert harness.did(do.Forget) == [do.Forget("ann", 7)]  # the store may get both later
    harness.handle(ev.Stored([ev.Remembered("ann", 7)]))
    assert not harness.took("p")


def test_a_grant_or_a_connection_that_ends_while_the_store_is_asked_confirms_nothing():
    for ends in (ev.Closed("p"), ev.UserEnded("ann"), ev.Dropped("C")):
        harness = BrokerHarness()
        harness.stores = False
        harness.log_in("p", "ann")
        harness.subscribe("p")
        harness.confirm(7)
        harness.handle(ends)
        harness.handle(ev.Stored([ev.Remembered("ann", 7)]))
        assert not confirmed(harness)


def test_what_has_ended_in_the_store_is_stored_again_when_it_is_subscribed_to():
    """Another broker has forgotten it."""
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.close("p")
    harness.did(do.Remember)
    harness.log_in("q", "ann")
    harness.subscribed("q")
    assert len(harness.did(do.Remember)) == 1


def test_a_subscription_that_is_not_durable_after_all_ends():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.subscribed("p")
    harness.handle(ev.Stored([ev.Remembered("ann", 7, Problem("not_found", "it has ended"))]))
    (ended,) = harness.took("p")
    assert isinstance(ended, wire.Ended) and ended.code == "not_found"
    harness.subscribe("p", id=2)
    assert confirmed(harness) == [2] and len(harness.did(do.Remember)) == 2


def test_a_subscription_to_a_channel_that_was_created_again_is_confirmed_when_its_position_is_stored():
    harness = BrokerHarness()
    harness.stores = False
    harness.log_in("p", "ann", DurableSubscription(5, "C", ["fire"], 57, epoch=1))
    harness.handle(ev.Subscribed("C", [9], at(3, epoch=4)))
    assert [each.subscription for each in harness.did(do.ChangeId)] == [9]
    harness.took("p")
    harness.say("p", wire.Subscribe(2, "C", ["fire"], 57, 5, 1))
    assert not confirmed(harness)
    harness.handle(ev.UsersAway(True))
    (refused,) = harness.took("p")
    assert (refused.id, refused.code) == (2, "unreachable") and not harness.did(do.Forget)  # it stays durable
    harness.handle(ev.UsersAway(False))
    harness.say("p", wire.Subscribe(3, "C", ["fire"], 57, 5, 1))
    harness.handle(ev.Stored([ev.Remembered("ann", 9)]))
    (subscribed,) = (each for each in harness.took("p") if isinstance(each, wire.Subscribed))
    assert (subscribed.id, subscribed.after, subscribed.epoch) == (3, 3, 4)


def test_nothing_is_sent_after_the_end_of_a_token():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p", "address"))
    harness.say("p", wire.Hello(0, "token"))
    harness.handle(ev.Authenticated("p", "ann", expires=10.0))
    harness.open("q")
    harness.subscribed("p")
    harness.subscribed("q")
    harness.now = 10.5  # before the next tick
    (close, *_) = harness.state.on_notify([ev.Notified("C", 1, [])], harness.now)
    assert isinstance(close, do.Close) and close.close is close_codes.UNAUTHORIZED
    harness.executed(2, 7)
    assert executions(harness.took("q")) == [2] and not executions(harness.took("p"))


def test_what_may_be_an_offline_users_does_not_expire_before_users_are_restored():
    harness = BrokerHarness(grace=5.0)
    harness.state.be_subscriptions.restoring_users = True
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(3)))
    harness.tick(60.0)
    assert harness.did(do.Unsubscribe) == []
    harness.handle(ev.Restored("ann", [DurableSubscription(7, "C", ["fire"], 3)]))
    harness.handle(ev.UsersRestored())
    harness.tick(60.0)
    assert harness.did(do.Unsubscribe) == []
