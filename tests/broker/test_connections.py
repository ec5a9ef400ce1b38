"""Connections: who may come in, what they say first, how they leave, and the heart that beats."""

from __future__ import annotations

from stand import Stand

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.config import BrokerLimits
from tocsin.wire import close_codes
from tocsin.wire import messages as wire


def closed(stand: Stand) -> list[tuple[object, str]]:
    return [(it.peer, it.close.name) for it in stand.did(do.Close)]


# -- coming ------------------------------------------------------------------------------------------------------------


def test_hello_is_answered_with_welcome():
    stand = Stand(BrokerLimits(frame_bytes=99), heartbeat=25.0)
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Hello(3))
    assert stand.took("p") == [wire.Welcome(3, "b", 25.0, 99, reconnect_within=0.1)]


def test_the_more_a_broker_has_the_longer_they_take_to_come_back():
    stand = Stand()
    for number in range(250):
        stand.handle(ev.Opened(f"p{number}"))
        stand.say(f"p{number}", wire.Hello(1))
    assert [stand.took(f"p{number}")[0].reconnect_within for number in (0, 99, 100, 249)] == [0.1, 0.1, 0.2, 0.3]


def test_hello_comes_first():
    stand = Stand()
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Ping())
    assert closed(stand) == [("p", "no_hello")]


def test_hello_comes_once():
    stand = Stand()
    stand.open("p")
    stand.say("p", wire.Hello(3), wire.Ping())
    assert closed(stand) == [("p", "no_hello")] and stand.took("p") == []


def test_hello_comes_in_time():
    stand = Stand(hello_timeout=10.0)
    stand.handle(ev.Opened("p"))
    stand.tick(9)
    assert closed(stand) == []
    stand.tick(1)
    assert closed(stand) == [("p", "hello_timeout")]


def test_who_has_said_hello_has_all_the_time_there_is():
    stand = Stand(hello_timeout=10.0, heartbeat=0.0)
    stand.open("p")
    stand.tick(100)
    assert closed(stand) == []


def test_one_connection_too_many_is_sent_away():
    stand = Stand(BrokerLimits(connections=1))
    stand.open("p")
    stand.handle(ev.Opened("q"))
    assert closed(stand) == [("q", "try_later")]


def test_one_connection_too_many_from_an_address_is_sent_away():
    stand = Stand(BrokerLimits(connections_per_address=1))
    stand.handle(ev.Opened("p", "a"))
    stand.handle(ev.Opened("q", "a"))
    stand.handle(ev.Opened("r", "b"))
    assert closed(stand) == [("q", "try_later")]


def test_who_leaves_makes_room():
    stand = Stand(BrokerLimits(connections_per_address=1))
    stand.handle(ev.Opened("p", "a"))
    stand.close("p")
    stand.handle(ev.Opened("q", "a"))
    assert closed(stand) == []


# -- tokens ------------------------------------------------------------------------------------------------------------


def test_a_token_is_looked_up_before_the_welcome():
    stand = Stand()
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Hello(3, "secret"))
    assert stand.did(do.Authenticate) == [do.Authenticate("p", "secret")] and stand.took("p") == []
    stand.handle(ev.Authenticated("p", "ann/phone"))
    (welcome,) = stand.took("p")
    assert welcome.user == "ann/phone"


def test_an_unknown_token_ends_the_connection():
    stand = Stand()
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Hello(3, "secret"))
    stand.handle(ev.Authenticated("p", None))
    assert closed(stand) == [("p", "unauthorized")]


def test_what_comes_while_the_token_is_looked_up_is_answered_behind_the_welcome():
    stand = Stand()
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Hello(3, "secret"), wire.Ping())
    stand.say("p", wire.Subscribe(4, "C", []))
    assert stand.did(do.Want) == []
    stand.handle(ev.Authenticated("p", "ann"))
    assert [type(message) for message in stand.took("p")] == [wire.Welcome, wire.Pong]
    assert len(stand.did(do.Want)) == 1


def test_too_much_while_the_token_is_looked_up_ends_the_connection():
    stand = Stand(BrokerLimits(unanswered=3, subscriptions=2))
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Hello(3, "secret"), *[wire.Ping()] * 5)
    assert closed(stand) == [("p", "flood")]


def test_a_second_hello_ends_the_connection_also_behind_a_token():
    stand = Stand()
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Hello(3, "secret"), wire.Hello(4))
    stand.handle(ev.Authenticated("p", "ann"))
    assert closed(stand) == [("p", "no_hello")]


def test_a_token_that_was_looked_up_for_somebody_who_has_left_does_nothing():
    stand = Stand()
    stand.handle(ev.Opened("p"))
    stand.say("p", wire.Hello(3, "secret"))
    stand.close("p")
    assert stand.handle(ev.Authenticated("p", "ann")) == []


def test_the_same_user_and_device_replaces_its_old_connection():
    stand = Stand()
    stand.log_in("p", "ann/phone")
    stand.log_in("q", "ann/phone")
    assert closed(stand) == [("p", "replaced")]


def test_the_end_of_the_old_connection_does_not_touch_the_new_one():
    stand = Stand()
    stand.log_in("p", "ann/phone")
    stand.log_in("q", "ann/phone")
    stand.close("p")
    stand.log_in("r", "ann/phone")
    assert closed(stand) == [("p", "replaced"), ("q", "replaced")]


# -- what cannot be read -----------------------------------------------------------------------------------------------


def test_a_request_that_cannot_be_read_is_answered_where_its_id_is_known():
    stand = Stand()
    stand.open("p")
    stand.handle(ev.Unreadable("p", "wrong", 5))
    assert stand.took("p") == [wire.Error(5, "malformed", "wrong")]


def test_what_is_no_message_at_all_ends_the_connection():
    stand = Stand()
    stand.open("p")
    stand.handle(ev.Unreadable("p", "no JSON"))
    assert closed(stand) == [("p", "malformed")]


def test_before_hello_there_are_no_second_chances():
    stand = Stand()
    stand.handle(ev.Opened("p"))
    stand.handle(ev.Unreadable("p", "wrong", 5))
    assert closed(stand) == [("p", "malformed")]


def test_nothing_is_heard_from_who_has_left():
    stand = Stand()
    for event in (
        ev.Received("p", [wire.Ping()]),
        ev.Unreadable("p", "x"),
        ev.Congested("p"),
        ev.Drained("p"),
        ev.Closed("p"),
    ):
        assert stand.handle(event) == []


# -- leaving -----------------------------------------------------------------------------------------------------------


def test_nothing_is_sent_to_who_has_left():
    stand = Stand(heartbeat=1.0)
    stand.open("p")
    stand.subscribed("p")
    stand.close("p")
    stand.executed(1, 7)
    stand.tick()
    assert stand.took("p") == []


def test_nothing_is_kept_of_who_has_left():
    stand = Stand()
    stand.log_in("p", "ann")
    stand.close("p")
    state = stand.state
    assert not (state.fronts or state._users or state._addresses or state._greeting or any(state._beats))


def test_a_broker_that_stops_sends_everybody_away_to_come_back():
    stand = Stand()
    stand.open("p", "q")
    stand.handle(ev.Stopping())
    assert closed(stand) == [("p", "going_away"), ("q", "going_away")] and stand.state.fronts == {}


def test_closes_are_counted_by_their_code():
    stand = Stand()
    stand.open("p")
    stand.handle(ev.Stopping())
    assert stand.state.counters.closes == {close_codes.GOING_AWAY.code: 1}


# -- heartbeats --------------------------------------------------------------------------------------------------------


def test_ping_is_answered_with_pong():
    stand = Stand()
    stand.open("p")
    stand.say("p", wire.Ping())
    assert stand.took("p") == [wire.Pong()]


def test_everybody_is_pinged_once_a_heartbeat():
    stand = Stand(heartbeat=5.0)
    stand.open(*range(10))
    for _ in range(5):
        stand.tick()
    assert [stand.took(peer) for peer in range(10)] == [[wire.Ping()]] * 10


def test_a_ping_says_how_far_the_channels_are():
    stand = Stand(heartbeat=1.0)
    stand.open("p")
    stand.subscribed("p")
    stand.executed(4, 7)
    stand.took("p")
    stand.tick()
    assert stand.took("p") == [wire.Ping({"C": 4})]


def test_a_ping_to_somebody_who_is_behind_says_nothing_of_that():
    stand = Stand(heartbeat=1.0)
    stand.open("p")
    stand.subscribed("p")
    stand.executed(4, 7)
    stand.handle(ev.Congested("p"))
    stand.took("p")
    stand.tick()
    assert stand.took("p") == [wire.Ping()]


def test_who_is_silent_for_three_heartbeats_is_closed():
    stand = Stand(heartbeat=1.0)
    stand.open("p")
    stand.tick(3)
    assert closed(stand) == []
    stand.tick(1)
    assert closed(stand) == [("p", "silent")]


def test_a_broker_that_slept_does_not_take_that_for_silence():
    stand = Stand(heartbeat=1.0)
    stand.open("p")
    stand.tick(1)
    stand.tick(60)
    assert closed(stand) == [], "what it said meanwhile is not read yet"
    stand.tick(1)
    assert closed(stand) == []
    stand.tick(1)
    assert closed(stand) == [("p", "silent")]


def test_a_broker_that_slept_lets_newcomers_say_hello():
    stand = Stand(hello_timeout=10.0)
    stand.tick(1)
    stand.handle(ev.Opened("p", "address"))
    stand.tick(60)
    assert closed(stand) == []
    stand.tick(1)
    assert [code for _, code in closed(stand)] == ["hello_timeout"]


def test_any_word_is_a_sign_of_life():
    stand = Stand(heartbeat=1.0)
    stand.open("p")
    for _ in range(10):
        stand.tick(2)
        stand.say("p", wire.Pong())
    assert closed(stand) == []


def test_without_heartbeats_nobody_is_pinged_or_closed():
    stand = Stand(heartbeat=0.0)
    stand.open("p")
    stand.tick(1_000)
    assert closed(stand) == [] and stand.took("p") == []


def test_a_clock_that_jumps_back_brings_nothing_back():
    stand = Stand(heartbeat=1.0)
    stand.now = 100.0
    stand.open("p")
    stand.now = 5.0
    stand.tick()
    stand.now = 101.0
    stand.tick()
    assert closed(stand) == []
