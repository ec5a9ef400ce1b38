"""Connections: who may come in, what they say first, how they leave, and the heart that beats."""

from __future__ import annotations

from broker_harness import BrokerHarness

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.config import BrokerLimits
from tocsin.wire import close_codes
from tocsin.wire import messages as wire


def closed(harness: BrokerHarness) -> list[tuple[object, str]]:
    return [(it.peer, it.close.name) for it in harness.did(do.Close)]


# -- coming ------------------------------------------------------------------------------------------------------------


def test_hello_is_answered_with_welcome():
    harness = BrokerHarness(BrokerLimits(frame_bytes=99), heartbeat=25.0)
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3))
    assert harness.took("p") == [wire.Welcome(3, "b", 25.0, 99, reconnect_within=0.1)]


def test_the_more_a_broker_has_the_longer_they_take_to_come_back():
    harness = BrokerHarness()
    for number in range(250):
        harness.handle(ev.Opened(f"p{number}"))
        harness.say(f"p{number}", wire.Hello(1))
    assert [harness.took(f"p{number}")[0].reconnect_within for number in (0, 99, 100, 249)] == [0.1, 0.1, 0.2, 0.3]


def test_hello_comes_first():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Ping())
    assert closed(harness) == [("p", "no_hello")]


def test_hello_comes_once():
    harness = BrokerHarness()
    harness.open("p")
    harness.say("p", wire.Hello(3), wire.Ping())
    assert closed(harness) == [("p", "no_hello")] and harness.took("p") == []


def test_hello_comes_in_time():
    harness = BrokerHarness(hello_timeout=10.0)
    harness.handle(ev.Opened("p"))
    harness.tick(9)
    assert closed(harness) == []
    harness.tick(1)
    assert closed(harness) == [("p", "hello_timeout")]


def test_who_has_said_hello_has_all_the_time_there_is():
    harness = BrokerHarness(hello_timeout=10.0, heartbeat=0.0)
    harness.open("p")
    harness.tick(100)
    assert closed(harness) == []


def test_one_connection_too_many_is_sent_away():
    harness = BrokerHarness(BrokerLimits(connections=1))
    harness.open("p")
    harness.handle(ev.Opened("q"))
    assert closed(harness) == [("q", "try_later")]


def test_one_connection_too_many_from_an_address_is_sent_away():
    harness = BrokerHarness(BrokerLimits(connections_per_address=1))
    harness.handle(ev.Opened("p", "a"))
    harness.handle(ev.Opened("q", "a"))
    harness.handle(ev.Opened("r", "b"))
    assert closed(harness) == [("q", "try_later")]


def test_who_leaves_makes_room():
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


def test_an_unknown_token_ends_the_connection():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"))
    harness.handle(ev.Authenticated("p", None))
    assert closed(harness) == [("p", "unauthorized")]


def test_what_comes_while_the_token_is_looked_up_is_answered_behind_the_welcome():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"), wire.Ping())
    harness.say("p", wire.Subscribe(4, "C", []))
    assert harness.did(do.Subscribe) == []
    harness.handle(ev.Authenticated("p", "ann"))
    assert [type(message) for message in harness.took("p")] == [wire.Welcome, wire.Pong]
    assert len(harness.did(do.Subscribe)) == 1


def test_too_much_while_the_token_is_looked_up_ends_the_connection():
    harness = BrokerHarness(BrokerLimits(unanswered=3, subscriptions=2))
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"), *[wire.Ping()] * 5)
    assert closed(harness) == [("p", "flood")]


def test_a_second_hello_ends_the_connection_also_behind_a_token():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.say("p", wire.Hello(3, "secret"), wire.Hello(4))
    harness.handle(ev.Authenticated("p", "ann"))
    assert closed(harness) == [("p", "no_hello")]


def test_a_token_that_was_looked_up_for_somebody_who_has_left_does_nothing():
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


def test_the_end_of_the_old_connection_does_not_touch_the_new_one():
    harness = BrokerHarness()
    harness.log_in("p", "ann/phone")
    harness.log_in("q", "ann/phone")
    harness.close("p")
    harness.log_in("r", "ann/phone")
    assert closed(harness) == [("p", "replaced"), ("q", "replaced")]


# -- what cannot be read -----------------------------------------------------------------------------------------------


def test_a_request_that_cannot_be_read_is_answered_where_its_id_is_known():
    harness = BrokerHarness()
    harness.open("p")
    harness.handle(ev.Unreadable("p", "wrong", 5))
    assert harness.took("p") == [wire.Error(5, "malformed", "wrong")]


def test_what_is_no_message_at_all_ends_the_connection():
    harness = BrokerHarness()
    harness.open("p")
    harness.handle(ev.Unreadable("p", "no JSON"))
    assert closed(harness) == [("p", "malformed")]


def test_before_hello_there_are_no_second_chances():
    harness = BrokerHarness()
    harness.handle(ev.Opened("p"))
    harness.handle(ev.Unreadable("p", "wrong", 5))
    assert closed(harness) == [("p", "malformed")]


def test_nothing_is_heard_from_who_has_left():
    harness = BrokerHarness()
    for event in (
        ev.Received("p", [wire.Ping()]),
        ev.Unreadable("p", "x"),
        ev.Congested("p"),
        ev.Drained("p"),
        ev.Closed("p"),
    ):
        assert harness.handle(event) == []


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_to_who_has_left():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.subscribed("p")
    harness.close("p")
    harness.executed(1, 7)
    harness.tick()
    assert harness.took("p") == []


def test_nothing_is_kept_of_who_has_left():
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


def test_a_broker_that_stops_sends_everybody_away_to_come_back():
    harness = BrokerHarness()
    harness.open("p", "q")
    harness.handle(ev.Stopping())
    assert closed(harness) == [("p", "going_away"), ("q", "going_away")] and harness.state.sessions.by_peer == {}


def test_closes_are_counted_by_their_code():
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


def test_everybody_is_pinged_once_a_heartbeat():
    harness = BrokerHarness(heartbeat=5.0)
    harness.open(*range(10))
    for _ in range(5):
        harness.tick()
    assert [harness.took(peer) for peer in range(10)] == [[wire.Ping()]] * 10


def test_a_ping_says_how_far_the_channels_are():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.took("p")
    harness.tick()
    assert harness.took("p") == [wire.Ping({"C": 4})]


def test_a_ping_to_somebody_who_is_behind_says_nothing_of_that():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.handle(ev.Congested("p"))
    harness.took("p")
    harness.tick()
    assert harness.took("p") == [wire.Ping()]


def test_who_is_silent_for_three_heartbeats_is_closed():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.tick(3)
    assert closed(harness) == []
    harness.tick(1)
    assert closed(harness) == [("p", "silent")]


def test_a_broker_that_slept_does_not_take_that_for_silence():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    harness.tick(1)
    harness.tick(60)
    assert closed(harness) == [], "what it said meanwhile is not read yet"
    harness.tick(1)
    assert closed(harness) == []
    harness.tick(1)
    assert closed(harness) == [("p", "silent")]


def test_a_broker_that_slept_lets_newcomers_say_hello():
    harness = BrokerHarness(hello_timeout=10.0)
    harness.tick(1)
    harness.handle(ev.Opened("p", "address"))
    harness.tick(60)
    assert closed(harness) == []
    harness.tick(1)
    assert [code for _, code in closed(harness)] == ["hello_timeout"]


def test_any_word_is_a_sign_of_life():
    harness = BrokerHarness(heartbeat=1.0)
    harness.open("p")
    for _ in range(10):
        harness.tick(2)
        harness.say("p", wire.Pong())
    assert closed(harness) == []


def test_without_heartbeats_nobody_is_pinged_or_closed():
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.tick(1_000)
    assert closed(harness) == [] and harness.took("p") == []


def test_a_clock_that_jumps_back_brings_nothing_back():
    harness = BrokerHarness(heartbeat=1.0)
    harness.now = 100.0
    harness.open("p")
    harness.now = 5.0
    harness.tick()
    harness.now = 101.0
    harness.tick()
    assert closed(harness) == []
