"""The client's state machine, event by event."""

from __future__ import annotations

import pytest
from rig import HEARTBEAT, Rig, notify

from tocsin.client import events as ev
from tocsin.client.notification import Missed, Receipt
from tocsin.client.state import CAUTIOUS_FRAME
from tocsin.errors import Conflict, ConnectionLost, NotFound, Unauthorized, Uncertain, Unreachable
from tocsin.wire import closes
from tocsin.wire import messages as wire

# -- connecting ----------------------------------------------------------------------------------------------------------


def test_it_says_hello_first_with_its_token():
    rig = Rig(token="t", agent="me")
    rig.do(ev.Open())
    rig.connect()
    assert rig.frames == [[wire.Hello(rig.sent[0].id, "t", "me")]]


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
    rig.do(ev.Disconnected(1, closes.UNAUTHORIZED.code))
    rig.do(ev.Connected(1))
    assert rig.got() == [] and rig.state.status.state == "connected" and rig.state.connection == 2


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


# -- heartbeats ----------------------------------------------------------------------------------------------------------


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


# -- closes --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(closes.CLOSES))
def test_every_close_code_means_come_back_or_stop(code):
    rig = Rig().open()
    rig.subscribed()
    did = rig.cut(code, "why")
    stopped = [each for each in did if isinstance(each, ev.Stopped)]
    if closes.CLOSES[code].reconnect:
        assert stopped == [] and rig.state.status.state == "waiting"
        assert len(rig.come_back().said(wire.Subscribe)) == 1
    else:
        (stop,) = stopped
        kind = Unauthorized if code == closes.UNAUTHORIZED.code else ConnectionLost
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


# -- logging in ----------------------------------------------------------------------------------------------------------


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


# -- subscribing ---------------------------------------------------------------------------------------------------------


def test_a_subscription_is_confirmed_by_its_answer_and_begins_there():
    rig = Rig().open()
    request = rig.subscribe(args={"kind": "fire"})
    assert request == wire.Subscribe(request.id, "C", {"kind": "fire"})
    assert ev.Confirmed(1) in rig.hear(wire.Subscribed(request.id, 5, "C", 10))
    assert rig.state.subscriptions.entries[1].cursor == 10


def test_a_subscription_that_is_refused_ends_with_the_error():
    rig = Rig().open()
    request = rig.subscribe()
    (ended,) = rig.hear(wire.Error(request.id, "not_found", "there is no channel 'C'", "look"))
    assert isinstance(ended.error, NotFound) and ended.error.code == "not_found" and ended.error.hint == "look"


def test_notifications_are_delivered_once_and_in_order():
    rig = Rig().open()
    rig.subscribed()
    rig.hear(notify(10), notify(11), notify(11), notify(13), notify(12))
    assert rig.got() == [11, 13]
    assert rig.state.status.duplicates == 3


def test_what_belongs_to_nobody_is_left_alone():
    rig = Rig().open()
    rig.hear(notify(3, 99), wire.Live(99, 4), wire.Lagging(99, 4), wire.Gap(99, 1, 3, "retention"))
    rig.hear(wire.Subscribed(99, 1, "C", 1), wire.Unsubscribed(99, 1), wire.Published(99, 1), wire.Error(99, "x", "y"))
    rig.hear(wire.Ended(99, "not_found", "gone"), wire.Error(None, "x", "told to nobody"))
    assert rig.items == {} and rig.state.status.problem == "told to nobody"


def test_equal_subscriptions_share_one_on_the_wire_and_both_get_everything():
    rig = Rig().open()
    rig.subscribed(args={"a": 1, "b": 2})
    assert rig.subscribe(2, args={"b": 2, "a": 1}) is None
    assert ev.Confirmed(2) in rig.done
    rig.hear(notify(11))
    assert rig.got(1) == rig.got(2) == [11]


def test_equal_subscriptions_that_wait_for_the_same_answer_share_it():
    rig = Rig().open()
    request = rig.subscribe(1)
    assert rig.subscribe(2) is None
    rig.hear(wire.Subscribed(request.id, 5, "C", 10), notify(11))
    assert rig.got(1) == rig.got(2) == [11]


def test_subscriptions_that_turn_out_to_be_equal_both_get_everything():
    rig = Rig().open()
    rig.subscribed(args=("fire",))
    rig.hear(notify(11))
    rig.subscribed(handle=2, args={"kind": "fire"}, after=11)
    rig.hear(notify(12))
    assert (rig.got(1), rig.got(2)) == ([11, 12], [12])


def test_one_that_joins_does_not_get_what_was_before_it():
    rig = Rig().open()
    rig.subscribed()
    rig.hear(wire.Lagging(5, 10), notify(30, 6))
    rig.subscribe(2)
    rig.hear(notify(11), notify(30), notify(31))
    assert (rig.got(1), rig.got(2)) == ([11, 30, 31], [31])


def test_one_that_wants_the_past_gets_it_and_its_equal_gets_nothing_twice():
    rig = Rig().open()
    rig.subscribed()
    rig.hear(notify(11))
    request = rig.subscribe(2, after=3)
    assert request.after == 3
    rig.hear(notify(12), wire.Subscribed(request.id, 5, "C", 3), *map(notify, range(4, 14)), wire.Live(5, 13))
    assert rig.got(1) == [11, 12, 13]
    assert rig.got(2) == list(range(4, 14))


def test_while_an_equal_one_catches_up_a_ping_moves_nobody():
    rig = Rig().open()
    rig.subscribed()
    request = rig.subscribe(2, after=3)
    rig.hear(wire.Subscribed(request.id, 5, "C", 3), wire.Ping({"C": 20}))
    assert rig.state.subscriptions.entries[1].cursor == 10


# -- resuming ------------------------------------------------------------------------------------------------------------


def test_a_resume_goes_into_the_same_frame_as_hello_with_number_and_cursor():
    rig = Rig().open()
    rig.subscribed(args=(1,))
    rig.subscribed(6, 20, handle=2, channel="D")
    rig.hear(notify(11), notify(25, 6, "D"))
    rig.cut()
    rig.come_back()
    hello, first, second = rig.frames[0]
    assert isinstance(hello, wire.Hello)
    assert first == wire.Subscribe(first.id, "C", [1], 11, 5)
    assert second == wire.Subscribe(second.id, "D", [], 25, 6)


def test_equal_subscriptions_resume_together_from_the_one_that_is_behind():
    rig = Rig().open()
    rig.subscribed()
    rig.hear(notify(11), notify(12))
    request = rig.subscribe(2, after=3)
    rig.hear(wire.Subscribed(request.id, 5, "C", 3), notify(4), wire.Live(5, 4), notify(5))
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    assert (asked.after, asked.subscription) == (5, 5)
    rig.hear(wire.Subscribed(asked.id, 5, "C", 5), *map(notify, (11, 12, 13)))
    assert (rig.got(1), rig.got(2)) == ([11, 12, 13], [4, 5, 11, 12, 13])


def test_what_was_never_confirmed_is_asked_for_again_as_new():
    rig = Rig().open()
    rig.subscribe()
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    assert asked.after is None and asked.subscription is None


def test_what_was_wanted_without_a_connection_is_asked_for_with_the_hello():
    rig = Rig()
    rig.do(ev.Open())
    rig.do(ev.WantSubscribe(1, "C", []))
    rig.connect()
    assert [type(message) for message in rig.frames[0]] == [wire.Hello, wire.Subscribe]


@pytest.mark.parametrize("heard", range(9))
def test_it_resumes_after_any_part_of_the_conversation(heard):
    """The broker sends executions 11 to 16 with a gap; wherever it is cut, the rest comes afterwards."""
    rig = Rig().open()
    rig.subscribed()
    talk = [notify(11), notify(12), wire.Lagging(5, 12), wire.Gap(5, 12, 14, "retention"), notify(14)]
    talk += [wire.Live(5, 14), wire.Ping({"C": 15}), notify(16)]
    rig.hear(*talk[:heard])
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rest = [m for m in talk if isinstance(m, wire.Notify) and m.execution > asked.after]
    gap = [wire.Gap(5, asked.after, 14, "retention")] if asked.after < 13 else []
    rig.hear(wire.Subscribed(asked.id, 5, "C", asked.after), *gap, *rest, wire.Live(5, 16))
    assert rig.got() == [11, 12][:heard] + [14, 16]
    assert rig.state.subscriptions.entries[1].gaps == 1 and rig.state.subscriptions.entries[1].cursor == 16


def test_a_resume_that_is_refused_ends_the_subscription():
    rig = Rig().open()
    rig.subscribed()
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Error(asked.id, "not_found", "there is no channel 'C'"))
    (ended,) = rig.did(ev.Ended)
    assert isinstance(ended.error, NotFound)


@pytest.mark.parametrize("code", ["busy", "unreachable", "not_ready", "internal", "never_heard_of"])
def test_a_resume_that_cannot_be_done_now_is_tried_again(code):
    rig = Rig().open()
    rig.subscribed()
    rig.cut()
    rig.come_back()
    for _ in range(5):
        asked = rig.said(wire.Subscribe)[-1]
        rig.hear(wire.Error(asked.id, code, "not now"))
        before = len(rig.said(wire.Subscribe))
        rig.tick()
        assert len(rig.said(wire.Subscribe)) == before + 1
    asked = rig.said(wire.Subscribe)[-1]
    rig.hear(wire.Subscribed(asked.id, 5, "C", 10), notify(11))
    assert rig.got() == [11] and rig.did(ev.Ended) == []


def test_a_new_subscription_that_cannot_be_done_now_is_an_error():
    rig = Rig().open()
    request = rig.subscribe()
    (ended,) = rig.hear(wire.Error(request.id, "not_ready", "Spark is starting"))
    assert ended.error.code == "not_ready"


def test_under_a_new_number_it_goes_on_and_learns_what_is_lost():
    rig = Rig().open()
    rig.subscribed()
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 10), notify(12, 6), wire.Gap(6, 12, 20, "released"))
    rig.hear(notify(20, 6), wire.Live(6, 20))
    assert rig.got() == [12, 20]
    assert Missed("C", 6, 12, 20, "released") in rig.items[1]


def test_a_new_number_is_used_only_when_everything_of_the_old_one_is_here():
    rig = Rig().open()
    rig.subscribed()
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 10), notify(12, 6))
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    assert (asked.subscription, asked.after) == (5, 12)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 12), wire.Gap(6, 12, 20, "released"))
    rig.cut()
    rig.come_back()
    assert rig.said(wire.Subscribe)[0].subscription == 6


def test_a_channel_made_anew_counts_from_the_beginning():
    rig = Rig().open()
    rig.subscribed(after=1000)
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 0), notify(1, 6))
    assert rig.got() == [1]


def test_a_broker_that_is_behind_the_client_makes_nothing_twice():
    rig = Rig().open()
    rig.subscribed(after=100)
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 5, "C", 98), notify(99), notify(100), notify(101))
    assert rig.got() == [101]


# -- positions -----------------------------------------------------------------------------------------------------------


def test_a_ping_moves_the_cursor_of_what_is_live():
    rig = Rig().open()
    rig.subscribed()
    rig.hear(wire.Ping({"C": 40, "D": 50}))
    assert rig.state.subscriptions.entries[1].cursor == 40
    rig.hear(notify(40), notify(41))
    assert rig.got() == [41]


@pytest.mark.parametrize("before", ["resumed", "lagging"])
def test_a_ping_moves_nothing_that_is_behind(before):
    rig = Rig().open()
    rig.subscribed()
    if before == "resumed":
        rig.cut()
        rig.come_back()
        rig.hear(wire.Subscribed(rig.said(wire.Subscribe)[0].id, 5, "C", 10))
    else:
        rig.hear(wire.Lagging(5, 10))
    entry = rig.state.subscriptions.entries[1]
    rig.hear(wire.Ping({"C": 40}))
    assert (entry.cursor, rig.state.subscriptions.lag(entry)) == (10, 30)
    rig.hear(notify(35), wire.Live(5, 40), wire.Ping({"C": 41}))
    assert (rig.got(), entry.cursor, rig.state.subscriptions.lag(entry)) == ([35], 41, 0)


def test_a_gap_is_delivered_and_counted_once():
    rig = Rig().open()
    rig.subscribed()
    rig.hear(wire.Gap(5, 10, 15, "retention"), wire.Gap(5, 10, 15, "retention"), notify(14), notify(15))
    assert rig.items[1][0] == Missed("C", 5, 10, 15, "retention")
    assert (rig.got(), rig.state.status.gaps) == ([15], 1)


# -- leaving -------------------------------------------------------------------------------------------------------------


def test_unsubscribing_ends_it_at_once_and_tells_the_broker():
    rig = Rig().open()
    rig.subscribed()
    did = rig.do(ev.WantUnsubscribe(1))
    (request,) = rig.said(wire.Unsubscribe)
    assert ev.Ended(1) in did and ev.Left(1) not in did and request.subscription == 5
    rig.hear(notify(11))
    assert ev.Left(1) in rig.hear(wire.Unsubscribed(request.id, 5))
    assert rig.got() == []


def test_draining_still_takes_what_is_on_its_way():
    rig = Rig().open()
    rig.subscribed()
    assert ev.Ended(1) not in rig.do(ev.WantUnsubscribe(1, drain=True))
    (request,) = rig.said(wire.Unsubscribe)
    rig.hear(notify(11))
    assert rig.hear(wire.Unsubscribed(request.id, 5))[:2] == [ev.Ended(1), ev.Left(1)]
    assert rig.got() == [11]


def test_the_first_of_two_equal_ones_leaves_without_a_word():
    rig = Rig().open()
    rig.subscribed()
    rig.subscribe(2)
    assert rig.do(ev.WantUnsubscribe(1))[:2] == [ev.Ended(1), ev.Left(1)]
    rig.hear(notify(11))
    assert (rig.said(wire.Unsubscribe), rig.got(1), rig.got(2)) == ([], [], [11])
    rig.do(ev.WantUnsubscribe(2))
    assert len(rig.said(wire.Unsubscribe)) == 1


def test_one_that_leaves_before_its_answer_is_unsubscribed_by_the_answer():
    rig = Rig().open()
    request = rig.subscribe()
    assert rig.do(ev.WantUnsubscribe(1))[:2] == [ev.Ended(1), ev.Left(1)]
    rig.hear(wire.Subscribed(request.id, 5, "C", 10))
    assert [each.subscription for each in rig.said(wire.Unsubscribe)] == [5]


def test_one_that_turned_out_equal_to_one_that_left_is_subscribed_again():
    rig = Rig().open()
    rig.subscribed(args=("fire",))
    request = rig.subscribe(2, args={"kind": "fire"})
    rig.do(ev.WantUnsubscribe(1))
    (leaving,) = rig.said(wire.Unsubscribe)
    rig.hear(wire.Subscribed(request.id, 5, "C", 10), notify(11), wire.Unsubscribed(leaving.id, 5))
    again = rig.said(wire.Subscribe)[-1]
    assert (again.args, again.after, again.subscription) == ({"kind": "fire"}, 11, 5)


def test_leaving_twice_or_what_never_was_is_no_trouble():
    rig = Rig().open()
    assert rig.do(ev.WantUnsubscribe(9)) == [ev.Left(9)]


@pytest.mark.parametrize("drain", [True, False])
def test_without_a_token_a_broken_connection_is_a_goodbye_too(drain):
    rig = Rig().open()
    rig.subscribed()
    rig.do(ev.WantUnsubscribe(1, drain))
    rig.cut()
    assert ev.Left(1) in rig.done and ev.Ended(1) in rig.done
    rig.come_back()
    assert rig.said(wire.Unsubscribe) == rig.said(wire.Subscribe) == []


@pytest.mark.parametrize("when", ["before the answer", "without a connection"])
def test_with_a_token_a_goodbye_that_nobody_heard_is_said_again(when):
    rig = Rig(token="t").open()
    rig.subscribed()
    if when == "before the answer":
        rig.do(ev.WantUnsubscribe(1))
        rig.cut()
    else:
        rig.cut()
        rig.do(ev.WantUnsubscribe(1))
    assert rig.did(ev.Left) == [] and rig.did(ev.Ended) == [ev.Ended(1)]
    rig.come_back()
    (request,) = rig.said(wire.Unsubscribe)
    assert rig.said(wire.Subscribe) == []
    rig.hear(wire.Error(request.id, "not_found", "no subscription 5 here"))
    assert rig.did(ev.Left) == [ev.Left(1)]


def test_a_goodbye_is_not_said_for_a_number_that_is_wanted_again():
    rig = Rig(token="t").open()
    rig.subscribed()
    rig.subscribe(2)
    rig.cut()
    rig.do(ev.WantUnsubscribe(1))
    rig.come_back()
    assert rig.said(wire.Unsubscribe) == [] and ev.Left(1) in rig.done
    assert len(rig.said(wire.Subscribe)) == 1


def test_a_channel_that_is_dropped_ends_its_subscriptions():
    rig = Rig().open()
    rig.subscribed()
    rig.subscribe(2)
    rig.hear(wire.Ended(5, "not_found", "the channel C was dropped"))
    assert [(each.handle, each.error.code) for each in rig.did(ev.Ended)] == [(1, "not_found"), (2, "not_found")]
    rig.cut()
    assert rig.come_back().said(wire.Subscribe) == []


def test_closing_ends_everything_without_an_error():
    rig = Rig().open()
    rig.subscribed()
    did = rig.do(ev.WantClose())
    assert did == [ev.Close(1, 1000), ev.Ended(1), ev.Stopped()]
    assert rig.do(ev.WantClose()) == []


def test_after_closing_nothing_works_and_it_says_so():
    rig = Rig().open()
    rig.do(ev.WantClose())
    rig.do(ev.WantSubscribe(1, "C", []))
    rig.do(ev.WantPublish(2, "F", [b"{}"]))
    assert isinstance(rig.did(ev.Ended)[0].error, Conflict)
    assert isinstance(rig.did(ev.Reject)[0].error, Conflict)


# -- acks ----------------------------------------------------------------------------------------------------------------


def acked(rig: Rig) -> list[dict[int, int]]:
    return [message.positions for message in rig.said(wire.Ack)]


def test_without_a_token_nothing_is_acknowledged():
    rig = Rig().open()
    rig.subscribed()
    rig.hear(notify(11))
    rig.do(ev.Consumed(1, 11))
    assert acked(rig) == []


def test_what_was_consumed_is_acknowledged_at_most_once_a_second():
    rig = Rig(token="t").open()
    rig.subscribed()
    rig.hear(*map(notify, range(11, 20)))
    for execution in range(11, 16):
        rig.do(ev.Consumed(1, execution))
    assert acked(rig) == [{5: 11}]
    assert rig.timer == rig.now + 1.0
    rig.tick()
    assert acked(rig) == [{5: 11}, {5: 15}]


def test_what_was_delivered_and_not_consumed_is_not_acknowledged():
    rig = Rig(token="t").open()
    rig.subscribed()
    rig.hear(notify(11), notify(12), wire.Ping({"C": 30}))
    assert acked(rig) == [{5: 10}]
    rig.now += 1
    rig.do(ev.Consumed(1, 11))
    rig.now += 1
    rig.do(ev.Consumed(1, 12))
    assert acked(rig) == [{5: 10}, {5: 11}, {5: 30}]


def test_equal_subscriptions_acknowledge_what_both_have_consumed():
    rig = Rig(token="t").open()
    rig.subscribed()
    rig.subscribe(2)
    rig.hear(notify(11), notify(12))
    rig.do(ev.Consumed(1, 11))
    rig.now += 1
    rig.do(ev.Consumed(2, 11))
    assert acked(rig) == [{5: 10}, {5: 11}]


def test_closing_acknowledges_first():
    rig = Rig(token="t").open()
    rig.subscribed()
    rig.hear(notify(11), notify(12))
    rig.do(ev.Consumed(1, 11))
    rig.do(ev.Consumed(1, 12))
    send, close, *_ = rig.do(ev.WantClose())
    assert send.messages == [wire.Ack({5: 12})] and close == ev.Close(1, 1000)


# -- publishing ----------------------------------------------------------------------------------------------------------


def test_records_are_sent_and_their_receipt_comes_back():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b'{"a":1}', b"2"]))
    (request,) = rig.said(wire.Publish)
    assert (request.feed, [bytes(record) for record in request.records]) == ("F", [b'{"a":1}', b"2"])
    refused = [wire.Refused(1, "not_an_object", "no")]
    assert ev.Resolve(1, Receipt(1, refused)) in rig.hear(wire.Published(request.id, 1, refused))


def test_records_wait_for_a_connection():
    rig = Rig()
    rig.do(ev.Open())
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    rig.connect()
    assert rig.said(wire.Publish) == []
    rig.welcome()
    assert len(rig.said(wire.Publish)) == 1


def test_no_records_are_published_at_once():
    assert Rig().open().do(ev.WantPublish(1, "F", [])) == [ev.Resolve(1, Receipt(0, []))]


def test_a_refused_publication_is_an_error():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    (reject,) = rig.hear(wire.Error(rig.said(wire.Publish)[0].id, "not_found", "there is no feed 'F'"))
    assert isinstance(reject.error, NotFound)


def test_without_an_answer_it_is_uncertain_what_became_of_records():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"{}"]))
    rig.cut()
    (reject,) = rig.did(ev.Reject)
    assert isinstance(reject.error, Uncertain)
    assert rig.come_back().said(wire.Publish) == []


def test_records_that_may_be_sent_twice_are_sent_again():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"{}"], retry=True))
    rig.cut()
    (request,) = rig.come_back().said(wire.Publish)
    assert ev.Resolve(1, Receipt(1, [])) in rig.hear(wire.Published(request.id, 1))


def test_many_records_go_part_by_part_and_the_refused_keep_their_place():
    rig = Rig()
    rig.do(ev.Open())
    rig.connect()
    rig.welcome(frame_bytes=400)
    rig.do(ev.WantPublish(1, "F", [b"%090d" % number for number in range(7)]))
    sizes = []
    while not rig.did(ev.Resolve):
        request = rig.said(wire.Publish)[-1]
        assert len(wire.encode(request)) <= 400
        sizes.append(len(request.records))
        rig.hear(wire.Published(request.id, sizes[-1] - 1, [wire.Refused(0, "wrong", "no")]))
    assert sizes == [3, 3, 1]
    (resolve,) = rig.did(ev.Resolve)
    assert resolve.receipt.taken == 4 and [each.index for each in resolve.receipt.refused] == [0, 3, 6]


def test_the_protocol_takes_ten_thousand_records_at_a_time():
    rig = Rig().open()
    rig.do(ev.WantPublish(1, "F", [b"1"] * 25_000))
    assert len(rig.said(wire.Publish)[0].records) == 10_000


def test_a_record_larger_than_a_frame_is_refused_by_the_client():
    rig = Rig().open()
    (reject,) = rig.do(ev.WantPublish(1, "F", [b'"%s"' % (b"x" * (1 << 20))]))
    assert reject.error.code == "limit_exceeded" and rig.said(wire.Publish) == []


# -- backpressure --------------------------------------------------------------------------------------------------------


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
    assert rig.state.frame_bytes == CAUTIOUS_FRAME
