"""FE subscriptions, and the BE subscriptions they share."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness, at, executions

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.be_subscriptions import MOST_IN_REQUEST, SPELLINGS
from tocsin.broker.core.events import Problem
from tocsin.config import BrokerLimits
from tocsin.wire import messages as wire


@pytest.fixture
def harness() -> BrokerHarness:
    harness = BrokerHarness(grace=60.0, heartbeat=0.0)
    harness.open("p", "q")
    return harness


# -- subscribing -------------------------------------------------------------------------------------------------------


def test_the_first_subscriber_makes_the_broker_subscribe_at_the_data_cluster(harness):
    harness.subscribe("p")
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    assert harness.took("p") == []


def test_a_subscription_is_confirmed_after_the_data_cluster_confirms_it(harness):
    harness.subscribe("p", id=5)
    harness.confirm(7, position=3)
    assert harness.took("p") == [wire.Subscribed(5, 7, "C", 3)]


def test_equal_fe_subscriptions_share_one_be_subscription(harness):
    harness.subscribed("p")
    harness.subscribe("q")
    assert harness.did(do.Subscribe) == []
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 0)]


def test_concurrent_equal_subscriptions_cause_one_request(harness):
    harness.subscribe("p")
    harness.subscribe("q")
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    harness.confirm(7)
    assert len(harness.took("p")) == len(harness.took("q")) == 1


def test_subscriptions_that_arrive_during_a_request_are_batched_into_the_next(harness):
    for kind in ("fire", "flood", "storm"):
        harness.subscribe("p", kind)
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]
    harness.confirm(7)
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["flood"], ["storm"]])]


def test_one_request_holds_a_limited_number_of_subscriptions():
    harness = BrokerHarness(BrokerLimits(subscriptions=MOST_IN_REQUEST + 5))
    harness.open("p")
    for id_ in range(MOST_IN_REQUEST + 2):
        harness.subscribe("p", str(id_))
    harness.confirm(1)
    assert [len(it.args) for it in harness.did(do.Subscribe)] == [1, MOST_IN_REQUEST]


def test_channels_do_not_wait_for_each_other(harness):
    harness.say("p", wire.Subscribe(1, "C", []), wire.Subscribe(2, "D", []))
    assert [it.channel for it in harness.did(do.Subscribe)] == ["C", "D"]


def test_channel_names_ignore_case(harness):
    harness.subscribed("p")
    harness.say("q", wire.Subscribe(1, "c", ["fire"]))
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 0)]


def test_the_order_of_named_arguments_does_not_matter(harness):
    harness.say("p", wire.Subscribe(1, "C", {"a": 1, "b": 2}))
    harness.confirm(7)
    harness.did(do.Subscribe)
    harness.say("p", wire.Subscribe(2, "C", {"b": 2, "a": 1}))
    assert harness.did(do.Subscribe) == []


def test_named_and_positional_arguments_share_one_be_subscription(harness):
    harness.subscribed("p")
    harness.say("q", wire.Subscribe(1, "C", {"kind": "fire"}))
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [{"kind": "fire"}])]
    harness.confirm(7, position=4)
    assert harness.took("q") == [wire.Subscribed(1, 7, "C", 0)]
    harness.executed(5, 7)
    assert executions(harness.took("p")) == executions(harness.took("q")) == [5]


def test_every_waiting_subscriber_receives_the_data_clusters_refusal(harness):
    harness.subscribe("p")
    harness.subscribe("q")
    harness.confirm(Problem("type_mismatch", "no", "hint"))
    assert harness.took("p") == harness.took("q") == [wire.Error(1, "type_mismatch", "no", "hint")]


def test_an_invalid_subscription_does_not_affect_the_others_of_its_request(harness):
    harness.subscribe("p", "x")
    harness.subscribe("p", "bad", id=2)
    harness.subscribe("p", "good", id=3)
    harness.confirm(1)
    harness.took("p")
    harness.confirm(Problem("type_mismatch", "no"), 8)
    assert harness.took("p") == [wire.Error(2, "type_mismatch", "no"), wire.Subscribed(3, 8, "C", 0)]


def test_a_refused_subscription_is_requested_again_by_the_next_subscriber(harness):
    harness.subscribe("p")
    harness.confirm(Problem("not_found", "no"))
    harness.did(do.Subscribe)
    harness.subscribe("p")
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]


def test_the_broker_keeps_nothing_of_a_channel_that_does_not_exist(harness):
    harness.subscribe("p")
    harness.confirm(Problem("not_found", "no"))
    assert harness.state.be_subscriptions.channels == {} and harness.state.be_subscriptions._by_key == {}


def test_a_subscriber_has_a_limited_number_of_subscriptions():
    harness = BrokerHarness(BrokerLimits(subscriptions=2))
    harness.open("p")
    for id_ in range(3):
        harness.subscribe("p", str(id_), id=id_)
    (error,) = harness.took("p")
    assert (error.id, error.code) == (2, "limit_exceeded")


def test_a_refused_subscription_does_not_count_towards_the_limit():
    harness = BrokerHarness(BrokerLimits(subscriptions=1))
    harness.open("p")
    harness.subscribe("p", "x")
    harness.confirm(Problem("not_found", "no"))
    harness.took("p")
    harness.subscribe("p", "y")
    assert harness.took("p") == []


@pytest.mark.parametrize(
    "limits, message",
    [
        (BrokerLimits(argument_bytes=20), "at most 20"),
        (BrokerLimits(connection_argument_bytes=50), "at most 50 bytes of arguments of all subscriptions of a conn"),
        (BrokerLimits(channel_argument_bytes=50), "at most 50 bytes of arguments of all subscriptions of C"),
    ],
)
def test_arguments_have_a_limited_size(limits, message):
    harness = BrokerHarness(limits)
    harness.open("p")
    harness.subscribe("p", "x" * 8)
    harness.confirm(7)
    harness.subscribe("p", "y" * 40, id=2)
    *_, error = harness.took("p")
    assert error.code == "limit_exceeded" and message in error.message
    assert len(harness.did(do.Subscribe)) == 1


def test_arguments_count_until_their_subscription_ends():
    harness = BrokerHarness(BrokerLimits(connection_argument_bytes=50), heartbeat=0.0)
    harness.open("p")
    for turn in range(3):
        harness.subscribed("p", 7 + turn, kind=f"{turn}" * 40)
        harness.say("p", wire.Unsubscribe(9, 7 + turn))
    assert not [each for each in harness.took("p") if isinstance(each, wire.Error)]
    harness.tick(100)
    harness.handle(ev.Unsubscribed("C"))
    assert harness.state.be_subscriptions.channels == {}


def test_refused_and_expired_arguments_do_not_count_for_the_channel():
    harness = BrokerHarness(BrokerLimits(channel_argument_bytes=50), grace=10.0, heartbeat=0.0)
    harness.open("p", "q")
    harness.subscribed("p", 7)
    for turn in range(3):
        harness.subscribe("q", f"{turn}" * 30)
        harness.did(do.Subscribe)
        harness.confirm(Problem("type_mismatch", "no"))
    harness.subscribed("q", 8, kind="y" * 30)
    harness.close("q")
    harness.tick(11)
    harness.handle(ev.Unsubscribed("C"))
    assert harness.state.be_subscriptions.channels["c"].argument_bytes == len(b'["fire"]')


def test_a_be_subscription_keeps_a_limited_number_of_spellings(harness):
    harness.subscribed("p")
    for turn in range(100):
        harness.say("q", wire.Subscribe(turn, "C", {"k" * turn: "fire"}))
        harness.confirm(7)
    assert len(harness.state.be_subscriptions._by_key) == SPELLINGS
    harness.close("p")
    harness.close("q")
    harness.tick(100)
    assert harness.state.be_subscriptions._by_key == {}


def test_a_subscriber_that_disconnects_before_the_confirmation_receives_nothing(harness):
    harness.subscribe("p")
    harness.close("p")
    harness.confirm(7)
    assert harness.took("p") == []
    assert harness.state.be_subscriptions.by_id[7].unused


# -- subscribing twice -------------------------------------------------------------------------------------------------


def test_subscribing_twice_changes_nothing(harness):
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.took("p")
    harness.subscribe("p", id=9)
    harness.executed(5, 7)
    subscribed, *rest = harness.took("p")
    assert subscribed == wire.Subscribed(9, 7, "C", 4) and executions(rest) == [5]


def test_subscribing_again_from_an_older_position_replays_what_came_since(harness):
    harness.subscribed("p")
    harness.executed(4, 7)
    harness.executed(5, 7)
    harness.took("p")
    harness.subscribe("p", after=4, id=9)
    first, *rest, last = harness.took("p")
    assert first == wire.Subscribed(9, 7, "C", 4) and executions(rest) == [5] and last == wire.Live(7, 5)


def test_subscribing_twice_does_not_shorten_the_grace_period(harness):
    harness.subscribed("p")
    harness.subscribe("p", after=0, id=2)
    harness.now += 50
    harness.close("p")
    harness.tick(20)
    assert harness.did(do.Unsubscribe) == []
    harness.tick(41)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


# -- unsubscribing and expiry ------------------------------------------------------------------------------------------


def test_nothing_is_delivered_after_unsubscribed(harness):
    harness.subscribed("p")
    harness.say("p", wire.Unsubscribe(2, 7))
    harness.executed(1, 7)
    assert harness.took("p") == [wire.Unsubscribed(2, 7)]


def test_the_other_subscribers_stay_when_one_unsubscribes(harness):
    harness.subscribed("p")
    harness.subscribed("q")
    harness.say("p", wire.Unsubscribe(2, 7))
    harness.executed(1, 7)
    assert executions(harness.took("q")) == [1]


@pytest.mark.parametrize("id_", [7, 8])
def test_unsubscribing_without_a_subscription_is_an_error(harness, id_):
    harness.subscribed("q")
    harness.say("p", wire.Unsubscribe(2, id_))
    (error,) = harness.took("p")
    assert (error.id, error.code) == (2, "not_found")


def test_a_be_subscription_without_subscribers_expires_after_the_grace_period(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(59)
    assert harness.did(do.Unsubscribe) == []
    harness.tick(1)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_a_subscriber_within_the_grace_period_reuses_the_be_subscription(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(59)
    harness.subscribed("q")
    harness.tick(100)
    assert harness.did(do.Unsubscribe) == [] and harness.did(do.Subscribe) == []


def test_expired_be_subscriptions_leave_in_one_request(harness):
    harness.subscribed("p")
    harness.subscribed("p", 8, kind="flood")
    harness.close("p")
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7, 8])]


def test_one_request_unsubscribes_a_limited_number_of_be_subscriptions():
    harness = BrokerHarness(BrokerLimits(subscriptions=MOST_IN_REQUEST + 5), heartbeat=0.0)
    harness.open("p")
    ids = list(range(1, MOST_IN_REQUEST + 3))
    for id_ in ids:
        harness.subscribe("p", str(id_), id=id_)
    confirmed = iter(ids)
    while requests := harness.did(do.Subscribe):
        harness.confirm(*[next(confirmed) for _ in requests[0].args])
    harness.close("p")
    harness.tick(harness.state.config.grace + 1)
    assert [it.subscriptions for it in harness.did(do.Unsubscribe)] == [ids[:MOST_IN_REQUEST]]
    harness.handle(ev.Unsubscribed("C"))
    assert [it.subscriptions for it in harness.did(do.Unsubscribe)] == [ids[MOST_IN_REQUEST:]]
    assert not harness.state.be_subscriptions.by_id


def test_an_expired_subscription_is_requested_again_after_its_unsubscribe(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(61)
    harness.subscribe("q")
    assert harness.did(do.Subscribe) == []
    harness.handle(ev.Unsubscribed("C"))
    assert harness.did(do.Subscribe) == [do.Subscribe("C", [["fire"]])]


def test_a_pending_request_with_named_arguments_keeps_the_be_subscription(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.subscribe("q", "busy")
    harness.say("q", wire.Subscribe(2, "C", {"kind": "fire"}))
    harness.tick(61)
    harness.confirm(8)
    assert harness.did(do.Unsubscribe) == []
    harness.confirm(7)
    assert harness.did(do.Unsubscribe) == []
    harness.executed(1, 7)
    assert executions(harness.took("q")) == [1]


def test_new_subscriptions_do_not_starve_expiry(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.subscribe("q", "1")
    harness.tick(61)
    harness.subscribe("q", "2", id=2)
    harness.confirm(8)
    harness.subscribe("q", "3", id=3)
    harness.confirm(9)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_the_broker_keeps_nothing_of_an_expired_be_subscription(harness):
    harness.subscribed("p")
    harness.executed(1, 7)
    harness.close("p")
    harness.tick(61)
    harness.handle(ev.Unsubscribed("C"))
    state = harness.state
    assert not (
        state.be_subscriptions.by_id
        or state.be_subscriptions.channels
        or state.be_subscriptions._by_key
        or state.be_subscriptions._idle
        or state.cache.messages
    )


# -- recovery after a restart ------------------------------------------------------------------------------------------


def test_a_recovered_be_subscription_needs_no_request(harness):
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(12)))
    harness.subscribe("p")
    assert harness.did(do.Subscribe) == [] and harness.took("p") == [wire.Subscribed(1, 7, "C", 12)]


def test_a_recovered_be_subscription_without_subscribers_expires(harness):
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(12)))
    harness.tick(61)
    assert harness.did(do.Unsubscribe) == [do.Unsubscribe("C", [7])]


def test_a_be_subscription_that_is_being_released_is_not_recovered(harness):
    harness.subscribed("p")
    harness.close("p")
    harness.tick(61)
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(0)))
    assert harness.state.be_subscriptions.by_id == {}


def test_a_be_subscription_that_is_being_requested_is_not_recovered(harness):
    harness.subscribe("p")
    harness.handle(ev.Recovered("C", [(7, ["fire"])], at(12)))
    harness.confirm(7, position=13)
    assert harness.took("p") == [wire.Subscribed(1, 7, "C", 13)]


# -- a channel that is dropped -----------------------------------------------------------------------------------------


def test_subscribers_of_a_dropped_channel_receive_ended(harness):
    harness.subscribed("p")
    harness.handle(ev.Dropped("C"))
    (ended,) = harness.took("p")
    assert (ended.subscription, ended.code) == (7, "not_found")


def test_the_broker_keeps_nothing_of_a_dropped_channel(harness):
    harness.subscribed("p")
    harness.executed(1, 7)
    harness.handle(ev.Notified("C", 2))
    harness.handle(ev.Dropped("C"))
    state = harness.state
    assert not (
        state.be_subscriptions.by_id
        or state.be_subscriptions.channels
        or state.be_subscriptions._by_key
        or state.be_subscriptions._idle
        or state.cache.messages
    )
    assert state.sessions.by_peer["p"].subscriptions == {}


def test_a_recreated_channel_counts_from_1(harness):
    harness.subscribed("p", position=40)
    harness.executed(41, 7)
    harness.handle(ev.Dropped("C"))
    harness.took("p")
    harness.subscribed("p", 9)
    harness.executed(1, 9)
    assert executions(harness.took("p")) == [1]


def test_a_channel_recreated_during_a_request_counts_from_1(harness):
    harness.subscribed("p", position=40)
    harness.executed(41, 7)
    harness.subscribe("q", "flood")
    harness.handle(ev.Dropped("C"))
    harness.confirm(9)
    harness.executed(1, 9)
    assert executions(harness.took("q")) == [1]


def test_dropping_a_channel_without_subscribers_does_nothing(harness):
    assert harness.handle(ev.Dropped("D")) == []
