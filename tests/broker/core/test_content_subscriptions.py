"""Content subscriptions in the broker's state machine: the records of a commit are matched here, once."""

from __future__ import annotations

from typing import Any

import pytest
from broker_harness import BrokerHarness, at
from msgspec import Raw

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import FeedColumn, Line
from tocsin.wire import messages as wire

FEED = "feed:Alarms"
COLUMNS = (FeedColumn("kind", "string"), FeedColumn("severity", "int"), FeedColumn("cost", "decimal(20,2)"))
FIRE, BAD = "kind = 'fire'", "severity >= 3"


def record(kind: str, severity: int) -> Raw:
    return Raw(b'{"kind":"%b","severity":%d}' % (kind.encode(), severity))


@pytest.fixture
def broker() -> BrokerHarness:
    harness = BrokerHarness()
    harness.open("p", "q")
    return harness


def subscribe(
    broker: BrokerHarness, peer: str, where: str, id: int, position: int = 0, after: int | None = None
) -> Any:
    """Subscribes, answers for the data cluster if it was asked, and returns what the peer was sent."""
    broker.say(peer, wire.Subscribe(1, FEED, [where], after))
    if broker.did(do.Subscribe):
        broker.handle(ev.Subscribed(FEED, [id], at(position), COLUMNS))
    return broker.took(peer)


def commit(broker: BrokerHarness, number: int, *records: Raw) -> list[do.Instruction]:
    return broker.handle(ev.Notified(FEED, number, records=list(records)))


def got(broker: BrokerHarness, peer: str) -> list[tuple[int, int, list[Any]]]:
    found = broker.took(peer)
    return [(each.subscription, each.execution, each.results) for each in found if isinstance(each, wire.Notify)]


def test_a_record_goes_to_the_subscriptions_whose_condition_it_meets(broker):
    subscribe(broker, "p", FIRE, 7)
    subscribe(broker, "q", BAD, 8)
    commit(broker, 1, record("fire", 1), record("flood", 5), record("fire", 4))
    fire, flood, both = (
        {"kind": "fire", "severity": 1},
        {"kind": "flood", "severity": 5},
        {"kind": "fire", "severity": 4},
    )
    assert got(broker, "p") == [(7, 1, [fire, both])]
    assert got(broker, "q") == [(8, 1, [flood, both])]


def test_a_commit_without_a_match_is_delivered_to_no_subscriber_and_counts(broker):
    subscribe(broker, "p", FIRE, 7)
    assert commit(broker, 1, record("flood", 1)) == []
    (subscribed,) = subscribe(broker, "q", FIRE, 7)
    assert subscribed.after == 1


def test_the_bytes_of_a_record_pass_as_they_came_and_go_once_to_all_subscribers(broker):
    subscribe(broker, "p", FIRE, 7)
    subscribe(broker, "q", FIRE, 7)
    odd = Raw(b'{ "kind" : "fire",  "severity": 4, "cost": 123456789012345678.10 }')
    (send,) = commit(broker, 1, odd)
    assert isinstance(send, do.Send) and send.peers == ("p", "q")
    assert bytes(odd) in send.messages[0]


def test_a_decimal_is_compared_with_all_its_digits(broker):
    subscribe(broker, "p", "cost > 123456789012345678.09", 7)
    commit(broker, 1, Raw(b'{"cost":123456789012345678.10}'), Raw(b'{"cost":123456789012345678.09}'))
    ((_, _, results),) = got(broker, "p")
    assert len(results) == 1


def test_a_repeated_commit_is_ignored(broker):
    subscribe(broker, "p", FIRE, 7)
    commit(broker, 1, record("fire", 1))
    broker.took("p")
    assert commit(broker, 1, record("fire", 1)) == []


def test_commits_up_to_the_confirmed_position_are_not_delivered(broker):
    subscribe(broker, "p", FIRE, 7, position=3)
    commit(broker, 3, record("fire", 1))
    commit(broker, 4, record("fire", 2))
    assert [execution for _, execution, _ in got(broker, "p")] == [4]


def test_a_commit_before_the_answer_of_the_data_cluster_is_before_the_subscription(broker):
    """Nothing between what is confirmed and what is delivered."""
    broker.say("p", wire.Subscribe(1, FEED, [FIRE]))
    commit(broker, 5, record("fire", 1))
    broker.handle(ev.Subscribed(FEED, [7], at(4), COLUMNS))
    (subscribed,) = broker.took("p")
    assert subscribed.after == 5
    commit(broker, 6, record("fire", 1))
    assert [execution for _, execution, _ in got(broker, "p")] == [6]


def test_a_subscriber_that_resumes_is_replayed_by_its_condition_under_any_id(broker):
    subscribe(broker, "p", FIRE, 7, position=9)
    broker.say("q", wire.Subscribe(1, FEED, [FIRE], 4, subscription=3))
    (fetch,) = broker.did(do.Fetch)
    assert (fetch.channel, fetch.subscription, fetch.position, fetch.same_as) == (FEED, 7, at(4), None)
    broker.handle(ev.Fetched(fetch.job, [Line(7, 6, 1, Raw(b"[1]")), Line(7, 9, 1, Raw(b"[2]"))]))
    assert [execution for _, execution, _ in got(broker, "q")] == [6, 9]
    commit(broker, 10, record("fire", 1))
    assert [execution for _, execution, _ in got(broker, "q")] == [10]


def test_what_is_left_after_a_compaction_follows_the_gap(broker):
    subscribe(broker, "p", FIRE, 7, position=9)
    broker.say("q", wire.Subscribe(1, FEED, [FIRE], 2))
    (fetch,) = broker.did(do.Fetch)
    left = [
        Line(7, 4, 1, Raw(b"[1]"), "compacted", 2),
        Line(7, 6, 1, Raw(b"[2]"), "compacted", 4),
        Line(7, 8, 0, Raw(b"[]"), "compacted", 6),
        Line(7, 9, 1, Raw(b"[3]")),
    ]
    broker.handle(ev.Fetched(fetch.job, left))
    found = [each for each in broker.took("q") if not isinstance(each, wire.Subscribed)]
    assert found == [
        wire.Gap(7, 2, 4, "compacted"),
        wire.Notify(FEED, 7, 4, 1, [1]),
        wire.Notify(FEED, 7, 6, 1, [2]),
        wire.Notify(FEED, 7, 9, 1, [3]),
        wire.Live(7, 9),
    ]


def test_each_loss_in_a_history_is_a_gap(broker):
    """Also after one of a compaction, and after another loss."""
    subscribe(broker, "p", FIRE, 7, position=9)
    broker.say("q", wire.Subscribe(1, FEED, [FIRE], 2))
    (fetch,) = broker.did(do.Fetch)
    left = [
        Line(7, 4, 1, Raw(b"[1]"), "compacted", 2),
        Line(7, 5, 0, Raw(b"[]"), "damaged", 4),
        Line(7, 7, 0, Raw(b"[]"), "damaged", 6),
        Line(7, 8, 0, Raw(b"[]"), "compacted", 7),
        Line(7, 9, 1, Raw(b"[3]")),
    ]
    broker.handle(ev.Fetched(fetch.job, left))
    found = [each for each in broker.took("q") if not isinstance(each, wire.Subscribed)]
    assert found == [
        wire.Gap(7, 2, 4, "compacted"),
        wire.Notify(FEED, 7, 4, 1, [1]),
        wire.Gap(7, 4, 6, "damaged"),
        wire.Gap(7, 6, 8, "damaged"),
        wire.Gap(7, 7, 9, "compacted"),
        wire.Notify(FEED, 7, 9, 1, [3]),
        wire.Live(7, 9),
    ]


def test_a_compacted_history_without_anything_left_is_a_gap(broker):
    subscribe(broker, "p", FIRE, 7, position=9)
    broker.say("q", wire.Subscribe(1, FEED, [FIRE], 2))
    (fetch,) = broker.did(do.Fetch)
    broker.handle(ev.Fetched(fetch.job, [Line(7, 9, 0, Raw(b"[]"), "compacted", 2)]))
    assert wire.Gap(7, 2, 10, "compacted") in broker.took("q")


def test_a_commit_that_comes_without_records_is_pulled_and_then_fetched(broker):
    """The data cluster does not store what a broker gets of a commit: it refuses the pull."""
    subscribe(broker, "p", FIRE, 7)
    broker.handle(ev.Notified(FEED, 1))
    assert broker.did(do.Pull) == [do.Pull(FEED, at(1))]
    broker.handle(ev.Missed({FEED: at(1)}))
    broker.handle(ev.Pulled(FEED, at(1), []))
    (fetch,) = broker.did(do.Fetch)
    assert fetch.position == at(0)
    broker.handle(ev.Fetched(fetch.job, [Line(7, 1, 1, Raw(b"[1]"))]))
    assert got(broker, "p") == [(7, 1, [1])]
    commit(broker, 2, record("fire", 1))
    assert [execution for _, execution, _ in got(broker, "p")] == [2]


def test_a_commit_that_waits_for_a_pull_is_before_what_is_subscribed_to_meanwhile(broker):
    """It was matched when it came, without the condition that the data cluster confirms later."""
    subscribe(broker, "p", FIRE, 7)
    broker.handle(ev.Notified(FEED, 1))
    broker.say("q", wire.Subscribe(1, FEED, [BAD], 1))
    commit(broker, 2, record("flood", 5))
    broker.handle(ev.Subscribed(FEED, [8], at(1), COLUMNS))
    broker.handle(ev.Missed({FEED: at(1)}))
    broker.handle(ev.Pulled(FEED, at(1), []))
    jobs = {fetch.subscription: fetch for fetch in broker.did(do.Fetch)}
    assert jobs[8].position == at(1)
    broker.handle(ev.Fetched(jobs[8].job, [Line(8, 2, 1, Raw(b"[1]"))]))
    commit(broker, 3, record("flood", 6))
    assert [(id, execution) for id, execution, _ in got(broker, "q")] == [(8, 2), (8, 3)]


def test_a_lagging_subscriber_resumes_where_it_was(broker):
    subscribe(broker, "p", FIRE, 7)
    commit(broker, 1, record("fire", 1))
    broker.handle(ev.Congested("p"))
    commit(broker, 2, record("fire", 2))
    assert [execution for _, execution, _ in got(broker, "p")] == [1]
    broker.handle(ev.Drained("p"))
    assert [execution for _, execution, _ in got(broker, "p")] == [2]


def test_the_conditions_of_before_a_restart_are_matched_again(broker):
    broker.handle(ev.Recovered(FEED, [(7, [FIRE])], at(3), COLUMNS))
    subscribe(broker, "p", FIRE, 0)
    commit(broker, 4, record("fire", 1))
    assert [(id, execution) for id, execution, _ in got(broker, "p")] == [(7, 4)]


#: One term where id is never null, and here too many.
WIDE = " OR ".join(["id < 0", "id >= 0", *(f"(severity = {n} AND kind = 'k{n}')" for n in range(65))])
MISSING = "place = 'x'"  # an attribute that is not among the columns


def test_an_empty_condition_selects_every_record_as_at_the_data_cluster(broker):
    for id, where in enumerate(["", "  \n"], 7):
        subscribe(broker, "p", where, id)
    commit(broker, 1, record("fire", 1))
    assert [id for id, _, _ in got(broker, "p")] == [7, 8]


@pytest.mark.parametrize("args", [[MISSING], [], {}, [7], [WIDE]], ids=["column", "none", "no name", "number", "wide"])
def test_a_condition_that_cannot_be_matched_here_is_refused_alone(broker, args):
    """The data cluster takes it: so it is ended there, and neither other requests nor later ones wait for it."""
    columns = (*COLUMNS, FeedColumn("id", "int"))
    broker.say("q", wire.Subscribe(1, FEED, ["severity = 9"]))  # those of after it go together into the next request
    broker.say("p", wire.Subscribe(2, FEED, args))
    broker.say("q", wire.Subscribe(3, FEED, [FIRE]))
    broker.handle(ev.Subscribed(FEED, [6], at(0), columns))
    broker.did(do.Subscribe)
    broker.handle(ev.Subscribed(FEED, [7, 8], at(0), columns))
    (refused,) = broker.took("p")
    assert isinstance(refused, wire.Error) and refused.id == 2
    assert broker.did(do.Unsubscribe) == [do.Unsubscribe(FEED, [7])]
    broker.took("q")
    commit(broker, 1, record("fire", 1))
    assert [id for id, _, _ in got(broker, "q")] == [8]
    broker.handle(ev.Unsubscribed(FEED))
    broker.say("p", wire.Subscribe(4, FEED, args))
    assert [it.args for it in broker.did(do.Subscribe)] == [[args]]
    broker.handle(ev.Subscribed(FEED, [7], at(1), columns))
    assert [each.id for each in broker.took("p")] == [4]
    channel = broker.state.be_subscriptions.channels[FEED.lower()]
    assert list(channel.be_subscriptions) == [6, 8] and len(channel.matcher) == 2
    assert channel.argument_bytes == sum(len(each.keys[0][1]) for each in channel.be_subscriptions.values())
    assert broker.state.context.sessions["p"].unanswered == broker.state.context.sessions["p"].argument_bytes == 0


def test_another_spelling_of_a_condition_that_was_refused_here_stays(broker):
    subscribe(broker, "q", BAD, 6)
    broker.say("p", wire.Subscribe(1, FEED, ["kind = 'x'"]))
    broker.say("p", wire.Subscribe(2, FEED, [MISSING]))
    broker.say("q", wire.Subscribe(3, FEED, [FIRE]))
    broker.handle(ev.Subscribed(FEED, [8], at(0), COLUMNS))
    broker.handle(ev.Subscribed(FEED, [7, 7], at(0), COLUMNS))
    assert broker.did(do.Unsubscribe) == []
    commit(broker, 1, record("fire", 1))
    assert [id for id, _, _ in got(broker, "q")] == [7]


def test_a_condition_of_before_a_restart_that_cannot_be_matched_is_ended_and_the_others_are_recovered(broker):
    broker.handle(ev.Recovered(FEED, [(6, [MISSING]), (7, [FIRE])], at(3), COLUMNS))
    assert broker.did(do.Unsubscribe) == [do.Unsubscribe(FEED, [6])]
    broker.handle(ev.Recovered(FEED, [(6, [MISSING])], at(3), COLUMNS))  # not again while it is being ended
    broker.handle(ev.Unsubscribed(FEED))
    subscribe(broker, "p", FIRE, 0)
    commit(broker, 4, record("fire", 1))
    assert [(id, execution) for id, execution, _ in got(broker, "p")] == [(7, 4)]
    assert broker.did(do.Unsubscribe) == []


def test_the_columns_say_which_values_are_never_null(broker):
    broker.say("p", wire.Subscribe(1, FEED, [WIDE]))
    broker.handle(ev.Subscribed(FEED, [7], at(0), (*COLUMNS, FeedColumn("id", "int", nullable=False))))
    assert [type(each) for each in broker.took("p")] == [wire.Subscribed]


def test_a_subscription_without_subscribers_leaves_the_index_when_it_expires(broker):
    subscribe(broker, "p", FIRE, 7)
    subscribe(broker, "q", BAD, 8)
    broker.close("p")
    broker.tick(broker.state.config.grace + 1.0)
    assert broker.did(do.Unsubscribe) == [do.Unsubscribe(FEED, [7])]
    channel = broker.state.be_subscriptions.channels[FEED.lower()]
    assert len(channel.matcher.index) == 1
    broker.handle(ev.Unsubscribed(FEED))
    subscribe(broker, "q", "kind = 'flood'", 9)
    commit(broker, 1, record("flood", 1))
    assert [id for id, _, _ in got(broker, "q")] == [9]


def test_a_feed_that_is_connected_to_another_dataset_has_other_columns(broker):
    broker.say("p", wire.Subscribe(1, FEED, [FIRE]))
    broker.handle(ev.Subscribed(FEED, [7], at(1, epoch=1), COLUMNS))
    broker.handle(ev.Dropped(FEED, 1))
    assert [each.code for each in broker.took("p") if isinstance(each, wire.Ended)] == ["not_found"]
    broker.say("p", wire.Subscribe(2, FEED, ["size > 1"]))
    broker.handle(ev.Subscribed(FEED, [9], at(1, epoch=2), (FeedColumn("size", "int"),)))
    broker.handle(ev.Notified(FEED, 2, epoch=2, records=[Raw(b'{"size":2}')]))
    assert got(broker, "p") == [(9, 2, [{"size": 2}])]


def test_a_condition_that_is_never_true_is_accepted_with_a_warning(broker):
    (subscribed,) = subscribe(broker, "p", "severity > 3 AND severity < 2", 7)
    assert subscribed.warnings == ["this condition is never true: no publication can match it"]
    assert commit(broker, 1, record("fire", 1)) == []


def test_a_condition_over_the_limit_of_arguments_is_refused_here(broker):
    (refused,) = subscribe(broker, "p", " OR ".join(["severity = 1"] * 10_000), 7)
    assert refused.code == "limit_exceeded"
    assert broker.did(do.Subscribe) == []


def test_a_record_that_cannot_be_matched_costs_a_replay(broker):
    """It does not stop the broker, and no subscriber misses the commit."""
    subscribe(broker, "p", FIRE, 7)
    commit(broker, 1, Raw(b'{"unknown":1}'))
    assert len(broker.did(do.Failed)) == 1
    (fetch,) = broker.did(do.Fetch)
    assert fetch.position == at(0)
