"""Random histories on both databases, compared with the specification in plain Python."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from msgspec import structs

from postgres import Server
from seeds import examples
from tocsin.cluster.model import Broker, Channel, Dataset, Execution, Feed, OutboxEntry, Segment
from tocsin.cluster.storage.catalog import (
    AddSubscription,
    Append,
    Catalog,
    Commit,
    FeedBatch,
    IdempotencyKey,
    RemoveSubscription,
    open_catalog,
)
from tocsin.errors import Conflict, NotFound, TocsinError

DATASETS, FEEDS, CHANNELS, BROKERS = (1, 2), (11, 12), (21, 22), (31, 32, 33)
KINDS: dict[type, tuple[int, ...]] = {Dataset: DATASETS, Feed: FEEDS, Channel: CHANNELS, Broker: BROKERS}


def define(id: int) -> Any:
    if id in DATASETS:
        return Dataset(id, f"n{id}", ())
    if id in FEEDS:
        return Feed(id, f"n{id}", {})
    return Channel(id, f"n{id}", "continuous", (), "") if id in CHANNELS else Broker(id, f"n{id}", "")


class Model:
    """Each method either changes everything it says or raises and changes nothing."""

    def __init__(self) -> None:
        self.exists: set[int] = set()
        self.heads: dict[int, int] = {}
        self.segments: dict[int, list[Segment]] = {}
        self.keys: dict[tuple[int, str], tuple[bytes, float]] = {}
        self.batches: dict[int, int] = {}
        self.subscriptions: dict[int, tuple[int, str, set[int]]] = {}
        self.positions: dict[int, dict[int, int]] = {}
        self.executions: dict[int, dict[int, Execution]] = {}
        self.last: dict[int, int] = {}
        self.outbox: set[tuple[int, int, int]] = set()

    def paths(self) -> set[str]:
        results = {item.path for kept in self.executions.values() for item in kept.values() if item.path}
        return results | {segment.path for kept in self.segments.values() for segment in kept}

    def waiting(self, broker: int) -> list[OutboxEntry]:
        """The oldest entry of each channel first, by its time, then the second of each."""
        channels: dict[int, list[OutboxEntry]] = {}
        for entry in sorted(each for each in self.outbox if each[0] == broker):
            channels.setdefault(entry[1], []).append(OutboxEntry(*entry))

        def age(channel: int) -> tuple[float, int]:
            first = self.executions[channel].get(channels[channel][0].execution)
            return (0.0 if first is None else first.time, channel)

        ranks = zip_longest(*(channels[channel] for channel in sorted(channels, key=age)))
        return [entry for rank in ranks for entry in rank if entry is not None]

    def need(self, ids: tuple[int, ...], *needed: int) -> None:
        for id in needed:
            if id not in ids or id not in self.exists:
                raise NotFound("thing", str(id))

    def add(self, id: int) -> None:
        if id in self.exists:
            raise Conflict("exists")
        self.exists.add(id)
        if id in DATASETS:
            self.heads[id], self.segments[id] = 0, []
        if id in CHANNELS:
            self.last[id], self.executions[id], self.positions[id] = 0, {}, {}

    def remove(self, id: int) -> list[str]:
        if id not in self.exists:
            raise NotFound("thing", str(id))
        before = self.paths()
        self.exists.discard(id)
        for by_id in (self.heads, self.segments, self.batches, self.positions, self.executions, self.last):
            by_id.pop(id, None)
        for positions in self.positions.values():
            positions.pop(id, None)
        self.keys = {key: value for key, value in self.keys.items() if key[0] != id}
        self.outbox = {entry for entry in self.outbox if id not in entry[:2]}
        for subscription, (channel, _, brokers) in list(self.subscriptions.items()):
            brokers.discard(id)
            if channel == id or not brokers:
                del self.subscriptions[subscription]
        return sorted(before - self.paths())

    def commit(self, batch: Commit) -> list[int]:
        self.need(DATASETS, *(item.dataset for item in batch.appends))
        paths = [item.path for item in batch.appends]
        there = {segment.path for kept in self.segments.values() for segment in kept}
        if len(set(paths)) < len(paths) or there & set(paths):
            raise Conflict("path")
        self.need(FEEDS, *(key.feed for key in batch.keys), *(item.feed for item in batch.feed_batches))
        keys = [(key.feed, key.key) for key in batch.keys]
        if len(set(keys)) < len(keys) or set(keys) & set(self.keys):
            raise Conflict("key")
        batches = dict(self.batches)
        for item in batch.feed_batches:
            if item.batch <= batches.get(item.feed, -1):
                raise Conflict("batch")
            batches[item.feed] = item.batch
        self.need(CHANNELS, *(added.channel for added in batch.subscribe))
        self.need(BROKERS, *(added.broker for added in batch.subscribe))
        ordinals = []
        for append in batch.appends:
            self.heads[append.dataset] = ordinal = self.heads[append.dataset] + 1
            ordinals.append(ordinal)
            segment = Segment(append.dataset, ordinal, ordinal, "log", append.path, append.rows, append.bytes)
            self.segments[append.dataset].append(segment)
        self.keys.update({(key.feed, key.key): (key.receipt, key.time) for key in batch.keys})
        self.batches = batches
        for unwant in batch.unsubscribe:
            if unwant.subscription in self.subscriptions:
                brokers = self.subscriptions[unwant.subscription][2]
                brokers -= {unwant.broker} if unwant.broker is not None else set(brokers)
                if not brokers:
                    del self.subscriptions[unwant.subscription]
        for added in batch.subscribe:
            self.subscriptions.setdefault(added.subscription, (added.channel, added.args, set()))[2].add(added.broker)
        return ordinals

    def record(self, execution: Execution, positions: dict[int, int], brokers: list[int]) -> None:
        self.need(CHANNELS, execution.channel)
        if execution.number != self.last[execution.channel] + 1:
            raise Conflict("number")
        self.need(DATASETS, *positions)
        for dataset, ordinal in positions.items():
            if not self.positions[execution.channel].get(dataset, 0) <= ordinal <= self.heads[dataset]:
                raise Conflict("position")
        self.last[execution.channel] = execution.number
        self.executions[execution.channel][execution.number] = execution
        self.positions[execution.channel].update(positions)
        there = self.exists & set(BROKERS) & set(brokers)
        self.outbox |= {(broker, execution.channel, execution.number) for broker in there}

    def expire(self, channel: int, before: float) -> list[str]:
        old = [item for item in self.executions.get(channel, {}).values() if item.time < before]
        for item in old:
            del self.executions[channel][item.number]
        return sorted(item.path for item in old if item.path)

    def compact(self, dataset: int, remove: list[str], add: list[Segment]) -> None:
        self.need(DATASETS, dataset)
        present = {segment.path for segment in self.segments[dataset]}
        kept = {segment.path for every in self.segments.values() for segment in every} - set(remove)
        if set(remove) - present or kept & {segment.path for segment in add}:
            raise Conflict("paths")
        rest = [segment for segment in self.segments[dataset] if segment.path not in remove]
        self.segments[dataset] = rest + add


few = st.lists(st.integers(0, 9).map("s{}".format), max_size=3)
commits = st.builds(
    Commit,
    appends=st.lists(
        st.builds(Append, st.sampled_from((1, 2)), st.integers(0, 40).map("s{}".format), st.just(1), st.just(2)),
        max_size=3,
    ),
    keys=st.lists(
        st.builds(
            IdempotencyKey, st.sampled_from(FEEDS), st.sampled_from("abcdef"), st.binary(max_size=3), st.floats(0, 9)
        ),
        max_size=1,
    ),
    feed_batches=st.lists(st.builds(FeedBatch, st.sampled_from(FEEDS), st.integers(0, 20)), max_size=1),
    subscribe=st.lists(
        st.builds(
            AddSubscription,
            st.integers(1, 6),
            st.sampled_from(CHANNELS),
            st.sampled_from(("[1]", "[2]")),
            st.sampled_from(BROKERS),
        ),
        max_size=4,
    ),
    unsubscribe=st.lists(
        st.builds(RemoveSubscription, st.integers(1, 6), st.sampled_from((*BROKERS, None))), max_size=2
    ),
)


class Histories(RuleBasedStateMachine):
    server: Server
    database: str

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.model = Model()
        self.catalogs: list[Catalog] = []
        self.server.empty(self.database)
        self.open()
        for id in (*DATASETS, *FEEDS, *CHANNELS, *BROKERS):
            self.remove_or_add(id)

    def open(self) -> None:
        self.catalogs = [open_catalog("", self.folder.name), open_catalog(self.database, "")]

    def teardown(self) -> None:
        for catalog in self.catalogs:
            catalog.close()
        self.folder.cleanup()

    def both(self, real: Callable[[Catalog], Any], specified: Callable[[], Any]) -> None:
        """The same outcome, or the same kind of error, from the specification and from both."""
        expected = outcome(specified)
        for catalog in self.catalogs:
            assert outcome(partial(real, catalog)) == expected

    @rule(id=st.sampled_from((*DATASETS, *FEEDS, *CHANNELS, *BROKERS)))
    def remove_or_add(self, id: int) -> None:
        if id in self.model.exists:
            self.both(lambda c: sorted(c.remove(define(id))), lambda: self.model.remove(id))
        else:
            self.both(lambda c: c.add(define(id)), lambda: self.model.add(id))

    @rule(batch=commits)
    def commit(self, batch: Commit) -> None:
        self.both(lambda c: c.commit(batch), lambda: self.model.commit(batch))

    @rule(
        channel=st.sampled_from(CHANNELS),
        step=st.sampled_from((1, 1, 1, 1, 0, 2)),
        time=st.floats(0, 9),
        path=st.booleans(),
        lag=st.dictionaries(st.sampled_from(DATASETS), st.sampled_from((0, 0, 0, 1, -1)), max_size=2),
        brokers=st.lists(st.sampled_from((*BROKERS, 99)), max_size=3),
    )
    def record(self, channel: int, step: int, time: float, path: bool, lag: dict[int, int], brokers: list[int]) -> None:
        number = self.model.last.get(channel, 0) + step
        done = Execution(channel, number, time, time, 1, 1, 1, f"r{channel}-{number}" if path else None)
        positions = {dataset: self.model.heads.get(dataset, 0) - less for dataset, less in lag.items()}
        self.both(lambda c: c.record(done, positions, brokers), lambda: self.model.record(done, positions, brokers))

    @rule(channel=st.sampled_from(CHANNELS), before=st.floats(0, 9))
    def expire(self, channel: int, before: float) -> None:
        self.both(lambda c: sorted(c.expire(channel, before)), lambda: self.model.expire(channel, before))

    @rule(dataset=st.sampled_from(DATASETS), extra=few, count=st.integers(0, 5), name=st.integers(0, 99))
    def compact(self, dataset: int, extra: list[str], count: int, name: int) -> None:
        remove = [segment.path for segment in self.model.segments.get(dataset, [])[:count]] + extra[:1]
        add = [Segment(dataset, 1, 1, "base", f"m{name}", 1, 1)]
        self.both(lambda c: c.compact(dataset, remove, add), lambda: self.model.compact(dataset, remove, add))

    @rule(broker=st.sampled_from(BROKERS), limit=st.integers(1, 3))
    def notify(self, broker: int, limit: int) -> None:
        expected = self.model.waiting(broker)[:limit]
        self.model.outbox -= {structs.astuple(entry) for entry in expected}
        for catalog in self.catalogs:
            assert catalog.outbox(broker, limit) == expected
            catalog.delete_notified(expected)

    @rule(before=st.floats(0, 9))
    def forget_keys(self, before: float) -> None:
        kept = {key: value for key, value in self.model.keys.items() if value[1] >= before}
        forgotten, self.model.keys = len(self.model.keys) - len(kept), kept
        assert [catalog.forget_keys(before) for catalog in self.catalogs] == [forgotten] * 2

    @rule()
    def reopen(self) -> None:
        for catalog in self.catalogs:
            catalog.close()
        self.open()

    @invariant()
    def same(self) -> None:
        for catalog in self.catalogs:
            assert catalog.all_paths() == self.model.paths()
            for kind, ids in KINDS.items():
                there: list[Any] = catalog.all(kind)
                assert [item.id for item in there] == sorted(self.model.exists & set(ids))
            for dataset, head in self.model.heads.items():
                assert catalog.head(dataset) == head
                order = sorted(self.model.segments[dataset], key=lambda s: (s.first, s.kind, s.last, s.path))
                assert catalog.segments(dataset) == order
            for channel, last in self.model.last.items():
                kept = self.model.executions[channel]
                assert catalog.last_execution(channel) == last
                assert catalog.first_execution(channel) == min(kept, default=last + 1)
                assert catalog.executions(channel) == [kept[number] for number in sorted(kept)]
                assert catalog.positions(channel) == self.model.positions[channel]
                expected = [
                    (id, args, sorted(brokers))
                    for id, (of, args, brokers) in sorted(self.model.subscriptions.items())
                    if of == channel
                ]
                assert list(catalog.subscriptions(channel)) == expected
            for broker in BROKERS:
                expected_entries = self.model.waiting(broker)
                assert catalog.outbox(broker) == expected_entries
                known = expected_entries[::2]
                assert set(catalog.outbox(broker, known=known)) == set(expected_entries) - set(known)
            for feed in FEEDS:
                done = self.model.batches.get(feed, -1)
                assert [catalog.batch_done(feed, batch) for batch in (done, done + 1)] == [done >= 0, False]
                for key in "abcdef":
                    assert catalog.receipt(feed, key) == self.model.keys.get((feed, key), (None,))[0]


def outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except TocsinError as error:
        # A name and an id that are taken are the same to the model.
        return Conflict.code if error.status == 409 else error.code


def test_both_databases_follow_the_specification(postgres_server: Server) -> None:
    machine = type("Machine", (Histories,), {"server": postgres_server, "database": postgres_server.fresh()})
    limits = settings(
        max_examples=examples(12),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(machine, settings=limits)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_both_databases_follow_the_specification_in_long_histories(postgres_server: Server) -> None:
    machine = type("Machine", (Histories,), {"server": postgres_server, "database": postgres_server.fresh()})
    limits = settings(
        max_examples=examples(40),
        stateful_step_count=60,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    run_state_machine_as_test(machine, settings=limits)
