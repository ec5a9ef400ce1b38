"""Connections: admission, hello, close and heartbeats."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.config import BrokerLimits
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.reports import ReportReply

SUBSCRIBER = "subscriber-with-22-char"


def closed(harness: BrokerHarness) -> list[tuple[object, str]]:
    return [(it.peer, it.close.name) for it in harness.did(do.Close)]


# -- opening -----------------------------------------------------------------------------------------------------------


def test_hello_is_answered_with_welcome():
    harness = BrokerHarness(BrokerLimits(frame_bytes=99), heartbeat=25.0)
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3))
    assert harness.took("p") == [wire.Welcome(3, "b", 25.0, 99, reconnect_within=0.1)]


def test_the_reconnect_interval_grows_with_the_number_of_connections():
    harness = BrokerHarness()
    for number in range(250):
        harness.handle(ev.Opened(f"p{number}"))
        harness.say(f"p{number}", wire.Hello(1))
    assert [harness.took(f"p{number}")[0].reconnect_within for number in (0, 99, 100, 249)] == [0.1, 0.1, 0.2, 0.3]


def test_a_message_before_hello_closes_the_connection():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Ping())
    assert closed(harness) == [("p", "no_hello")]


def test_a_second_hello_closes_the_connection():
    harness = BrokerHarness()
    harness.open("p")
    harness.say("p", wire.Hello(3), wire.Ping())
    assert closed(harness) == [("p", "no_hello")] and harness.took("p") == []


def test_a_connection_without_hello_is_closed_after_the_timeout():
    harness = BrokerHarness(hello_timeout=10.0)
    harness.handle(ev.Opened("p"))
    harness.tick(9)
    assert closed(harness) == []
    harness.tick(1)
    assert closed(harness) == [("p", "hello_timeout")]


def test_the_hello_timeout_ends_with_hello():
    harness = BrokerHarness(hello_timeout=10.0, heartbeat=0.0)
    harness.open("p")
    harness.tick(100)
    assert closed(harness) == []


def test_a_connection_over_the_limit_is_closed():
    harness = BrokerHarness(BrokerLimits(connections=1))
    harness.open("p")
    harness.handle(ev.Opened("q"))
    assert closed(harness) == [("q", "try_later")]


def test_a_connection_over_the_limit_of_its_address_is_closed():
    harness = BrokerHarness(BrokerLimits(connections_per_address=1))
    harness.handle(ev.Opened("p", "a"))
    harness.handle(ev.Opened("q", "a"))
    harness.handle(ev.Opened("r", "b"))
    assert closed(harness) == [("q", "try_later")]


def test_one_address_has_a_thousand_connections_by_default_and_this_machine_any_number():
    harness = BrokerHarness()
    for n in range(1_001):
        harness.handle(ev.Opened(n, "192.0.2.1"))
        harness.handle(ev.Opened(-1 - n, "127.0.0.1"))
    assert closed(harness) == [(1_000, "try_later")]


def test_a_closed_connection_does_not_count_towards_the_limit():
    harness = BrokerHarness(BrokerLimits(connections_per_address=1))
    harness.handle(ev.Opened("p", "a"))
    harness.close("p")
    harness.handle(ev.Opened("q", "a"))
    assert closed(harness) == []


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_a_token_is_looked_up_before_the_welcome():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"))
    assert harness.did(do.Authenticate) == [do.Authenticate("p", "secret")] and harness.took("p") == []
    harness.handle(ev.Authenticated("p", "ann/phone"))
    (welcome,) = harness.took("p")
    assert welcome.user == "ann/phone"


def test_an_unknown_token_closes_the_connection():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"))
    harness.handle(ev.Authenticated("p", None))
    assert closed(harness) == [("p", "unauthorized")]


def test_requests_during_the_token_lookup_are_answered_after_the_welcome():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"), wire.Ping())
    harness.say("p", wire.Subscribe(4, "C", []))
    assert harness.did(do.Subscribe) == []
    harness.handle(ev.Authenticated("p", "ann"))
    assert [type(message) for message in harness.took("p")] == [wire.Welcome, wire.Pong]
    assert len(harness.did(do.Subscribe)) == 1


def test_too_many_requests_during_the_token_lookup_close_the_connection():
    harness = BrokerHarness(BrokerLimits(unanswered=3, subscriptions=2))
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"), *[wire.Ping()] * 5)
    assert closed(harness) == [("p", "flood")]


def test_a_second_hello_during_the_token_lookup_closes_the_connection():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"), wire.Hello(4))
    harness.handle(ev.Authenticated("p", "ann"))
    assert closed(harness) == [("p", "no_hello")]


def test_a_token_lookup_for_a_closed_connection_does_nothing():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"))
    harness.close("p")
    assert harness.handle(ev.Authenticated("p", "ann")) == []


def test_the_same_user_and_device_replaces_its_old_connection():
    harness = BrokerHarness()
    harness.log_in("p", "ann/phone")
    harness.log_in("q", "ann/phone")
    assert closed(harness) == [("p", "replaced")]


def test_the_close_of_the_old_connection_does_not_affect_the_new_one():
    harness = BrokerHarness()
    harness.log_in("p", "ann/phone")
    harness.log_in("q", "ann/phone")
    harness.close("p")
    harness.log_in("r", "ann/phone")
    assert closed(harness) == [("p", "replaced"), ("q", "replaced")]


def test_a_hello_has_no_effect_before_its_token_is_verified():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(0, subscriber=SUBSCRIBER))
    harness.handle(ev.Opened("q"))
    harness.say("q", wire.Hello(0, "made-up", subscriber=SUBSCRIBER))
    assert closed(harness) == []
    harness.handle(ev.Authenticated("q", None))
    assert closed(harness) == [("q", "unauthorized")]


def test_a_subscriber_that_connects_again_replaces_its_connection():
    harness = BrokerHarness()
    for peer in "pq":
        harness.handle(ev.Opened(peer))
        harness.say(peer, wire.Hello(0, subscriber=SUBSCRIBER))
    assert closed(harness) == [("p", "replaced")]


@pytest.mark.parametrize("user", [None, "bob/phone"])
def test_the_connection_of_a_user_is_replaced_by_the_same_user_only(user):
    harness = BrokerHarness()
    for peer, name in (("p", "ann/phone"), ("q", user)):
        harness.handle(ev.Opened(peer))
        harness.say(peer, wire.Hello(0, name and "token", subscriber=SUBSCRIBER))
        if name:
            harness.handle(ev.Authenticated(peer, name))
    assert closed(harness) == [("q", "unauthorized")]


def test_a_bad_ticket_replaces_no_connection():
    harness = BrokerHarness()
    harness.log_in("p", "ann/phone")
    harness.handle(ev.Opened("q"))
    harness.say("q", wire.Hello(0, "token", ticket="forged"))
    harness.handle(ev.Authenticated("q", "ann/phone"))
    assert closed(harness) == [("q", "bad_ticket")]


def test_many_bytes_during_the_token_lookup_close_the_connection():
    harness = BrokerHarness(BrokerLimits(frame_bytes=5_000, connection_argument_bytes=5_000))
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"))
    for _ in range(5):
        harness.say("p", wire.Subscribe(4, "C", ["x" * 4_500]))
    assert closed(harness) == [("p", "flood")]


# -- malformed messages ------------------------------------------------------------------------------------------------


def test_a_malformed_request_with_an_id_is_answered_with_an_error():
    harness = BrokerHarness()
    harness.open("p")
    harness.handle(ev.Unreadable("p", "wrong", 5))
    assert harness.took("p") == [wire.Error(5, "malformed", "wrong")]


def test_a_frame_that_is_not_a_message_closes_the_connection():
    harness = BrokerHarness()
    harness.open("p")
    harness.handle(ev.Unreadable("p", "no JSON"))
    assert closed(harness) == [("p", "malformed")]


def test_a_malformed_message_before_hello_closes_the_connection():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.handle(ev.Unreadable("p", "wrong", 5))
    assert closed(harness) == [("p", "malformed")]


def test_events_of_a_closed_connection_are_ignored():
    harness = BrokerHarness()
    for event in (
        ev.Received("p", [wire.Ping()]),
        ev.Unreadable("p", "x"),
        ev.Congested("p"),
        ev.Drained("p"),
        ev.Closed("p"),
    ):
        assert harness.handle(event) == []


# -- closing -----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_to_a_closed_connection():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.subscribed("p")
    harness.close("p")
    harness.executed(1, 7)
    harness.tick()
    assert harness.took("p") == []


def test_the_broker_keeps_nothing_of_a_closed_connection():
    harness = BrokerHarness()
    harness.log_in("p", "ann")
    harness.close("p")
    state = harness.state
    assert not (
        state.sessions.by_peer
        or state.sessions.by_user
        or state.sessions._addresses
        or state.sessions._hello_deadlines
        or any(state.sessions._beats)
    )


def test_a_stopping_broker_closes_all_connections_with_going_away():
    harness = BrokerHarness()
    harness.open("p", "q")
    harness.handle(ev.Stopping())
    assert closed(harness) == [("p", "going_away"), ("q", "going_away")] and harness.state.sessions.by_peer == {}


def test_closes_are_counted_by_code():
    harness = BrokerHarness()
    harness.open("p")
    harness.handle(ev.Stopping())
    assert harness.state.counters.closes == {close_codes.GOING_AWAY.code: 1}


# -- heartbeats --------------------------------------------------------------------------------------------------------


def test_ping_is_answered_with_pong():
    harness = BrokerHarness()
    harness.open("p")
    harness.say("p", wire.Ping())
    assert harness.took("p") == [wire.Pong()]


def test_every_connection_is_pinged_once_a_heartbeat():
    harness = BrokerHarness(heartbeat=5.0)
    harness.open(*range(10))
    for _ in range(5):
        harness.tick()
    assert [harness.took(peer) for peer in range(10)] == [[wire.Ping()]] * 10


def test_an_answer_is_asked_for_three_times_before_a_connection_counts_as_silent():
    harness = BrokerHarness(heartbeat=2.0, silence=30.0)
    harness.open("p")
    asked = []
    for second in range(29):
        harness.tick()
        asked += [second for message in harness.took("p") if message.answer]
    assert len(asked) == 3 and not harness.did(do.Close)
    for _ in range(4):
        harness.tick()
    assert [it.peer for it in harness.did(do.Close)] == ["p"]


def test_a_welcome_names_the_other_brokers_and_a_ping_those_that_came_later():
    harness = BrokerHarness(heartbeat=1.0)
    orders = [ReportReply(number, alternatives={"c": f"http://c{number}"}) for number in (1, 1, 2)]
    harness.handle(ev.Ordered(orders[0]))
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(1))
    (welcome,) = harness.took("p")
    assert welcome.alternatives == {"c": "http://c1"}
    harness.handle(ev.Ordered(orders[1]))
    harness.tick()
    assert harness.took("p") == [wire.Ping()]
    harness.handle(ev.Ordered(orders[2]))
    harness.tick()
    assert wire.Ping(answer=False, alternatives={"c": "http://c2"}) in harness.took("p")
    harness.handle(ev.Ordered(ReportReply(3)))
    harness.tick()
    assert harness.took("p") == [wire.Ping()]


def test_a_ping_contains_the_positions_of_the_channels():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.took("p")
    harness.tick()
    assert harness.took("p") == [wire.Ping({"C": 4})]


def test_a_ping_to_a_lagging_subscriber_omits_the_lagging_channels():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.handle(ev.Congested("p"))
    harness.took("p")
    harness.tick()
    assert harness.took("p") == [wire.Ping()]


def test_a_connection_that_is_silent_for_three_heartbeats_is_closed():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.tick(3)
    assert closed(harness) == []
    harness.tick(1)
    assert closed(harness) == [("p", "silent")]


def test_a_broker_that_was_suspended_does_not_count_the_pause_as_silence():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.tick(1)
    harness.tick(60)
    assert closed(harness) == [], "the messages that arrived meanwhile are not read yet"
    harness.tick(1)
    assert closed(harness) == []
    harness.tick(1)
    assert closed(harness) == [("p", "silent")]


def test_a_broker_that_was_suspended_extends_the_hello_timeout():
    harness = BrokerHarness(hello_timeout=10.0)
    harness.tick(1)
    harness.handle(ev.Opened("p", "address"))
    harness.tick(60)
    assert closed(harness) == []
    harness.tick(1)
    assert [code for _, code in closed(harness)] == ["hello_timeout"]


def test_any_message_counts_as_a_sign_of_life():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    for _ in range(10):
        harness.tick(2)
        harness.say("p", wire.Pong())
    assert closed(harness) == []


def test_without_heartbeats_no_connection_is_pinged_or_closed():
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.tick(1_000)
    assert closed(harness) == [] and harness.took("p") == []


def test_a_clock_that_jumps_back_closes_no_connection():
    harness = BrokerHarness(heartbeat=1.0)
    harness.now = 100.0
    harness.open("p")
    harness.now = 5.0
    harness.tick()
    harness.now = 101.0
    harness.tick()
    assert closed(harness) == []
