"""A channel that is dropped and created again under its name counts from 1 again: the broker never confuses the
executions of the two."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness, at, executions, line
from broker_lab import Speaker, broker

from sparkless import sparkless
from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.wire import messages as wire

OLD, NEW = 100, 200


@pytest.fixture
def harness() -> BrokerHarness:
    """A subscriber of the old channel, which is at execution 5."""
    harness = BrokerHarness(heartbeat=0.0)
    harness.open("p")
    harness.subscribe("p")
    harness.did(do.Subscribe)
    harness.handle(ev.Subscribed("C", [7], at(0, OLD)))
    harness.handle(ev.Notified("C", 5, [line(7, 5)], OLD))
    harness.took("p")
    return harness


def test_a_notification_of_the_new_channel_ends_subscriptions_to_the_old_one(harness):
    harness.handle(ev.Notified("C", 1, [line(8, 1)], NEW))
    assert [(it.subscription, it.code) for it in harness.took("p")] == [(7, "not_found")]


def test_a_subscription_to_the_new_channel_receives_its_smaller_executions(harness):
    harness.handle(ev.Dropped("C", OLD))
    harness.took("p")
    harness.subscribe("p", id=2)
    harness.handle(ev.Subscribed("C", [8], at(1, NEW)))
    assert harness.took("p") == [wire.Subscribed(2, 8, "C", 1, NEW)]
    harness.handle(ev.Notified("C", 2, [line(8, 2)], NEW))
    assert executions(harness.took("p")) == [2]


def test_a_confirmation_from_the_new_channel_ends_subscriptions_to_the_old_one(harness):
    harness.subscribe("p", "flood", id=2)
    harness.handle(ev.Subscribed("C", [9], at(0, NEW)))
    ended, subscribed = harness.took("p")
    assert (type(ended), ended.subscription) == (wire.Ended, 7) and subscribed == wire.Subscribed(2, 9, "C", 0, NEW)


def test_late_events_of_the_old_channel_change_nothing(harness):
    harness.handle(ev.Notified("C", 6, None, OLD))
    assert harness.did(do.Pull) == [do.Pull("C", at(6, OLD))]
    harness.handle(ev.Notified("C", 1, None, NEW))
    harness.subscribe("p", id=2)
    harness.handle(ev.Subscribed("C", [8], at(0, NEW)))
    harness.took("p")
    for late in (
        ev.Notified("C", 7, [line(7, 7)], OLD),
        ev.Missed({"C": at(6, OLD)}),
        ev.Dropped("C", OLD),
        ev.Pulled("C", at(6, OLD), []),
        ev.Recovered("C", [(7, ["fire"])], at(6, OLD)),
    ):
        assert harness.handle(late) == []
    harness.handle(ev.Notified("C", 2, [line(8, 2)], NEW))
    harness.handle(ev.Pulled("C", at(1, OLD), []))  # the same execution of the old epoch: not the one being pulled
    assert harness.took("p") == []
    harness.handle(ev.Pulled("C", at(1, NEW), []))
    assert executions(harness.took("p")) == [2]


def test_a_late_confirmation_from_the_old_channel_is_a_refusal(harness):
    harness.subscribe("p", "flood", id=2)
    harness.handle(ev.Notified("C", 1, None, NEW))
    harness.took("p")
    harness.handle(ev.Subscribed("C", [9], at(5, OLD)))
    (error,) = harness.took("p")
    assert (error.id, error.code) == (2, "not_found")


def test_resuming_with_a_position_of_the_old_channel_starts_at_the_new_one(harness):
    harness.handle(ev.Dropped("C", OLD))
    harness.open("q")
    harness.say("q", wire.Subscribe(1, "C", ["fire"], 5, 7, OLD))
    harness.handle(ev.Subscribed("C", [8], at(2, NEW)))
    assert harness.took("q") == [wire.Subscribed(1, 8, "C", 2, NEW), wire.Live(8, 2)]
    assert harness.did(do.Fetch) == []


def test_resuming_with_a_position_of_the_same_channel_continues(harness):
    harness.open("q")
    harness.say("q", wire.Subscribe(1, "C", ["fire"], 0, 7, OLD))
    assert [type(it) for it in harness.took("q")] == [wire.Subscribed, wire.Notify, wire.Live]


def test_an_offline_users_position_is_reset_to_the_new_channel():
    harness = BrokerHarness(heartbeat=0.0)
    harness.handle(ev.Restored("ann/phone", [wire.DurableSubscription(7, "C", ["fire"], 50)]))
    harness.handle(ev.Subscribed("C", [8], at(2, NEW)))
    assert harness.did(do.ChangeId) == [do.ChangeId("ann/phone", 7, 8, at(2, NEW), at(2, NEW))]


def test_the_broker_notices_a_channel_that_is_recreated_at_once(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "b", url) as b:
        speaker = Speaker(b.url)
        first = speaker.ask("subscribe", channel="Above", args=[1])
        for n in range(3):
            cluster.found("Above", ([1], [{"n": n}]))
        assert [speaker.next("notify")["execution"] for _ in range(3)] == [1, 2, 3]
        body = "{ SELECT r.n FROM Reports r WHERE is_new(r) AND r.n > least }"
        cluster.execute(f"DROP CHANNEL Above; CREATE CONTINUOUS CHANNEL Above(least bigint) {body};")
        # The first notification comes with the first results; a subscription to the channel is enough.
        other = Speaker(b.url)
        second = other.ask("subscribe", channel="Above", args=[2])
        assert second["epoch"] > first["epoch"]
        assert speaker.next("ended")["subscription"] == first["subscription"]
        resumed = speaker.ask(
            "subscribe", channel="Above", args=[1], after=3, subscription=first["subscription"], epoch=first["epoch"]
        )
        assert (resumed["after"], resumed["epoch"]) == (0, second["epoch"])
        cluster.found("Above", ([1], [{"n": 7}]), ([2], [{"n": 7}]))
        assert [each.next("notify")["execution"] for each in (speaker, other)] == [1, 1]
        speaker.close()
        other.close()
