"""The client's state machine: connections, heartbeats, close codes, logins, closing, backpressure."""

from __future__ import annotations

import pytest
from rig import HEARTBEAT, Rig, notify

from tocsin.client.core import events as ev
from tocsin.client.core.connection_state import CAUTIOUS_FRAME
from tocsin.errors import ConnectionLost, Unauthorized, Unreachable
from tocsin.wire import close_codes
from tocsin.wire import messages as wire

# -- connecting ----------------------------------------------------------------------------------------------------


def test_it_says_hello_first_with_its_token():
    rig = Rig(token="t", agent="me")
    rig.do(ev.Open())
    rig.connect()
    assert rig.frames == [[wire.Hello(rig.sent[0].id, "t", "me", rig.state.subscriber)]]


def test_it_is_open_when_a_broker_has_welcomed_it():
    rig = Rig()
    rig.do(ev.Open())
    assert ev.Opened() not in rig.connect()
    assert ev.Opened() in rig.welcome()
    assert rig.state.status.state == "connected"


def test_a_broker_that_was_never_there_is_unreachable_after_each_was_tried_once():
    rig = Rig("one", "two")
    rig.do(ev.Open())
    rig.cut(reason="refused")
    rig.tick()
    (stopped,) = [each for each in rig.cut(reason="refused") if isinstance(each, ev.Stopped)]
    assert rig.tried == ["one", "two"]
    assert isinstance(stopped.error, Unreachable) and "refused" in stopped.error.message


def test_a_patient_client_goes_on_trying_all_in_turn():
    rig = Rig("one", "two", patient=True)
    rig.do(ev.Open())
    for _ in range(4):
        rig.cut()
        rig.tick()
    assert rig.tried == ["one", "two", "one", "two", "one"]


def test_the_wait_grows_stays_above_half_and_is_capped():
    rig = Rig(patient=True)
    rig.do(ev.Open())
    waits = []
    for _ in range(12):
        rig.cut()
        waits.append(rig.timer - rig.now)
        rig.tick()
    ceilings = [min(10.0, 0.1 * 2**n) for n in range(12)]
    assert all(top / 2 <= wait <= top for wait, top in zip(waits, ceilings, strict=True))
    assert len(set(waits[8:])) == 4, "chance has its part"


def test_the_wait_starts_over_after_a_connection_that_lasted():
    rig = Rig(patient=True).open()
    for _ in range(6):
        rig.cut()
        rig.come_back()
    rig.now += 60
    rig.cut()
    assert rig.timer - rig.now <= 0.1


def test_a_connection_that_is_not_made_in_time_is_given_up():
    rig = Rig("one", "two", patient=True)
    rig.do(ev.Open())
    assert ev.Close(1) in rig.tick()
    rig.tick()
    assert rig.tried == ["one", "two"]


def test_a_broker_that_does_not_welcome_is_given_up():
    rig = Rig(patient=True)
    rig.do(ev.Open())
    rig.connect()
    assert ev.Close(1) in rig.tick()


def test_what_an_earlier_connection_says_is_of_no_interest():
    rig = Rig().open()
    rig.subscribed()
    rig.cut()
    rig.come_back()
    rig.do(ev.Received(1, [notify(11)]))
    rig.do(ev.Disconnected(1, close_codes.UNAUTHORIZED.code))
    rig.do(ev.Connected(1))
    assert rig.got() == [] and rig.state.status.state == "connected" and rig.state.current.number == 2


def test_the_same_events_give_the_same_instructions():
    def run() -> list[ev.Instruction]:
        rig = Rig("one", "two", token="t").open()
        rig.subscribed()
        rig.hear(notify(11), notify(12))
        rig.do(ev.Consumed(1, 11))
        rig.cut(1001)
        rig.come_back()
        return rig.done

    assert run() == run()


# -- heartbeats ----------------------------------------------------------------------------------------------------


def test_a_ping_is_answered():
    rig = Rig().open()
    rig.hear(wire.Ping())
    assert rig.sent[-1] == wire.Pong()


def test_three_heartbeats_without_a_word_are_death():
    rig = Rig().open()
    start = rig.now
    did: list[ev.Instruction] = []
    while ev.Close(1) not in did:
        did = rig.tick()
    assert rig.now == start + 3 * HEARTBEAT
    assert rig.state.status.state == "waiting"


def test_any_word_is_a_sign_of_life():
    rig = Rig().open()
    for _ in range(10):
        rig.now += 2.9 * HEARTBEAT
        rig.hear(wire.Pong())
        rig.do(ev.Timer())
    assert rig.did(ev.Close) == []


def test_a_broker_without_heartbeats_is_never_dead():
    rig = Rig()
    rig.do(ev.Open())
    rig.connect()
    rig.welcome(heartbeat=0.0)
    rig.now += 1e6
    rig.do(ev.Timer())
    assert rig.did(ev.Close) == [] and rig.state.status.state == "connected"


# -- closes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(close_codes.CLOSES))
def test_every_close_code_means_come_back_or_stop(code):
    rig = Rig().open()
    rig.subscribed()
    did = rig.cut(code, "why")
    stopped = [each for each in did if isinstance(each, ev.Stopped)]
    if close_codes.CLOSES[code].reconnect:
        assert stopped == [] and rig.state.status.state == "waiting"
        assert len(rig.come_back().said(wire.Subscribe)) == 1
    else:
        (stop,) = stopped
        kind = Unauthorized if code == close_codes.UNAUTHORIZED.code else ConnectionLost
        assert type(stop.error) is kind and stop.error.fields["close"] == code and "why" in stop.error.message
        assert ev.Ended(1, stop.error) in did


@pytest.mark.parametrize("code", [None, 1005, 1006, 1012, 3000, 4150])
def test_a_connection_that_breaks_otherwise_is_made_again(code):
    rig = Rig().open()
    rig.cut(code)
    assert rig.state.status.state == "waiting"


@pytest.mark.parametrize("code", [1010, 1015, 4099])
def test_an_unknown_code_of_those_that_mean_stop_stops(code):
    rig = Rig().open()
    rig.cut(code)
    assert rig.state.status.state == "closed"


# -- logging in ----------------------------------------------------------------------------------------------------


def test_with_a_password_it_logs_in_before_it_connects():
    rig = Rig(login=True)
    assert rig.do(ev.Open()) == [ev.Login("one")]
    rig.do(ev.LoggedIn("t"))
    rig.connect()
    assert rig.sent[0].token == "t"


def test_a_login_that_is_refused_is_the_end():
    rig = Rig(login=True)
    rig.do(ev.Open())
    error = Unauthorized("no")
    assert ev.Stopped(error) in rig.do(ev.LoginFailed(error))


def test_a_login_without_an_answer_is_tried_elsewhere():
    rig = Rig("one", "two", login=True)
    rig.do(ev.Open())
    rig.do(ev.LoginFailed(Unreachable("gone")))
    assert ev.Login("two") in rig.tick()


def test_a_token_that_expired_is_replaced_once():
    rig = Rig(token="old", login=True).open()
    assert ev.Login("one") in rig.cut(4001)
    rig.do(ev.LoggedIn("new"))
    rig.connect()
    assert rig.sent[0].token == "new"
    rig.cut(4001)
    assert rig.state.status.state == "closed"


def test_a_token_may_expire_again_after_a_welcome():
    rig = Rig(token="old", login=True).open()
    for _ in range(3):
        assert ev.Login("one") in rig.cut(4001)
        rig.do(ev.LoggedIn("new"))
        rig.connect()
        rig.welcome()


# -- backpressure --------------------------------------------------------------------------------------------------


def test_it_stops_reading_when_the_application_has_enough_and_reads_on_at_half():
    rig = Rig().open()
    rig.subscribed(max_pending=4)
    rig.hear(*map(notify, (11, 12, 13)))
    assert rig.reading
    rig.hear(notify(14))
    assert not rig.reading
    rig.do(ev.Consumed(1, 11))
    assert not rig.reading
    rig.do(ev.Consumed(1, 12))
    assert rig.reading


def test_while_it_does_not_read_it_shows_that_it_lives_and_takes_nobody_for_dead():
    rig = Rig().open()
    rig.subscribed(max_pending=1)
    rig.hear(notify(11))
    start = rig.now
    while rig.now < start + 10 * HEARTBEAT:
        rig.tick()
    assert len(rig.said(wire.Pong)) == 10 and rig.did(ev.Close) == []
    rig.do(ev.Consumed(1, 11))
    rig.tick()
    assert rig.did(ev.Close) == [] or rig.now >= start + 13 * HEARTBEAT


def test_whoever_waits_for_an_answer_reads_on():
    rig = Rig().open()
    rig.subscribed(max_pending=1)
    rig.hear(notify(11))
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    assert rig.reading
    rig.hear(notify(12), wire.Published(rig.said(wire.Publish)[0].id, 1))
    assert not rig.reading


def test_leaving_makes_room():
    rig = Rig().open()
    rig.subscribed(max_pending=1)
    rig.hear(notify(11))
    rig.do(ev.WantUnsubscribe(1))
    assert rig.reading


def test_a_new_connection_is_read_until_the_resume_is_answered():
    rig = Rig().open()
    rig.subscribed(max_pending=1)
    rig.hear(notify(11))
    rig.cut()
    rig.come_back()
    assert rig.reading
    rig.hear(wire.Subscribed(rig.said(wire.Subscribe)[0].id, 5, "C", 11))
    assert not rig.reading


def test_before_the_welcome_frames_are_small():
    rig = Rig().open()
    rig.cut()
    assert rig.state.frame_bytes(2) == CAUTIOUS_FRAME
