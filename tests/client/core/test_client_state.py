"""The client's state machine: connections, heartbeats, close codes, logins, closing, backpressure."""

from __future__ import annotations

import pytest
from client_harness import HEARTBEAT, LIMIT, ClientHarness, consumed, notify

from tocsin.client.core import events as ev
from tocsin.config import LEAST_FRAME
from tocsin.errors import ConnectionLost, Unauthorized, Unreachable
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

# -- connecting ----------------------------------------------------------------------------------------------------


def test_the_first_message_is_hello_with_the_token():
    harness = ClientHarness(token="t", agent="me")
    harness.do(ev.OpenRequested())
    harness.connect()
    assert harness.frames == [[wire.Hello(harness.sent[0].id, "t", "me", harness.state.subscriber)]]


def test_a_client_is_open_after_the_welcome():
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    assert ev.Opened() not in harness.connect()
    assert ev.Opened() in harness.welcome()
    assert harness.state.status.state == "connected"


def test_the_brokers_are_unreachable_after_each_address_was_tried_once():
    harness = ClientHarness("one", "two")
    harness.do(ev.OpenRequested())
    harness.cut(reason="refused")
    harness.tick()
    (stopped,) = [each for each in harness.cut(reason="refused") if isinstance(each, ev.Stopped)]
    assert harness.tried == ["one", "two"]
    assert isinstance(stopped.error, Unreachable) and "refused" in stopped.error.message


def test_wait_for_broker_tries_all_addresses_in_turn():
    harness = ClientHarness("one", "two", wait_for_broker=True)
    harness.do(ev.OpenRequested())
    for _ in range(4):
        harness.cut()
        harness.tick()
    assert harness.tried == ["one", "two", "one", "two", "one"]


def test_the_wait_grows_stays_above_half_and_is_capped():
    harness = ClientHarness(wait_for_broker=True)
    harness.do(ev.OpenRequested())
    waits = []
    for _ in range(12):
        harness.cut()
        waits.append(harness.timer - harness.now)
        harness.tick()
    ceilings = [min(10.0, 0.1 * 2**n) for n in range(12)]
    assert all(top / 2 <= wait <= top for wait, top in zip(waits, ceilings, strict=True))
    assert len(set(waits[8:])) == 4, "the waits are random"


def test_the_wait_starts_over_after_a_connection_that_lasted():
    harness = ClientHarness(wait_for_broker=True).open()
    for _ in range(6):
        harness.cut()
        harness.reconnect()
    harness.now += 60
    harness.cut()
    assert harness.timer - harness.now <= 0.1


def test_a_connection_that_is_not_made_in_time_is_given_up():
    harness = ClientHarness("one", "two", wait_for_broker=True)
    harness.do(ev.OpenRequested())
    assert ev.Close(1) in harness.tick()
    harness.tick()
    assert harness.tried == ["one", "two"]


def test_a_broker_that_does_not_welcome_is_given_up():
    harness = ClientHarness(wait_for_broker=True)
    harness.do(ev.OpenRequested())
    harness.connect()
    assert ev.Close(1) in harness.tick()


def test_messages_of_an_earlier_connection_are_ignored():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.cut()
    harness.reconnect()
    harness.do(ev.Received(1, [notify(11)]))
    harness.do(ev.Disconnected(1, close_codes.UNAUTHORIZED.code))
    harness.do(ev.Connected(1))
    assert harness.got() == [] and harness.state.status.state == "connected" and harness.state.current.number == 2


def test_the_same_events_give_the_same_instructions():
    def run() -> list[ev.Instruction]:
        harness = ClientHarness("one", "two", token="t").open()
        harness.subscribed()
        harness.receive(notify(11), notify(12))
        harness.do(consumed(1, 11))
        harness.cut(1001)
        harness.reconnect()
        return harness.done

    assert run() == run()


# -- heartbeats ----------------------------------------------------------------------------------------------------


def test_a_ping_is_answered():
    harness = ClientHarness().open()
    harness.receive(wire.Ping())
    assert harness.sent[-1] == wire.Pong()


def test_after_three_heartbeats_without_a_message_the_connection_is_dead():
    harness = ClientHarness().open()
    start = harness.now
    did: list[ev.Instruction] = []
    while ev.Close(1) not in did:
        did = harness.tick()
    assert harness.now == start + 3 * HEARTBEAT
    assert harness.state.status.state == "waiting"


def test_any_message_keeps_the_connection_alive():
    harness = ClientHarness().open()
    for _ in range(10):
        harness.now += 2.9 * HEARTBEAT
        harness.receive(wire.Pong())
        harness.do(ev.Timer())
    assert harness.did(ev.Close) == []


def test_a_broker_without_heartbeats_is_never_dead():
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    harness.connect()
    harness.welcome(heartbeat=0.0)
    harness.now += 1e6
    harness.do(ev.Timer())
    assert harness.did(ev.Close) == [] and harness.state.status.state == "connected"


# -- closes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(close_codes.CLOSES))
def test_every_close_code_means_reconnect_or_stop(code):
    harness = ClientHarness().open()
    harness.subscribed()
    did = harness.cut(code, "why")
    stopped = [each for each in did if isinstance(each, ev.Stopped)]
    if close_codes.CLOSES[code].reconnect:
        assert stopped == [] and harness.state.status.state == "waiting"
        assert len(harness.reconnect().sent_of(wire.Subscribe)) == 1
    else:
        (stop,) = stopped
        kind = Unauthorized if code == close_codes.UNAUTHORIZED.code else ConnectionLost
        assert type(stop.error) is kind and stop.error.fields["close"] == code and "why" in stop.error.message
        assert ev.Ended(1, stop.error) in did


@pytest.mark.parametrize("code", [None, 1005, 1006, 1012, 3000, 4150])
def test_a_client_reconnects_after_any_other_close(code):
    harness = ClientHarness().open()
    harness.cut(code)
    assert harness.state.status.state == "waiting"


@pytest.mark.parametrize("code", [1010, 1015, 4099])
def test_an_unknown_code_in_the_stop_range_stops_the_client(code):
    harness = ClientHarness().open()
    harness.cut(code)
    assert harness.state.status.state == "closed"


# -- logging in ----------------------------------------------------------------------------------------------------


def test_a_client_with_a_password_logs_in_before_it_connects():
    harness = ClientHarness(login=True)
    assert harness.do(ev.OpenRequested()) == [ev.Login("one")]
    harness.do(ev.LoggedIn("t"))
    harness.connect()
    assert harness.sent[0].token == "t"


def test_a_refused_login_stops_the_client():
    harness = ClientHarness(login=True)
    harness.do(ev.OpenRequested())
    error = Unauthorized("no")
    assert ev.Stopped(error) in harness.do(ev.LoginFailed(error))


def test_a_login_without_an_answer_is_tried_at_the_next_address():
    harness = ClientHarness("one", "two", login=True)
    harness.do(ev.OpenRequested())
    harness.do(ev.LoginFailed(Unreachable("gone")))
    assert ev.Login("two") in harness.tick()


def test_a_token_that_expired_is_replaced_once():
    harness = ClientHarness(token="old", login=True).open()
    assert ev.Login("one") in harness.cut(4001)
    harness.do(ev.LoggedIn("new"))
    harness.connect()
    assert harness.sent[0].token == "new"
    harness.cut(4001)
    assert harness.state.status.state == "closed"


def test_a_token_may_expire_again_after_a_welcome():
    harness = ClientHarness(token="old", login=True).open()
    for _ in range(3):
        assert ev.Login("one") in harness.cut(4001)
        harness.do(ev.LoggedIn("new"))
        harness.connect()
        harness.welcome()


# -- backpressure --------------------------------------------------------------------------------------------------


def test_the_client_stops_reading_at_max_pending_and_resumes_at_half():
    harness = ClientHarness().open()
    harness.subscribed(max_pending=4)
    harness.receive(*map(notify, (11, 12, 13)))
    assert harness.reading
    harness.receive(notify(14))
    assert not harness.reading
    harness.do(consumed(1, 11))
    assert not harness.reading
    harness.do(consumed(1, 12))
    assert harness.reading


def test_a_paused_client_sends_heartbeats_and_expects_none():
    harness = ClientHarness().open()
    harness.subscribed(max_pending=1)
    harness.receive(notify(11))
    start = harness.now
    while harness.now < start + 10 * HEARTBEAT:
        harness.tick()
    assert len(harness.sent_of(wire.Pong)) == 10 and harness.did(ev.Close) == []
    harness.do(consumed(1, 11))
    harness.tick()
    assert harness.did(ev.Close) == [] or harness.now >= start + 13 * HEARTBEAT


def test_a_client_with_a_request_in_flight_keeps_reading():
    harness = ClientHarness().open()
    harness.subscribed(max_pending=1)
    harness.receive(notify(11))
    harness.do(ev.PublishRequested(1, "F", [b"{}"]))
    assert harness.reading
    harness.receive(notify(12), wire.Published(harness.sent_of(wire.Publish)[0].id, 1))
    assert not harness.reading


def test_unsubscribing_a_full_subscription_resumes_reading():
    harness = ClientHarness().open()
    harness.subscribed(max_pending=1)
    harness.receive(notify(11))
    harness.do(ev.UnsubscribeRequested(1))
    assert harness.reading


def test_a_new_connection_is_read_until_the_resume_is_answered():
    harness = ClientHarness().open()
    harness.subscribed(max_pending=1)
    harness.receive(notify(11))
    harness.cut()
    harness.reconnect()
    assert harness.reading
    harness.receive(wire.Subscribed(harness.sent_of(wire.Subscribe)[0].id, 5, "C", 11))
    assert not harness.reading


def test_before_the_welcome_frames_are_small():
    harness = ClientHarness().open()
    harness.subscribed()
    assert harness.limits[-1] == LIMIT["frame_bytes"]
    harness.cut()
    harness.reconnect()
    assert harness.limits[-1] == LEAST_FRAME


def refreshing() -> ClientHarness:
    harness = ClientHarness(login=True)
    harness.do(ev.OpenRequested())
    harness.do(ev.LoggedIn("first", 100.0))
    harness.connect()
    harness.welcome()
    return harness


def until_refresh(harness: ClientHarness) -> float:
    """Answers pings until the client asks for the next token; the time at which it does."""
    while not any(isinstance(each, ev.Refresh) for each in harness.tick()):
        harness.receive(wire.Ping())
    return harness.now


def test_the_next_token_is_fetched_in_time_and_sent_on_the_open_connection():
    harness = refreshing()
    start = harness.now
    assert 60 <= until_refresh(harness) - start < 100
    harness.do(ev.LoggedIn("second", 100.0))
    assert [each.token for each in harness.sent_of(wire.Authenticate)] == ["second"]
    assert harness.state.token == "second" and harness.state.connects == 1
    until_refresh(harness)


def test_a_refresh_without_an_answer_is_tried_again_before_the_token_expires():
    harness = refreshing()
    start = harness.now
    first = until_refresh(harness)
    harness.do(ev.LoginFailed(Unreachable("no")))
    assert first < until_refresh(harness) < start + 100


def test_a_refused_refresh_leaves_it_to_the_broker_to_end_the_connection():
    harness = refreshing()
    until_refresh(harness)
    harness.do(ev.LoginFailed(Unauthorized("no")))
    assert harness.state.status.state == "connected"
    harness.cut(4001)
    assert isinstance(harness.done[-1], ev.SetTimer | ev.Login) and any(
        isinstance(each, ev.Login) for each in harness.done[-3:]
    )


def test_a_client_without_a_lifetime_of_its_token_does_not_refresh():
    harness = ClientHarness(login=True)
    harness.do(ev.OpenRequested())
    harness.do(ev.LoggedIn("first"))
    assert harness.state.access.refresh_at is None
