"""The client's state machine: subscribing, resuming, positions, leaving, acknowledging."""

from __future__ import annotations

import pytest
from rig import Rig, notify

from tocsin.client.core import events as ev
from tocsin.client.notification import Missed
from tocsin.errors import Conflict, NotFound
from tocsin.wire import messages as wire

# -- subscribing ---------------------------------------------------------------------------------------------------


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


# -- resuming ------------------------------------------------------------------------------------------------------


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
    assert rig.got() == [*[11, 12][:heard], 14, 16]
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


def test_one_that_joins_while_the_rest_of_a_former_number_comes_belongs_to_that_number_too():
    rig = Rig().open()
    rig.subscribed(args=(1,))
    rig.cut()
    rig.come_back()
    (resume,) = rig.said(wire.Subscribe)
    new = rig.subscribe(2, args={"x": 1})
    rig.hear(wire.Subscribed(resume.id, 6, "C", 10), wire.Subscribed(new.id, 6, "C", 10))
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    assert (asked.after, asked.subscription) == (10, 5)


def test_a_slower_broker_is_not_a_channel_made_anew():
    rig = Rig("one", "two").open()
    rig.subscribed(after=100)
    rig.cut()
    while rig.state.stage.value != "connecting":
        rig.tick()
    rig.connect()
    rig.welcome(broker="other")
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 98), notify(99, 6), notify(101, 6))
    assert rig.got() == [101]


def test_a_channel_made_anew_counts_from_the_beginning():
    rig = Rig().open()
    rig.subscribed(after=1000)
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 0), notify(1, 6))
    assert rig.got() == [1]


def test_a_channel_of_another_epoch_counts_from_the_beginning_on_any_broker():
    rig = Rig("one", "two").open()
    rig.subscribed(after=1000, epoch=100)
    rig.cut()
    while rig.state.stage.value != "connecting":
        rig.tick()
    rig.connect()
    rig.welcome(broker="other")
    (asked,) = rig.said(wire.Subscribe)
    assert (asked.after, asked.subscription, asked.epoch) == (1000, 5, 100)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 2, 200), wire.Live(6, 2), notify(3, 6))
    missed, notification = rig.items[1]
    assert missed == Missed("C", 6, 1000, 3, "dropped") and notification.execution == 3
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    assert (asked.after, asked.subscription, asked.epoch) == (3, 6, 200)


def test_what_joins_a_subscription_to_a_channel_of_another_epoch_begins_where_that_is():
    rig = Rig().open()
    rig.subscribed(after=1000, epoch=100)
    rig.hear(wire.Ping({"C": 1000}))
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 2, 200), wire.Live(6, 2))
    assert rig.subscribe(2) is None
    rig.hear(notify(3, 6))
    assert [item.execution for item in rig.items[2]] == [3]


def test_another_number_of_the_same_epoch_keeps_the_cursor():
    rig = Rig().open()
    rig.subscribed(after=100, epoch=100)
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 6, "C", 98, 100), notify(99, 6), notify(101, 6))
    assert rig.got() == [101]


def test_a_broker_that_is_behind_the_client_makes_nothing_twice():
    rig = Rig().open()
    rig.subscribed(after=100)
    rig.cut()
    rig.come_back()
    (asked,) = rig.said(wire.Subscribe)
    rig.hear(wire.Subscribed(asked.id, 5, "C", 98), notify(99), notify(100), notify(101))
    assert rig.got() == [101]


# -- positions -----------------------------------------------------------------------------------------------------


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


# -- leaving -------------------------------------------------------------------------------------------------------


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


# -- acks ----------------------------------------------------------------------------------------------------------


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
