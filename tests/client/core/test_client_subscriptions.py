"""The client's state machine: subscribing, resuming, positions, unsubscribing, acknowledging."""

from __future__ import annotations

import pytest
from client_harness import ClientHarness, consumed, notify

from tocsin.client.core import events as ev
from tocsin.client.notification import Gap
from tocsin.errors import Conflict, NotFound
from tocsin.wire import messages as wire
from tocsin.wire.position import Position

# -- subscribing ---------------------------------------------------------------------------------------------------


def test_a_subscription_begins_at_the_position_of_its_confirmation():
    harness = ClientHarness().open()
    request = harness.subscribe(args={"kind": "fire"})
    assert request == wire.Subscribe(request.id, "C", {"kind": "fire"})
    assert ev.Confirmed(1) in harness.receive(wire.Subscribed(request.id, 5, "C", 10))
    assert harness.state.subscriptions.by_handle[1].execution == 10


def test_a_subscription_that_is_refused_ends_with_the_error():
    harness = ClientHarness().open()
    request = harness.subscribe()
    (ended,) = harness.receive(wire.Error(request.id, "not_found", "there is no channel 'C'", "look"))
    assert isinstance(ended.error, NotFound) and ended.error.code == "not_found" and ended.error.hint == "look"


def test_notifications_are_delivered_once_and_in_order():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.receive(notify(10), notify(11), notify(11), notify(13), notify(12))
    assert harness.got() == [11, 13]
    assert harness.state.status.duplicates == 3


def test_messages_of_unknown_subscriptions_are_ignored():
    harness = ClientHarness().open()
    harness.receive(notify(3, 99), wire.Live(99, 4), wire.Lagging(99, 4), wire.Gap(99, 1, 3, "retention"))
    harness.receive(
        wire.Subscribed(99, 1, "C", 1), wire.Unsubscribed(99, 1), wire.Published(99, 1), wire.Error(99, "x", "y")
    )
    harness.receive(wire.Ended(99, "not_found", "gone"), wire.Error(None, "x", "without a request"))
    assert harness.items == {} and harness.state.status.problem == "without a request"


def test_equal_subscriptions_share_one_request_and_both_receive_everything():
    harness = ClientHarness().open()
    harness.subscribed(args={"a": 1, "b": 2})
    assert harness.subscribe(2, args={"b": 2, "a": 1}) is None
    assert ev.Confirmed(2) in harness.done
    harness.receive(notify(11))
    assert harness.got(1) == harness.got(2) == [11]


def test_equal_subscriptions_that_wait_for_the_same_answer_share_it():
    harness = ClientHarness().open()
    request = harness.subscribe(1)
    assert harness.subscribe(2) is None
    harness.receive(wire.Subscribed(request.id, 5, "C", 10), notify(11))
    assert harness.got(1) == harness.got(2) == [11]


def test_subscriptions_with_the_same_id_both_receive_everything():
    harness = ClientHarness().open()
    harness.subscribed(args=("fire",))
    harness.receive(notify(11))
    harness.subscribed(handle=2, args={"kind": "fire"}, after=11)
    harness.receive(notify(12))
    assert (harness.got(1), harness.got(2)) == ([11, 12], [12])


def test_an_equal_subscription_does_not_receive_earlier_notifications():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.receive(wire.Lagging(5, 10), notify(30, 6))
    harness.subscribe(2)
    harness.receive(notify(11), notify(30), notify(31))
    assert (harness.got(1), harness.got(2)) == ([11, 30, 31], [31])


def test_a_resumed_subscription_is_replayed_and_an_equal_one_receives_nothing_twice():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.receive(notify(11))
    request = harness.subscribe(2, after=3)
    assert request.after == 3
    harness.receive(notify(12), wire.Subscribed(request.id, 5, "C", 3), *map(notify, range(4, 14)), wire.Live(5, 13))
    assert harness.got(1) == [11, 12, 13]
    assert harness.got(2) == list(range(4, 14))


def test_while_an_equal_subscription_catches_up_a_ping_advances_none():
    harness = ClientHarness().open()
    harness.subscribed()
    request = harness.subscribe(2, after=3)
    harness.receive(wire.Subscribed(request.id, 5, "C", 3), wire.Ping({"C": 20}))
    assert harness.state.subscriptions.by_handle[1].execution == 10


# -- resuming ------------------------------------------------------------------------------------------------------


def test_the_resume_with_id_and_position_follows_hello_in_the_same_frame():
    harness = ClientHarness().open()
    harness.subscribed(args=(1,))
    harness.subscribed(6, 20, handle=2, channel="D")
    harness.receive(notify(11), notify(25, 6, "D"))
    harness.cut()
    harness.reconnect()
    hello, first, second = harness.frames[0]
    assert isinstance(hello, wire.Hello)
    assert first == wire.Subscribe(first.id, "C", [1], 11, 5)
    assert second == wire.Subscribe(second.id, "D", [], 25, 6)


def test_equal_subscriptions_resume_together_from_the_earliest_position():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.receive(notify(11), notify(12))
    request = harness.subscribe(2, after=3)
    harness.receive(wire.Subscribed(request.id, 5, "C", 3), notify(4), wire.Live(5, 4), notify(5))
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    assert (request.after, request.subscription) == (5, 5)
    harness.receive(wire.Subscribed(request.id, 5, "C", 5), *map(notify, (11, 12, 13)))
    assert (harness.got(1), harness.got(2)) == ([11, 12, 13], [4, 5, 11, 12, 13])


def test_an_unconfirmed_subscription_is_requested_again_as_new():
    harness = ClientHarness().open()
    harness.subscribe()
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    assert request.after is None and request.subscription is None


def test_a_subscription_without_a_connection_is_requested_with_the_hello():
    harness = ClientHarness()
    harness.do(ev.OpenRequested())
    harness.do(ev.SubscribeRequested(1, "C", []))
    harness.connect()
    assert [type(message) for message in harness.frames[0]] == [wire.Hello, wire.Subscribe]


@pytest.mark.parametrize("received", range(9))
def test_a_subscription_resumes_after_any_part_of_the_conversation(received):
    """The broker sends executions 11 to 16 with a gap; after a cut at any point, the rest follows."""
    harness = ClientHarness().open()
    harness.subscribed()
    messages = [notify(11), notify(12), wire.Lagging(5, 12), wire.Gap(5, 12, 14, "retention"), notify(14)]
    messages += [wire.Live(5, 14), wire.Ping({"C": 15}), notify(16)]
    harness.receive(*messages[:received])
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    rest = [m for m in messages if isinstance(m, wire.Notify) and m.execution > request.after]
    gap = [wire.Gap(5, request.after, 14, "retention")] if request.after < 13 else []
    harness.receive(wire.Subscribed(request.id, 5, "C", request.after), *gap, *rest, wire.Live(5, 16))
    assert harness.got() == [*[11, 12][:received], 14, 16]
    assert harness.state.subscriptions.by_handle[1].gaps == 1
    assert harness.state.subscriptions.by_handle[1].execution == 16


def test_a_resume_that_is_refused_ends_the_subscription():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Error(request.id, "not_found", "there is no channel 'C'"))
    (ended,) = harness.did(ev.Ended)
    assert isinstance(ended.error, NotFound)


@pytest.mark.parametrize("code", ["busy", "unreachable", "not_ready", "internal", "unknown_code"])
def test_a_resume_that_fails_temporarily_is_retried(code):
    harness = ClientHarness().open()
    harness.subscribed()
    harness.cut()
    harness.reconnect()
    for _ in range(5):
        request = harness.sent_of(wire.Subscribe)[-1]
        harness.receive(wire.Error(request.id, code, "not now"))
        before = len(harness.sent_of(wire.Subscribe))
        harness.tick()
        assert len(harness.sent_of(wire.Subscribe)) == before + 1
    request = harness.sent_of(wire.Subscribe)[-1]
    harness.receive(wire.Subscribed(request.id, 5, "C", 10), notify(11))
    assert harness.got() == [11] and harness.did(ev.Ended) == []


def test_a_new_subscription_that_fails_temporarily_is_an_error():
    harness = ClientHarness().open()
    request = harness.subscribe()
    (ended,) = harness.receive(wire.Error(request.id, "not_ready", "Spark is starting"))
    assert ended.error.code == "not_ready"


def test_a_subscription_resumed_under_a_new_id_declares_the_gap():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", 10), notify(12, 6), wire.Gap(6, 12, 20, "released"))
    harness.receive(notify(20, 6), wire.Live(6, 20))
    assert harness.got() == [12, 20]
    assert Gap("C", 6, Position(0, 12), Position(0, 20), "released") in harness.items[1]


def test_a_new_id_is_used_only_when_everything_of_the_old_one_has_arrived():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", 10), notify(12, 6))
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    assert (request.subscription, request.after) == (5, 12)
    harness.receive(wire.Subscribed(request.id, 6, "C", 12), wire.Gap(6, 12, 20, "released"))
    harness.cut()
    harness.reconnect()
    assert harness.sent_of(wire.Subscribe)[0].subscription == 6


def test_an_equal_subscription_during_catch_up_of_a_previous_id_belongs_to_that_id_too():
    harness = ClientHarness().open()
    harness.subscribed(args=(1,))
    harness.cut()
    harness.reconnect()
    (resume,) = harness.sent_of(wire.Subscribe)
    new = harness.subscribe(2, args={"x": 1})
    harness.receive(wire.Subscribed(resume.id, 6, "C", 10), wire.Subscribed(new.id, 6, "C", 10))
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    assert (request.after, request.subscription) == (10, 5)


def test_a_lagging_broker_is_not_a_channel_created_again():
    harness = ClientHarness("one", "two").open()
    harness.subscribed(after=100)
    harness.cut()
    while harness.state.stage.value != "connecting":
        harness.tick()
    harness.connect()
    harness.welcome(broker="other")
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", 98), notify(99, 6), notify(101, 6))
    assert harness.got() == [101]


def test_a_channel_created_again_counts_from_the_beginning():
    harness = ClientHarness().open()
    harness.subscribed(after=1000)
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", 0), notify(1, 6))
    assert harness.got() == [1]


def test_a_channel_of_another_epoch_counts_from_the_beginning_on_any_broker():
    harness = ClientHarness("one", "two").open()
    harness.subscribed(after=1000, epoch=100)
    harness.cut()
    while harness.state.stage.value != "connecting":
        harness.tick()
    harness.connect()
    harness.welcome(broker="other")
    (request,) = harness.sent_of(wire.Subscribe)
    assert (request.after, request.subscription, request.epoch) == (1000, 5, 100)
    harness.receive(wire.Subscribed(request.id, 6, "C", 2, 200), wire.Live(6, 2), notify(3, 6))
    gap, notification = harness.items[1]
    assert gap == Gap("C", 6, Position(100, 1000), Position(200, 3), "dropped") and notification.execution == 3
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    assert (request.after, request.subscription, request.epoch) == (3, 6, 200)


def test_an_equal_subscription_in_another_epoch_begins_at_its_position():
    harness = ClientHarness().open()
    harness.subscribed(after=1000, epoch=100)
    harness.receive(wire.Ping({"C": 1000}))
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", 2, 200), wire.Live(6, 2))
    assert harness.subscribe(2) is None
    harness.receive(notify(3, 6))
    assert [item.execution for item in harness.items[2]] == [3]


def test_another_id_in_the_same_epoch_keeps_the_position():
    harness = ClientHarness().open()
    harness.subscribed(after=100, epoch=100)
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", 98, 100), notify(99, 6), notify(101, 6))
    assert harness.got() == [101]


def test_a_broker_before_the_clients_position_repeats_nothing():
    harness = ClientHarness().open()
    harness.subscribed(after=100)
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 5, "C", 98), notify(99), notify(100), notify(101))
    assert harness.got() == [101]


# -- positions -----------------------------------------------------------------------------------------------------


def test_a_ping_advances_live_subscriptions():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.receive(wire.Ping({"C": 40, "D": 50}))
    assert harness.state.subscriptions.by_handle[1].execution == 40
    harness.receive(notify(40), notify(41))
    assert harness.got() == [41]


@pytest.mark.parametrize("before", ["resumed", "lagging"])
def test_a_ping_does_not_advance_subscriptions_that_are_not_live(before):
    harness = ClientHarness().open()
    harness.subscribed()
    if before == "resumed":
        harness.cut()
        harness.reconnect()
        harness.receive(wire.Subscribed(harness.sent_of(wire.Subscribe)[0].id, 5, "C", 10))
    else:
        harness.receive(wire.Lagging(5, 10))
    entry = harness.state.subscriptions.by_handle[1]
    harness.receive(wire.Ping({"C": 40}))
    assert (entry.execution, harness.state.subscriptions.lag(entry)) == (10, 30)
    harness.receive(notify(35), wire.Live(5, 40), wire.Ping({"C": 41}))
    assert (harness.got(), entry.execution, harness.state.subscriptions.lag(entry)) == ([35], 41, 0)


def test_a_gap_is_delivered_and_counted_once():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.receive(wire.Gap(5, 10, 15, "retention"), wire.Gap(5, 10, 15, "retention"), notify(14), notify(15))
    assert harness.items[1][0] == Gap("C", 5, Position(0, 10), Position(0, 15), "retention")
    assert (harness.got(), harness.state.status.gaps) == ([15], 1)


# -- unsubscribing -----------------------------------------------------------------------------------------------------


def test_unsubscribing_ends_the_subscription_at_once_and_sends_the_request():
    harness = ClientHarness().open()
    harness.subscribed()
    did = harness.do(ev.UnsubscribeRequested(1))
    (request,) = harness.sent_of(wire.Unsubscribe)
    assert ev.Ended(1) in did and ev.Unsubscribed(1) not in did and request.subscription == 5
    harness.receive(notify(11))
    assert ev.Unsubscribed(1) in harness.receive(wire.Unsubscribed(request.id, 5))
    assert harness.got() == []


def test_draining_still_delivers_what_the_broker_already_sent():
    harness = ClientHarness().open()
    harness.subscribed()
    assert ev.Ended(1) not in harness.do(ev.UnsubscribeRequested(1, drain=True))
    (request,) = harness.sent_of(wire.Unsubscribe)
    harness.receive(notify(11))
    assert harness.receive(wire.Unsubscribed(request.id, 5))[:2] == [ev.Ended(1), ev.Unsubscribed(1)]
    assert harness.got() == [11]


def test_the_first_of_two_equal_subscriptions_ends_without_a_request():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.subscribe(2)
    assert harness.do(ev.UnsubscribeRequested(1))[:2] == [ev.Ended(1), ev.Unsubscribed(1)]
    harness.receive(notify(11))
    assert (harness.sent_of(wire.Unsubscribe), harness.got(1), harness.got(2)) == ([], [], [11])
    harness.do(ev.UnsubscribeRequested(2))
    assert len(harness.sent_of(wire.Unsubscribe)) == 1


def test_a_subscription_that_ends_before_its_answer_is_unsubscribed_after_it():
    harness = ClientHarness().open()
    request = harness.subscribe()
    assert harness.do(ev.UnsubscribeRequested(1))[:2] == [ev.Ended(1), ev.Unsubscribed(1)]
    harness.receive(wire.Subscribed(request.id, 5, "C", 10))
    assert [each.subscription for each in harness.sent_of(wire.Unsubscribe)] == [5]


def test_a_subscription_with_the_id_of_an_unsubscribed_one_is_subscribed_again():
    harness = ClientHarness().open()
    harness.subscribed(args=("fire",))
    request = harness.subscribe(2, args={"kind": "fire"})
    harness.do(ev.UnsubscribeRequested(1))
    (leaving,) = harness.sent_of(wire.Unsubscribe)
    harness.receive(wire.Subscribed(request.id, 5, "C", 10), notify(11), wire.Unsubscribed(leaving.id, 5))
    again = harness.sent_of(wire.Subscribe)[-1]
    assert (again.args, again.after, again.subscription) == ({"kind": "fire"}, 11, 5)


def test_unsubscribing_twice_or_an_unknown_subscription_does_nothing():
    harness = ClientHarness().open()
    assert harness.do(ev.UnsubscribeRequested(9)) == [ev.Unsubscribed(9)]


@pytest.mark.parametrize("drain", [True, False])
def test_without_a_token_a_broken_connection_ends_the_subscription_too(drain):
    harness = ClientHarness().open()
    harness.subscribed()
    harness.do(ev.UnsubscribeRequested(1, drain))
    harness.cut()
    assert ev.Unsubscribed(1) in harness.done and ev.Ended(1) in harness.done
    harness.reconnect()
    assert harness.sent_of(wire.Unsubscribe) == harness.sent_of(wire.Subscribe) == []


@pytest.mark.parametrize("when", ["before the answer", "without a connection"])
def test_with_a_token_an_unsubscribe_without_an_answer_is_repeated(when):
    harness = ClientHarness(token="t").open()
    harness.subscribed()
    if when == "before the answer":
        harness.do(ev.UnsubscribeRequested(1))
        harness.cut()
    else:
        harness.cut()
        harness.do(ev.UnsubscribeRequested(1))
    assert harness.did(ev.Unsubscribed) == [] and harness.did(ev.Ended) == [ev.Ended(1)]
    harness.reconnect()
    (request,) = harness.sent_of(wire.Unsubscribe)
    assert harness.sent_of(wire.Subscribe) == []
    harness.receive(wire.Error(request.id, "not_found", "no subscription 5 here"))
    assert harness.did(ev.Unsubscribed) == [ev.Unsubscribed(1)]


def test_an_id_that_is_subscribed_again_is_not_unsubscribed():
    harness = ClientHarness(token="t").open()
    harness.subscribed()
    harness.subscribe(2)
    harness.cut()
    harness.do(ev.UnsubscribeRequested(1))
    harness.reconnect()
    assert harness.sent_of(wire.Unsubscribe) == [] and ev.Unsubscribed(1) in harness.done
    assert len(harness.sent_of(wire.Subscribe)) == 1


def test_a_channel_that_is_dropped_ends_its_subscriptions():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.subscribe(2)
    harness.receive(wire.Ended(5, "not_found", "the channel C was dropped"))
    assert [(each.handle, each.error.code) for each in harness.did(ev.Ended)] == [(1, "not_found"), (2, "not_found")]
    harness.cut()
    assert harness.reconnect().sent_of(wire.Subscribe) == []


def test_closing_ends_everything_without_an_error():
    harness = ClientHarness().open()
    harness.subscribed()
    did = harness.do(ev.CloseRequested())
    assert did == [ev.Close(1, 1000), ev.Ended(1), ev.Stopped()]
    assert harness.do(ev.CloseRequested()) == []


def test_requests_after_closing_are_refused():
    harness = ClientHarness().open()
    harness.do(ev.CloseRequested())
    harness.do(ev.SubscribeRequested(1, "C", []))
    harness.do(ev.PublishRequested(2, "F", [b"{}"]))
    assert isinstance(harness.did(ev.Ended)[0].error, Conflict)
    assert isinstance(harness.did(ev.Reject)[0].error, Conflict)


# -- acks ----------------------------------------------------------------------------------------------------------


def acked(harness: ClientHarness) -> list[dict[int, int]]:
    return [message.positions for message in harness.sent_of(wire.Ack)]


def test_without_a_token_nothing_is_acknowledged():
    harness = ClientHarness().open()
    harness.subscribed()
    harness.receive(notify(11))
    harness.do(consumed(1, 11))
    assert acked(harness) == []


def test_consumed_notifications_are_acknowledged_at_most_once_a_second():
    harness = ClientHarness(token="t").open()
    harness.subscribed()
    harness.receive(*map(notify, range(11, 20)))
    for execution in range(11, 16):
        harness.do(consumed(1, execution))
    assert acked(harness) == [{5: 11}]
    assert harness.timer == harness.now + 1.0
    harness.tick()
    assert acked(harness) == [{5: 11}, {5: 15}]


def test_notifications_that_were_not_consumed_are_not_acknowledged():
    harness = ClientHarness(token="t").open()
    harness.subscribed()
    harness.receive(notify(11), notify(12), wire.Ping({"C": 30}))
    assert acked(harness) == [{5: 10}]
    harness.now += 1
    harness.do(consumed(1, 11))
    harness.now += 1
    harness.do(consumed(1, 12))
    assert acked(harness) == [{5: 10}, {5: 11}, {5: 30}]


def test_equal_subscriptions_acknowledge_what_both_have_consumed():
    harness = ClientHarness(token="t").open()
    harness.subscribed()
    harness.subscribe(2)
    harness.receive(notify(11), notify(12))
    harness.do(consumed(1, 11))
    harness.now += 1
    harness.do(consumed(2, 11))
    assert acked(harness) == [{5: 10}, {5: 11}]


def test_closing_acknowledges_consumed_notifications_first():
    harness = ClientHarness(token="t").open()
    harness.subscribed()
    harness.receive(notify(11), notify(12))
    harness.do(consumed(1, 11))
    harness.do(consumed(1, 12))
    send, close, *_ = harness.do(ev.CloseRequested())
    assert send.messages == [wire.Ack({5: 12})] and close == ev.Close(1, 1000)


def test_a_resume_from_a_position_in_an_earlier_epoch_declares_the_gap():
    harness = ClientHarness().open()
    request = harness.subscribe(after=Position(100, 7), subscription=5)
    assert (request.after, request.subscription, request.epoch) == (7, 5, 100)
    harness.receive(wire.Subscribed(request.id, 6, "C", 2, 200))
    assert harness.items[1] == [Gap("C", 6, Position(100, 7), Position(200, 3), "dropped")]
    assert harness.state.subscriptions.by_handle[1].position == Position(200, 2)


def test_a_notification_of_an_earlier_epoch_is_not_acknowledged_to_the_new_channel():
    harness = ClientHarness(token="t").open()
    harness.subscribed(after=10, epoch=100)
    harness.receive(notify(11), notify(12))
    harness.cut()
    harness.reconnect()
    (request,) = harness.sent_of(wire.Subscribe)
    harness.receive(wire.Subscribed(request.id, 6, "C", 2, 200), wire.Live(6, 2))
    harness.now += 10
    harness.do(ev.Consumed(1, Position(100, 11)))
    assert harness.sent_of(wire.Ack) == []
    assert harness.state.subscriptions.by_handle[1].consumed == Position(100, 11)
    harness.now += 10
    harness.do(ev.Consumed(1, Position(100, 12)))
    assert [ack.positions for ack in harness.sent_of(wire.Ack)] == [{6: 2}]
