"""The contract of the catalog, on SQLite and on PostgreSQL: definitions, the log, subscriptions."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from catalogs import Open, a_broker, a_channel, a_dataset, a_feed, append, execution, subscriptions_of
from tocsin.cluster.model import (
    Broker,
    Channel,
    Column,
    Dataset,
    Definition,
    Feed,
    Function,
    OutboxEntry,
    Parameter,
    Procedure,
    Segment,
)
from tocsin.cluster.storage.catalog import (
    AddSubscription,
    Append,
    Catalog,
    Commit,
    FeedBatch,
    IdempotencyKey,
    RemoveSubscription,
    digest,
)
from tocsin.errors import AlreadyExists, Conflict, NotFound, UserError

# -- definitions -------------------------------------------------------------------------------------------------------


def test_ids_are_unique_over_threads_and_reopening(opener: Open) -> None:
    ids: list[int] = []
    catalog = opener()
    threads = [threading.Thread(target=lambda: ids.extend(catalog.new_id() for _ in range(1500))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    catalog.close()
    ids.append(opener().new_id())
    assert len(set(ids)) == 6001
    assert min(ids) == 1
    assert ids[-1] == max(ids)


@pytest.mark.parametrize(
    "definition",
    [
        Dataset(1, "Höhe", (Column("a", "array<struct<b:int>>"),), ("a",), True, True),
        Feed(1, "F", {"type": "file", "path": "/x", "options": {"header": True}}, "D", True),
        Procedure(1, "P", (Parameter("x", "int"),), "delete from d where a = x", 2.5),
        Broker(1, "B", "http://localhost:1", "gone"),
        Channel(1, "C", "repetitive", (Parameter("p"),), "select '\"'", True, 10.0, state="failing", error="x\u0000\n"),
    ],
)
def test_a_definition_comes_back_as_it_was(opener: Open, definition: Definition) -> None:
    catalog = opener()
    catalog.add(definition)
    catalog.close()
    catalog = opener()
    kind: Any = type(definition)
    assert catalog.get(kind, definition.name.upper()) == definition
    assert catalog.all(kind) == [definition]


def test_functions_differ_by_arity(catalog: Catalog) -> None:
    one = Function(catalog.new_id(), "f", (Parameter("a"),), "select a")
    two = Function(catalog.new_id(), "F", (Parameter("a"), Parameter("b")), "select b")
    catalog.add(one)
    catalog.add(two)
    assert catalog.get(Function, "F@1") == one
    assert catalog.get(Function, "f@2") == two
    assert catalog.get(Function, "f") is None


def test_a_name_in_another_case_exists_already(catalog: Catalog) -> None:
    a_dataset(catalog, "Reports")
    with pytest.raises(AlreadyExists):
        a_dataset(catalog, "REPORTS")
    assert len(catalog.all(Dataset)) == 1


def test_kinds_do_not_share_names(catalog: Catalog) -> None:
    dataset, feed = a_dataset(catalog, "same"), a_feed(catalog, "same")
    assert catalog.get(Dataset, "same") == dataset
    assert catalog.get(Feed, "same") == feed


def test_an_id_is_given_once(catalog: Catalog) -> None:
    dataset = a_dataset(catalog)
    with pytest.raises(Conflict):
        catalog.add(Feed(dataset.id, "other", {}))


def test_replace_keeps_the_order(catalog: Catalog) -> None:
    first, second = a_feed(catalog, "one"), a_feed(catalog, "two")
    started = Feed(first.id, "one", {"type": "http"}, "D", running=True)
    catalog.replace(started)
    assert catalog.all(Feed) == [started, second]


@pytest.mark.parametrize("id, name", [(77, "one"), (1, "other")])
def test_replacing_an_unknown_definition_is_an_error(catalog: Catalog, id: int, name: str) -> None:
    catalog.add(Feed(1, "one", {}))
    with pytest.raises(NotFound):
        catalog.replace(Feed(id, name, {}, running=True))
    assert catalog.get(Feed, "one") == Feed(1, "one", {})


def test_a_removed_dataset_leaves_its_paths_and_no_positions(catalog: Catalog) -> None:
    dataset, other = a_dataset(catalog), a_dataset(catalog, "Other")
    append(catalog, dataset, "a", "b")
    append(catalog, other, "c")
    channel = a_channel(catalog, positions={dataset.id: 2, other.id: 1})
    assert sorted(catalog.remove(dataset)) == ["a", "b"]
    assert catalog.get(Dataset, "Reports") is None
    assert catalog.positions(channel.id) == {other.id: 1}
    assert catalog.segments(dataset.id) == []
    assert catalog.all_paths() == {"c"}


def test_removing_a_channel_removes_everything_of_it(catalog: Catalog) -> None:
    channel, other, broker = a_channel(catalog), a_channel(catalog, "Other"), a_broker(catalog)
    catalog.commit(Commit(subscribe=subscriptions_of(channel, broker, 1, 2) + subscriptions_of(other, broker, 3)))
    catalog.record(execution(channel, 1, path="r1"), {}, [broker.id])
    catalog.record(execution(channel, 2), {}, [broker.id])
    catalog.record(execution(other, 1, path="r3"), {}, [broker.id])
    assert catalog.remove(channel) == ["r1"]
    assert list(catalog.subscriptions(channel.id)) == []
    assert [id for id, _, _ in catalog.subscriptions(other.id)] == [3]
    assert catalog.executions(channel.id) == []
    assert catalog.outbox(broker.id) == [OutboxEntry(broker.id, other.id, 1)]


def test_removing_a_broker_keeps_subscriptions_of_others(catalog: Catalog) -> None:
    channel, one, two = a_channel(catalog), a_broker(catalog, "one"), a_broker(catalog, "two")
    catalog.commit(Commit(subscribe=subscriptions_of(channel, one, 1, 2) + subscriptions_of(channel, two, 2)))
    catalog.record(execution(channel, 1), {}, [one.id, two.id])
    assert catalog.remove(one) == []
    assert list(catalog.subscriptions(channel.id)) == [(2, '["x",2]', [two.id])]
    assert catalog.rows("channels")[1][0][-1] == 1
    assert catalog.outbox(one.id) == []
    assert len(catalog.outbox(two.id)) == 1


def test_a_removed_feed_forgets_its_keys_and_batches(catalog: Catalog) -> None:
    feed = a_feed(catalog)
    catalog.commit(Commit(keys=[IdempotencyKey(feed.id, "k", b"r", 1.0)], feed_batches=[FeedBatch(feed.id, 4)]))
    assert catalog.remove(feed) == []
    assert catalog.receipt(feed.id, "k") is None
    assert not catalog.batch_done(feed.id, 4)


def test_removing_twice_finds_nothing(catalog: Catalog) -> None:
    broker = a_broker(catalog)
    catalog.remove(broker)
    with pytest.raises(NotFound):
        catalog.remove(broker)


# -- the log -----------------------------------------------------------------------------------------------------------


def test_ordinals_follow_each_other_in_each_dataset(catalog: Catalog) -> None:
    one, two = a_dataset(catalog, "one"), a_dataset(catalog, "two")
    assert catalog.head(one.id) == 0
    batch = [Append(id, path, 1, 2) for id, path in ((two.id, "a"), (one.id, "b"), (two.id, "c"), (one.id, "d"))]
    assert catalog.commit(Commit(appends=batch)) == [1, 1, 2, 2]
    assert append(catalog, two, "e") == [3]
    assert (catalog.head(one.id), catalog.head(two.id)) == (2, 3)
    assert catalog.segments(one.id) == [
        Segment(one.id, 1, 1, "log", "b", 1, 2),
        Segment(one.id, 2, 2, "log", "d", 1, 2),
    ]


def test_concurrent_commits_never_share_an_ordinal(opener: Open) -> None:
    catalogs = [opener(), opener()]
    dataset = a_dataset(catalogs[0])
    ordinals: list[int] = []

    def work(number: int) -> None:
        for step in range(20):
            ordinals.extend(append(catalogs[number % 2], dataset, f"{number}-{step}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ordinals) == list(range(1, 81))


def test_an_empty_commit_does_nothing(catalog: Catalog) -> None:
    assert catalog.commit(Commit()) == []


def test_a_key_keeps_its_receipt_until_it_is_forgotten(catalog: Catalog) -> None:
    feed, dataset = a_feed(catalog), a_dataset(catalog)
    keys = [IdempotencyKey(feed.id, "a", b"\x00one", 10.0, 0), IdempotencyKey(feed.id, "b", b"two", 20.0)]
    catalog.commit(Commit(appends=[Append(dataset.id, "p", 1, 1)], keys=keys))
    assert catalog.receipt(feed.id, "a") == b"\x00one"
    assert catalog.receipt(feed.id, "A") is None
    assert catalog.forget_keys(20.0) == 1
    assert catalog.receipt(feed.id, "a") is None
    assert catalog.receipt(feed.id, "b") == b"two"


def test_batches_are_done_once_and_in_order(catalog: Catalog) -> None:
    feed = a_feed(catalog)
    assert not catalog.batch_done(feed.id, 0)
    catalog.commit(Commit(feed_batches=[FeedBatch(feed.id, 0)]))
    catalog.commit(Commit(feed_batches=[FeedBatch(feed.id, 3)]))
    assert [catalog.batch_done(feed.id, batch) for batch in (0, 2, 3, 4)] == [True, True, True, False]


def bad_commits(d: int, f: int, c: int, b: int) -> dict[str, tuple[Commit, type[Exception]]]:
    return {
        "unknown dataset": (Commit(appends=[Append(999, "x", 1, 1)]), NotFound),
        "dataset id that is a feed": (Commit(appends=[Append(f, "x", 1, 1)]), NotFound),
        "path again": (Commit(appends=[Append(d, "there", 1, 1)]), Conflict),
        "path twice": (Commit(appends=[Append(d, "x", 1, 1)] * 2), Conflict),
        "path with NUL": (Commit(appends=[Append(d, "x\0", 1, 1)]), UserError),
        "path with half a character": (Commit(appends=[Append(d, "x\ud800", 1, 1)]), UserError),
        "too many bytes": (Commit(appends=[Append(d, "x", 1, 2**63)]), UserError),
        "key again": (Commit(keys=[IdempotencyKey(f, "k", b"", 1.0)]), Conflict),
        "key of an unknown feed": (Commit(keys=[IdempotencyKey(999, "k", b"", 1.0)]), NotFound),
        "batch again": (Commit(feed_batches=[FeedBatch(f, 5)]), Conflict),
        "batch of an unknown feed": (Commit(feed_batches=[FeedBatch(d, 1)]), NotFound),
        "subscription to an unknown channel": (Commit(subscribe=[AddSubscription(1, 999, "[]", b)]), NotFound),
        "subscription of an unknown broker": (Commit(subscribe=[AddSubscription(1, c, "[]", 999)]), NotFound),
        "subscription with a large id": (Commit(subscribe=[AddSubscription(2**63, c, "[]", b)]), UserError),
        "unsubscription with a large id": (Commit(unsubscribe=[RemoveSubscription(-(2**63) - 1, b)]), UserError),
    }


@pytest.mark.parametrize("name", bad_commits(1, 2, 3, 4))
def test_a_bad_commit_changes_nothing(catalog: Catalog, name: str) -> None:
    dataset, feed, channel, broker = a_dataset(catalog), a_feed(catalog), a_channel(catalog), a_broker(catalog)
    append(catalog, dataset, "there")
    catalog.commit(Commit(keys=[IdempotencyKey(feed.id, "k", b"r", 1.0)], feed_batches=[FeedBatch(feed.id, 5)]))
    bad, error = bad_commits(dataset.id, feed.id, channel.id, broker.id)[name]
    bad.appends.insert(0, Append(dataset.id, "good", 1, 1))
    bad.subscribe.insert(0, AddSubscription(7, channel.id, "[]", broker.id))
    with pytest.raises(error):
        catalog.commit(bad)
    assert catalog.head(dataset.id) == 1
    assert catalog.all_paths() == {"there"}
    assert list(catalog.subscriptions(channel.id)) == []
    assert append(catalog, dataset, "good") == [2]


def test_compaction_swaps_segments(catalog: Catalog) -> None:
    dataset = a_dataset(catalog)
    append(catalog, dataset, "a", "b", "c")
    base, log = Segment(dataset.id, 1, 2, "base", "z", 20, 9), Segment(dataset.id, 1, 1, "log", "a", 10, 100)
    catalog.compact(dataset.id, ["a", "b"], [log, base])
    assert catalog.segments(dataset.id) == [base, log, Segment(dataset.id, 3, 3, "log", "c", 10, 100)]
    assert catalog.head(dataset.id) == 3


@pytest.mark.parametrize("remove, add", [(["a", "gone"], "m"), (["other"], "m"), (["a"], "b"), (["a"], "other")])
def test_a_bad_compaction_changes_nothing(catalog: Catalog, remove: list[str], add: str) -> None:
    dataset, other = a_dataset(catalog), a_dataset(catalog, "Other")
    append(catalog, dataset, "a", "b")
    append(catalog, other, "other")
    before = catalog.segments(dataset.id)
    with pytest.raises(Conflict):
        catalog.compact(dataset.id, remove, [Segment(dataset.id, 1, 2, "base", add, 1, 1)])
    assert catalog.segments(dataset.id) == before
    assert len(catalog.segments(other.id)) == 1


def test_compaction_adds_only_to_its_dataset(catalog: Catalog) -> None:
    dataset, other = a_dataset(catalog), a_dataset(catalog, "Other")
    with pytest.raises(Conflict):
        catalog.compact(dataset.id, [], [Segment(other.id, 1, 1, "base", "m", 1, 1)])
    with pytest.raises(NotFound):
        catalog.compact(999, [], [])


# -- subscriptions -----------------------------------------------------------------------------------------------------


def test_identical_subscriptions_of_several_brokers_are_stored_once(catalog: Catalog) -> None:
    channel, one, two = a_channel(catalog), a_broker(catalog, "one"), a_broker(catalog, "two")
    catalog.commit(Commit(subscribe=subscriptions_of(channel, two, 9, 5) + subscriptions_of(channel, one, 5, 5)))
    catalog.commit(Commit(subscribe=[AddSubscription(9, channel.id, "ignored", one.id)]))
    assert list(catalog.subscriptions(channel.id)) == [
        (5, '["x",5]', [one.id, two.id]),
        (9, '["x",9]', [one.id, two.id]),
    ]


def test_a_subscription_is_removed_with_its_last_broker(catalog: Catalog) -> None:
    channel, one, two = a_channel(catalog), a_broker(catalog, "one"), a_broker(catalog, "two")
    catalog.commit(Commit(subscribe=subscriptions_of(channel, one, 1, 2, 3) + subscriptions_of(channel, two, 2, 3)))
    catalog.commit(
        Commit(
            unsubscribe=[
                RemoveSubscription(1, one.id),
                RemoveSubscription(2, one.id),
                RemoveSubscription(3),
                RemoveSubscription(999, one.id),
            ]
        )
    )
    assert list(catalog.subscriptions(channel.id)) == [(2, '["x",2]', [two.id])]
    assert catalog.rows("channels")[1][0][-1] == 1


def test_subscribing_wins_over_unsubscribing_in_one_commit(catalog: Catalog) -> None:
    channel, broker = a_channel(catalog), a_broker(catalog)
    catalog.commit(Commit(subscribe=subscriptions_of(channel, broker, 1)))
    catalog.commit(
        Commit(subscribe=subscriptions_of(channel, broker, 1), unsubscribe=[RemoveSubscription(1, broker.id)])
    )
    assert [id for id, _, _ in catalog.subscriptions(channel.id)] == [1]


def test_the_arguments_of_an_ended_subscription_are_known_as_long_as_it_may_have_results(catalog: Catalog) -> None:
    channel, one, two = a_channel(catalog), a_broker(catalog, "one"), a_broker(catalog, "two")
    catalog.commit(Commit(subscribe=subscriptions_of(channel, one, 1, 2) + subscriptions_of(channel, two, 2, 3)))
    catalog.record(execution(channel, 1), {}, [])
    assert catalog.ended(channel.id, 1) is None
    catalog.commit(Commit(unsubscribe=[RemoveSubscription(1), RemoveSubscription(2, one.id)]))
    assert catalog.ended(channel.id, 1) == digest('["x",1]') != digest('["x",2]')
    assert catalog.ended(channel.id, 2) is None and catalog.ended(channel.id + 1, 1) is None
    catalog.remove(two)
    assert [catalog.ended(channel.id, id) for id in (2, 3)] == [digest('["x",2]'), digest('["x",3]')]
    catalog.expire(channel.id, 0.0)
    assert catalog.ended(channel.id, 1) is not None
    catalog.expire(channel.id, 1e12)
    assert catalog.ended(channel.id, 1) is None


def test_a_dropped_channel_forgets_its_ended_subscriptions(catalog: Catalog) -> None:
    channel, broker = a_channel(catalog), a_broker(catalog)
    catalog.commit(Commit(subscribe=subscriptions_of(channel, broker, 1)))
    catalog.commit(Commit(unsubscribe=[RemoveSubscription(1)]))
    catalog.remove(channel)
    assert catalog.ended(channel.id, 1) is None


def test_negative_and_largest_ids_are_ids(catalog: Catalog) -> None:
    channel, broker = a_channel(catalog), a_broker(catalog)
    catalog.commit(Commit(subscribe=subscriptions_of(channel, broker, 2**63 - 1, -(2**63), 0)))
    assert [id for id, _, _ in catalog.subscriptions(channel.id)] == [-(2**63), 0, 2**63 - 1]


def test_many_subscriptions_stream_while_others_are_written(catalog: Catalog) -> None:
    channel, broker = a_channel(catalog), a_broker(catalog)
    catalog.commit(Commit(subscribe=subscriptions_of(channel, broker, *range(1, 30_001))))
    stream = catalog.subscriptions(channel.id)
    first = next(stream)
    catalog.commit(Commit(unsubscribe=[RemoveSubscription(id) for id in range(20_000, 30_001)]))
    assert [first[0], *(id for id, _, _ in stream)] == list(range(1, 30_001))
    assert sum(1 for _ in catalog.subscriptions(channel.id)) == 19_999
