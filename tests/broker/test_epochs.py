"""A channel that is dropped and made anew under its name counts from 1 again: its executions are never taken for the
other's."""

from __future__ import annotations

import pytest
from broker_lab import Speaker, broker
from stand import Stand, executions, line

from sparkless import sparkless
from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.wire import messages as wire

OLD, NEW = 100, 200


@pytest.fixture
def stand() -> Stand:
    """A subscriber of the old one, which has come to execution 5."""
    stand = Stand(heartbeat=0.0)
    stand.open("p")
    stand.subscribe("p")
    stand.did(do.Want)
    stand.handle(ev.Wanted("C", [7], 0, OLD))
    stand.handle(ev.Told("C", 5, [line(7, 5)], OLD))
    stand.took("p")
    return stand


def test_being_told_of_the_new_one_ends_subscriptions_to_the_old_one(stand):
    stand.handle(ev.Told("C", 1, [line(8, 1)], NEW))
    assert [(it.subscription, it.code) for it in stand.took("p")] == [(7, "not_found")]


def test_a_subscription_to_the_new_one_gets_what_has_smaller_numbers(stand):
    stand.handle(ev.Dropped("C", OLD))
    stand.took("p")
    stand.subscribe("p", id=2)
    stand.handle(ev.Wanted("C", [8], 1, NEW))
    assert stand.took("p") == [wire.Subscribed(2, 8, "C", 1, NEW)]
    stand.handle(ev.Told("C", 2, [line(8, 2)], NEW))
    assert executions(stand.took("p")) == [2]


def test_the_answer_of_the_new_one_ends_subscriptions_to_the_old_one(stand):
    stand.subscribe("p", "flood", id=2)
    stand.handle(ev.Wanted("C", [9], 0, NEW))
    ended, subscribed = stand.took("p")
    assert (type(ended), ended.subscription) == (wire.Ended, 7) and subscribed == wire.Subscribed(2, 9, "C", 0, NEW)


def test_what_comes_late_of_the_old_one_changes_nothing(stand):
    stand.handle(ev.Told("C", 6, None, OLD))
    assert stand.did(do.Pull) == [do.Pull("C", 6, OLD)]
    stand.handle(ev.Told("C", 1, None, NEW))
    stand.subscribe("p", id=2)
    stand.handle(ev.Wanted("C", [8], 0, NEW))
    stand.took("p")
    for late in (
        ev.Told("C", 7, [line(7, 7)], OLD),
        ev.Returned({"C": 6}, OLD),
        ev.Dropped("C", OLD),
        ev.Pulled("C", 6, [], epoch=OLD),
        ev.Inherited("C", [(7, ["fire"])], 6, OLD),
    ):
        assert stand.handle(late) == []
    stand.handle(ev.Told("C", 2, [line(8, 2)], NEW))
    stand.handle(ev.Pulled("C", 1, [], epoch=OLD))  # of the same number: not what is being pulled
    assert stand.took("p") == []
    stand.handle(ev.Pulled("C", 1, [], epoch=NEW))
    assert executions(stand.took("p")) == [2]


def test_an_answer_for_the_old_one_that_comes_late_is_a_refusal(stand):
    stand.subscribe("p", "flood", id=2)
    stand.handle(ev.Told("C", 1, None, NEW))
    stand.took("p")
    stand.handle(ev.Wanted("C", [9], 5, OLD))
    (error,) = stand.took("p")
    assert (error.id, error.code) == (2, "not_found")


def test_who_resumes_with_a_cursor_of_the_old_one_begins_anew(stand):
    stand.handle(ev.Dropped("C", OLD))
    stand.open("q")
    stand.say("q", wire.Subscribe(1, "C", ["fire"], 5, 7, OLD))
    stand.handle(ev.Wanted("C", [8], 2, NEW))
    assert stand.took("q") == [wire.Subscribed(1, 8, "C", 2, NEW), wire.Live(8, 2)]
    assert stand.did(do.Fetch) == []


def test_who_resumes_with_a_cursor_of_the_same_one_goes_on(stand):
    stand.open("q")
    stand.say("q", wire.Subscribe(1, "C", ["fire"], 0, 7, OLD))
    assert [type(it) for it in stand.took("q")] == [wire.Subscribed, wire.Notify, wire.Live]


def test_a_user_who_was_away_gets_what_has_smaller_numbers():
    stand = Stand(heartbeat=0.0)
    stand.handle(ev.Restored("ann/phone", [wire.DurableSubscription(7, "C", ["fire"], 50)]))
    stand.handle(ev.Wanted("C", [8], 2, NEW))
    assert stand.did(do.Renumber) == [do.Renumber("ann/phone", 7, 8, 2, 2)]


def test_a_channel_that_is_made_anew_at_once_is_noticed(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "b", url) as b:
        speaker = Speaker(b.url)
        first = speaker.ask("subscribe", channel="Above", args=[1])
        for n in range(3):
            cluster.found("Above", ([1], [{"n": n}]))
        assert [speaker.next("notify")["execution"] for _ in range(3)] == [1, 2, 3]
        body = "{ SELECT r.n FROM Reports r WHERE is_new(r) AND r.n > least }"
        cluster.execute(f"DROP CHANNEL Above; CREATE CONTINUOUS CHANNEL Above(least bigint) {body};")
        # Nobody tells the broker before there is something to tell; a subscription to it is enough.
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
