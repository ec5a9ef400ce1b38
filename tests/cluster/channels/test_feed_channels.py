"""Content subscriptions in the data cluster: commits are notified with their records, and replayed by condition."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pyarrow as pa
import pytest
from cluster_harness import Listener, running_cluster

from sparkless import Sparkless, sparkless
from tocsin.broker.core.events import FeedColumn
from tocsin.cluster.model import Broker, Channel, Dataset, Post
from tocsin.cluster.storage.committer import CommitRequest
from tocsin.errors import Conflict, LimitExceeded, NotFound, ParseError, TocsinError, TypeMismatch, UserError

SETUP = """
CREATE DATASET Seen (kind string, severity int, place string);
CREATE DATASET States (name string NOT NULL, severity int) PRIMARY KEY name;
CREATE FEED Alarms; CONNECT FEED Alarms TO DATASET Seen; START FEED Alarms;
CREATE FEED Changes; CONNECT FEED Changes TO DATASET States; START FEED Changes;
CREATE FEED Loose;
"""
FEED, KEYED = "feed:Alarms", "feed:Changes"

Start = Callable[[], Sparkless]


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.close()


@pytest.fixture
def start(tmp_path: Path, listener: Listener) -> Iterator[Start]:
    """Starts the same data cluster again at each call, with a broker that listens."""
    running: list[Any] = []

    def again() -> Sparkless:
        for each in running:
            each.__exit__(None, None, None)
        running.clear()
        held = sparkless(tmp_path / "home")
        cluster, _ = held.__enter__()
        running.append(held)
        return cluster

    def first() -> Sparkless:
        if not running:
            cluster = again()
            list(cluster.run(SETUP + f'CREATE BROKER b AT "{listener.url}"'))
            return cluster
        return again()

    yield first
    for each in running:
        each.__exit__(None, None, None)


@pytest.fixture
def cluster(start: Start) -> Sparkless:
    return start()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sparkless]:
    """For tests that leave nothing."""
    with sparkless(tmp_path_factory.mktemp("shared")) as (cluster, _):
        list(cluster.run(SETUP + 'CREATE BROKER b AT "http://127.0.0.1:9/notify"'))
        yield cluster


def post(cluster: Any, *records: dict[str, Any], feed: str = "Alarms") -> None:
    assert not cluster.publish(Post(feed, msgspec.json.encode(list(records)))).result(60).refused


def subscribe(cluster: Any, where: str, channel: str = FEED) -> int:
    (id,) = cluster.subscribe(channel, "b", [[where]]).result(60)
    return id


def test_brokers_get_the_columns_of_a_feed_with_what_is_never_null(tmp_path):
    """A broker reads conditions with the same columns as the data cluster: otherwise it refuses some of them."""
    with sparkless(tmp_path) as (cluster, url):
        list(cluster.run(SETUP + 'CREATE BROKER b AT "http://127.0.0.1:9/notify"'))
        asked = {"broker": "b", "args": ["severity > 1"]}
        answer = httpx.post(f"{url}/channels/{KEYED}/subscriptions", json=asked, trust_env=False).json()
        listed = httpx.get(f"{url}/channels", trust_env=False).json()["channels"]
        shown = next(each for each in listed if each["name"] == KEYED)
        for columns in (answer["columns"], shown["columns"]):
            assert msgspec.convert(columns, tuple[FeedColumn, ...]) == (
                FeedColumn("name", "string", nullable=False),
                FeedColumn("severity", "int"),
            )


def replayed(cluster: Any, id: int, after: int = 0, channel: str = FEED, limit: int = 100) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(cluster.results(channel, id, after, limit)).splitlines()]


def fire(severity: int) -> dict[str, Any]:
    return {"kind": "fire", "severity": severity}


def test_a_commit_is_notified_with_its_records_and_its_ordinal(cluster, listener):
    subscribe(cluster, "kind = 'fire'")
    post(cluster, fire(1), {"kind": "flood"})
    (message,) = listener.wait(1)
    epoch = cluster.epoch(FEED)
    assert message == {
        "broker": "b",
        "channel": FEED,
        "epoch": epoch,
        "execution": 1,
        "records": [fire(1) | {"place": None}, {"kind": "flood", "severity": None, "place": None}],
    }


def test_a_feed_without_content_subscriptions_is_not_notified(cluster):
    post(cluster, fire(1))
    assert cluster.context.catalog.outbox(cluster.context.definitions.get(Broker, "b").id) == []


def test_the_position_of_a_subscription_is_the_last_commit_before_it(cluster, listener):
    post(cluster, fire(1))
    subscribe(cluster, "TRUE")
    assert cluster.position(FEED) == 1
    post(cluster, fire(2))
    assert [message["execution"] for message in listener.wait(1)] == [2]


def test_a_commit_that_was_not_sent_is_sent_after_a_restart(start, listener):
    cluster = start()
    subscribe(cluster, "TRUE")
    cluster.channel_manager.notifier.stop()
    post(cluster, fire(1))
    post(cluster, fire(2))
    assert listener.messages == []
    start()
    messages = listener.wait(2)
    assert [(each["execution"], [record["severity"] for record in each["records"]]) for each in messages] == [
        (1, [1]),
        (2, [2]),
    ]


def test_subscriptions_and_conditions_survive_a_restart(start):
    id = subscribe(start(), "severity >= 2")
    cluster = start()
    for severity in (1, 2, 3):
        post(cluster, fire(severity))
    assert [(each["execution"], each["count"]) for each in replayed(cluster, id)] == [(2, 1), (3, 1)]
    assert subscribe(cluster, "severity >= 2") == id


def test_the_same_condition_in_both_notations_is_one_subscription(cluster):
    ids = {subscribe(cluster, "kind='fire'  AND severity > 3"), subscribe(cluster, "[kind,eq,'fire'],[severity,>,3]")}
    assert len(ids) == 1


def test_what_was_missed_is_replayed_in_order_from_any_commit(cluster):
    id = subscribe(cluster, "severity >= 2")
    post(cluster, fire(2), fire(1), fire(5))
    post(cluster, fire(1))
    post(cluster, fire(3))
    severities = [(each["execution"], [one["severity"] for one in each["results"]]) for each in replayed(cluster, id)]
    assert severities == [(1, [2, 5]), (3, [3])]
    assert [each["execution"] for each in replayed(cluster, id, after=1)] == [3]
    assert [each["execution"] for each in replayed(cluster, id, limit=1)] == [1]
    assert replayed(cluster, id, after=3) == []


def test_an_append_only_dataset_is_replayed_completely_after_a_compaction(cluster):
    id = subscribe(cluster, "kind = 'fire'")
    for severity in range(6):
        post(cluster, fire(severity), {"kind": "flood"}, fire(10 + severity))
        if severity == 3:
            cluster.compactor.run(cluster.context.stores[cluster.context.definitions.get(Dataset, "Seen").id])
    found = replayed(cluster, id, after=1)
    assert [(each["execution"], [one["severity"] for one in each["results"]]) for each in found] == [
        (number, [number - 1, number + 9]) for number in range(2, 7)
    ]
    assert not any("gap" in each for each in found)


def bulk(cluster: Sparkless, dataset: str, *rows: dict[str, Any]) -> None:
    """A commit as executors make it: two files of one ordinal."""
    store = cluster.context.stores[cluster.context.definitions.get(Dataset, dataset).id]
    tables = [store.as_log(pa.Table.from_pylist(list(some), store.row_schema)) for some in (rows[:1], rows[1:])]
    files = [cluster.context.segments.write(table, f"datasets/{store.dataset.id}") for table in tables]
    cluster.context.committer.submit(CommitRequest(applied=lambda _: None, store=store, files=files)).result(60)


@pytest.mark.parametrize("compacted", [False, True])
def test_commits_of_executors_are_notified_and_replayed_in_order(start, listener, compacted):
    cluster = start()
    id = subscribe(cluster, "kind = 'fire'")
    row = {"place": None}
    post(cluster, fire(1))
    bulk(cluster, "Seen", row | fire(2), row | fire(3), row | {"kind": "flood", "severity": 4})
    post(cluster, fire(5))
    bulk(cluster, "Seen", row | fire(6), row | fire(7))
    if compacted:
        store = cluster.context.stores[cluster.context.definitions.get(Dataset, "Seen").id]
        store.resident_rows = 0
        cluster.compactor.run(store)
        store.resident_rows = 1000  # the history is small enough to be read here
        assert store.base and store.delta
    found = replayed(cluster, id)
    assert [(each["execution"], [one["severity"] for one in each["results"]]) for each in found] == [
        (1, [1]), (2, [2, 3]), (3, [5]), (4, [6, 7]),
    ]  # fmt: skip
    assert not any("gap" in each for each in found)
    messages = {message["execution"]: message for message in listener.wait(4)}
    assert "records" in messages[1] and "records" not in messages[2]


def test_a_commit_of_executors_to_a_keyed_dataset_is_replayed_without_a_gap(cluster):
    id = subscribe(cluster, "severity > 0", KEYED)
    post(cluster, {"name": "a", "severity": 1}, feed="Changes")
    bulk(cluster, "States", {"name": "a", "severity": 2}, {"name": "b", "severity": 3})
    post(cluster, {"name": "a", "severity": 4}, feed="Changes")
    found = replayed(cluster, id, channel=KEYED)
    assert [(each["execution"], [one["severity"] for one in each["results"]], each.get("gap")) for each in found] == [
        (1, [1], None), (2, [2, 3], None), (3, [4], None),
    ]  # fmt: skip


def test_of_a_keyed_dataset_every_commit_is_replayed_until_it_is_compacted(cluster):
    id = subscribe(cluster, "severity > 0", KEYED)
    for severity in (1, 2, 3):
        post(cluster, {"name": "a", "severity": severity}, feed="Changes")
    assert [one["severity"] for each in replayed(cluster, id, channel=KEYED) for one in each["results"]] == [1, 2, 3]
    post(cluster, {"name": "b", "severity": 4}, feed="Changes")
    cluster.compactor.run(cluster.context.stores[cluster.context.definitions.get(Dataset, "States").id])
    post(cluster, {"name": "a", "severity": 5}, feed="Changes")
    found = replayed(cluster, id, channel=KEYED)
    assert [
        (each["execution"], [one["severity"] for one in each["results"]], each.get("gap"), each.get("before"))
        for each in found
    ] == [(3, [3], "compacted", 0), (4, [4], "compacted", 3), (5, [5], None, None)]


def lose(cluster: Sparkless, *ordinals: int) -> None:
    """The files of these commits are damaged, and their loss is accepted."""
    store = cluster.context.stores[cluster.context.definitions.get(Dataset, "Seen").id]
    for segment in (*store.files, *store.log):
        if segment.first in ordinals:
            cluster.context.segments.delete([segment.path])
    (outcome,) = cluster.execute("REPAIR DATASET Seen WITH LOSS")
    assert "lost segments" in outcome.message


def gaps(found: list[dict[str, Any]]) -> list[tuple[int, str | None, int | None]]:
    return [(each["execution"], each.get("gap"), each.get("before")) for each in found]


def test_a_loss_is_a_gap_also_at_the_end_of_the_history(cluster):
    id = subscribe(cluster, "TRUE")
    for severity in range(1, 6):
        post(cluster, fire(severity))
    lose(cluster, 2, 4, 5)
    assert gaps(replayed(cluster, id)) == [(1, None, None), (2, "damaged", 1), (3, None, None), (5, "damaged", 3)]
    post(cluster, fire(6))
    assert gaps(replayed(cluster, id, after=3)) == [(5, "damaged", 3), (6, None, None)]
    assert replayed(cluster, id, after=6) == []


def test_the_loss_of_a_compacted_file_is_a_gap(cluster):
    store = cluster.context.stores[cluster.context.definitions.get(Dataset, "Seen").id]
    store.resident, store.resident_rows = False, 0
    id = subscribe(cluster, "TRUE")
    for severity in range(1, 7):
        post(cluster, fire(severity))
        if severity % 2 == 0:
            cluster.compactor.run(store)
    store.resident_rows = 1000  # the history is small enough to be read here
    assert [(each.first, each.last) for each in store.base] == [(1, 2), (3, 4), (5, 6)]
    lose(cluster, 1, 3)
    assert gaps(replayed(cluster, id)) == [(4, "damaged", 0), (5, None, None), (6, None, None)]


def test_commits_that_were_all_overwritten_are_compacted_and_not_lost(cluster):
    store = cluster.context.stores[cluster.context.definitions.get(Dataset, "States").id]
    id = subscribe(cluster, "severity > 0", KEYED)
    bulk(cluster, "States", *({"name": f"n{each}", "severity": 1} for each in range(40)))
    store.resident_rows = 0
    for severity in (2, 3, 4):
        post(cluster, {"name": "n1", "severity": severity}, feed="Changes")
    cluster.compactor.run(store)
    store.resident_rows = 1000  # the history is small enough to be read here
    assert (store.delta[-1].first, store.delta[-1].last) == (2, 4)
    assert gaps(replayed(cluster, id, after=1, channel=KEYED)) == [(4, "compacted", 1)]


def test_a_compacted_history_that_ends_without_a_match_is_a_gap_to_its_end(cluster):
    id = subscribe(cluster, "severity = 1", KEYED)
    for severity in (1, 2):
        post(cluster, {"name": "a", "severity": severity}, feed="Changes")
    cluster.compactor.run(cluster.context.stores[cluster.context.definitions.get(Dataset, "States").id])
    assert replayed(cluster, id, channel=KEYED) == [
        {"subscription": id, "execution": 2, "count": 0, "results": [], "gap": "compacted", "before": 0}
    ]


def test_a_commit_that_was_compacted_before_it_was_sent_is_notified_without_records(start, listener):
    cluster = start()
    subscribe(cluster, "TRUE", KEYED)
    cluster.channel_manager.notifier.stop()
    post(cluster, {"name": "a", "severity": 1}, feed="Changes")
    cluster.compactor.run(cluster.context.stores[cluster.context.definitions.get(Dataset, "States").id])
    start()
    (message,) = listener.wait(1)
    assert message["execution"] == 1 and "records" not in message


def test_a_pull_is_refused_so_that_the_broker_fetches(cluster):
    subscribe(cluster, "TRUE")
    post(cluster, fire(1))
    with pytest.raises(NotFound) as raised:
        cluster.pull(FEED, 1, "b")
    assert raised.value.fields["first"] == 1


def test_a_delete_is_not_a_publication(cluster, listener):
    subscribe(cluster, "TRUE", KEYED)
    post(cluster, {"name": "a", "severity": 1}, feed="Changes")
    store = cluster.context.stores[cluster.context.definitions.get(Dataset, "States").id]
    gone = store.tombstones(store.snapshot().table().select(["name"]))
    cluster.context.committer.submit(CommitRequest(applied=lambda _: None, store=store, table=gone)).result(60)
    assert [message["records"] for message in listener.wait(2)][1] == []


def test_dropping_or_disconnecting_a_feed_ends_its_content_subscriptions(cluster):
    id, epoch = subscribe(cluster, "TRUE"), cluster.epoch(FEED)
    list(cluster.run("STOP FEED Alarms; DISCONNECT FEED Alarms"))
    with pytest.raises(NotFound):
        cluster.results(FEED, id)
    list(cluster.run("CONNECT FEED Alarms TO DATASET States"))
    assert subscribe(cluster, "name = 'a'") != id
    assert cluster.epoch(FEED) > epoch
    list(cluster.run("DROP FEED Alarms"))
    assert cluster.context.definitions.find(Channel, FEED) is None
    post(cluster, {"name": "a", "severity": 1}, feed="Changes")


@pytest.mark.parametrize(
    ("channel", "where", "error", "message"),
    [
        (FEED, "colour = 'red'", ParseError, "there is no attribute 'colour'"),
        (FEED, "severity >= 'high'", TypeMismatch, "severity is of type int"),
        (FEED, "severity >=", ParseError, "condition"),
        (FEED, " OR ".join(f"severity = {n}" for n in range(1_001)), LimitExceeded, "more than 1,000 comparisons"),
        (FEED, "kind IN (" + ",".join(["'x'"] * 10_000) + ")", LimitExceeded, "1,000 comparisons"),
        (FEED, 7, TypeMismatch, "a condition is a text, not int"),
        ("feed:Nothing", "TRUE", NotFound, "there is no feed 'Nothing'"),
        ("feed:Loose", "TRUE", Conflict, "not connected to a dataset"),
    ],
)
def test_a_wrong_subscription_is_refused_and_leaves_nothing(shared, channel, where, error, message):
    with pytest.raises(error, match=message):
        shared.subscribe(channel, "b", [[where]])
    assert not any(len(table) for table in shared.context.tables.values())


def test_a_channel_cannot_have_the_name_of_a_feed(shared):
    with pytest.raises(UserError, match="cannot be a name"):
        list(shared.run("CREATE REPETITIVE CHANNEL `feed:Alarms`(x int) PERIOD duration('PT1S') { SELECT 1 }"))


# -- statements


def test_subscribe_to_a_feed_as_a_statement(cluster, listener):
    (made,) = cluster.run("SUBSCRIBE TO FEED Alarms WHERE kind = 'fire' AND severity >= 3 ON b")
    assert made.data["subscription"] == subscribe(cluster, "kind = 'fire' AND severity >= 3")
    (padres,) = cluster.run("SUBSCRIBE TO FEED Alarms WHERE [kind,eq,'fire'],[severity,>=,3]")
    assert padres.data["subscription"] == made.data["subscription"]
    (every,) = cluster.run("SUBSCRIBE TO FEED Alarms ON b")
    assert every.data["subscription"] == subscribe(cluster, "")
    (never,) = cluster.run("SUBSCRIBE TO FEED Alarms WHERE severity > 3 AND severity < 2 ON b")
    assert never.data["warnings"] == ["this condition is never true: no publication can match it"]
    (ended,) = cluster.run(f"UNSUBSCRIBE {made.data['subscription']} FROM FEED Alarms ON b")
    assert ended.rows == 1


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("SUBSCRIBE TO FEED Alarms WHERE colour = 1 ON b", 1, 32),
        ("SUBSCRIBE TO FEED Alarms\n  WHERE kind = 'fire'\n  AND severity = 'x' ON b", 3, 18),
        ("SUBSCRIBE TO FEED Alarms WHERE", 1, 31),
        ("SUBSCRIBE TO FEED Nothing WHERE TRUE ON b", 1, 1),
        ("SUBSCRIBE TO FEED Alarms WHERE TRUE ON nobroker", 1, 1),
    ],
)
def test_an_error_of_the_statement_points_at_its_place(shared, text, line, column):
    with pytest.raises(TocsinError) as raised:
        list(shared.run(text))
    assert (raised.value.fields["line"], raised.value.fields["column"]) == (line, column)


def test_without_a_broker_the_statement_takes_the_only_one(cluster, listener):
    list(cluster.run(f'CREATE BROKER c AT "{listener.url}"'))
    with pytest.raises(Conflict, match="there are 2 brokers"):
        list(cluster.run("SUBSCRIBE TO FEED Alarms WHERE TRUE"))


# -- grants


def test_a_grant_on_a_feed_is_not_one_on_a_channel(cluster):
    from tocsin.identity.grants import Policy, user

    list(
        cluster.run(
            "CREATE ROLE watch; GRANT SUBSCRIBE ON FEED alarms TO watch; GRANT SUBSCRIBE ON ALL CHANNELS TO user"
        )
    )
    policy = Policy(cluster.grants.grants)
    watch = user({}, ["watch"])
    assert policy.refusal(watch, "subscribe", "feed:ALARMS", ["TRUE"]) is None
    assert policy.refusal(watch, "subscribe", "OfKind") is None
    refusal = policy.refusal(watch, "subscribe", "feed:Changes")
    assert refusal is not None and "feed 'Changes'" in str(refusal)
    assert "GRANT SUBSCRIBE ON FEED Changes" in refusal.hint
    list(cluster.run("GRANT SUBSCRIBE ON ALL FEEDS TO watch"))
    assert Policy(cluster.grants.grants).refusal(watch, "subscribe", "feed:Changes") is None
    shown = [row["statement"] for row in next(cluster.run("SHOW GRANTS FOR watch")).table.to_pylist()]
    assert shown == ["GRANT SUBSCRIBE ON FEED Alarms TO watch", "GRANT SUBSCRIBE ON ALL FEEDS TO watch"]
    list(cluster.run("REVOKE SUBSCRIBE ON ALL FEEDS FROM watch; REVOKE SUBSCRIBE ON FEED Alarms FROM watch"))
    assert policy.narrowed(Policy(cluster.grants.grants)) == {"feed:alarms"}
    with pytest.raises(ParseError, match="cannot have conditions"):
        list(cluster.run("GRANT SUBSCRIBE ON FEED Alarms WITH (kind = 'fire') TO watch"))


# -- with Spark


def test_a_large_history_is_replayed_by_spark(tmp_path, spark_runtime):
    with running_cluster(tmp_path / "home", spark_runtime, tail_rows=1) as cluster:
        list(cluster.run(SETUP + 'CREATE BROKER b AT "http://127.0.0.1:9/notify"'))
        id = subscribe(cluster, "severity >= 2 AND place LIKE 'h%'")
        for number in range(1, 5):
            rows = [{"kind": "x", "severity": n, "place": place} for n in range(4) for place in ("harbour", "mill")]
            post(cluster, *rows, {"kind": "last", "severity": number, "place": "h"})
        store = cluster.context.stores[cluster.context.definitions.get(Dataset, "Seen").id]
        cluster.compactor.run(store, cluster.context.runtime)
        assert store.base and not store.resident
        post(cluster, {"kind": "x", "severity": 9, "place": "h"})
        found = [(each["execution"], [one["severity"] for one in each["results"]]) for each in replayed(cluster, id, 1)]
        assert found == [(2, [2, 3, 2]), (3, [2, 3, 3]), (4, [2, 3, 4]), (5, [9])]


@pytest.mark.slow
def test_a_piece_of_the_history_does_not_cut_a_commit(tmp_path, spark_runtime, monkeypatch):
    from tocsin.cluster.channels import feed_history

    with running_cluster(tmp_path / "home", spark_runtime, tail_rows=1) as cluster:
        list(cluster.run(SETUP + 'CREATE BROKER b AT "http://127.0.0.1:9/notify"'))
        id = subscribe(cluster, "TRUE")
        for size in (1, 5, 2, 3):
            post(cluster, *[fire(n) for n in range(size)])
        store = cluster.context.stores[cluster.context.definitions.get(Dataset, "Seen").id]
        cluster.compactor.run(store, cluster.context.runtime)
        monkeypatch.setattr(feed_history, "PIECE", 3)
        assert [each["count"] for each in replayed(cluster, id)] == [1, 5, 2, 3]
