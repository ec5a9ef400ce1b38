"""The changes that one group commit makes to the catalog, and how they are applied."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from tocsin.cluster.model import Broker, Channel, Definition, Feed, Function
from tocsin.database import Session
from tocsin.errors import Conflict, NotFound, UserError

SEGMENT = ("dataset", "first", "last", "kind", "path", "rows", "bytes")
#: Ids in one query.
IDS = 500


class Append(Struct, frozen=True):
    """A written segment file that becomes the next ordinal of ``dataset``; with ``more``, a further file of the
    ordinal of the append before it.

    ``notify``: (broker, channel of a feed) for each broker with content subscriptions to its records.
    """

    dataset: int
    path: str
    rows: int
    bytes: int
    notify: tuple[tuple[int, int], ...] = ()
    kind: Literal["log", "delta"] = "log"
    more: bool = False


class IdempotencyKey(Struct, frozen=True):
    """The receipt to return for a repeated request. ``append`` is the index of its append in the same commit."""

    feed: int
    key: str
    receipt: bytes
    time: float
    append: int | None = None


class FeedBatch(Struct, frozen=True):
    """A batch of a streaming source. The batch numbers of a feed only grow."""

    feed: int
    batch: int


class AddSubscription(Struct, frozen=True):
    """Subscribes ``broker``; creates the subscription if it is new. ``args`` is canonical JSON text."""

    subscription: int
    channel: int
    args: str
    broker: int


class RemoveSubscription(Struct, frozen=True):
    """Unsubscribes ``broker``; None: all brokers."""

    subscription: int
    broker: int | None = None


class Commit(Struct):
    appends: list[Append] = field(default_factory=list)
    keys: list[IdempotencyKey] = field(default_factory=list)
    feed_batches: list[FeedBatch] = field(default_factory=list)
    subscribe: list[AddSubscription] = field(default_factory=list)
    unsubscribe: list[RemoveSubscription] = field(default_factory=list)


def apply(session: Session, batch: Commit) -> list[int]:
    """Make all changes in an open transaction; return the ordinal of each append."""
    ordinals = _append(session, batch)
    check_exist(session, Feed, [key.feed for key in batch.keys] + [item.feed for item in batch.feed_batches])
    _keys(session, batch, ordinals)
    _batches(session, batch)
    _unsubscribe(session, batch)
    _subscribe(session, batch)
    return ordinals


def _append(session: Session, batch: Commit) -> list[int]:
    counts = Counter(append.dataset for append in batch.appends if not append.more)
    next_ordinal = {}
    # Always in the same order, so that two writers cannot deadlock.
    for dataset, count in sorted(counts.items()):
        sql = "UPDATE heads SET head = head + ? WHERE dataset = ? RETURNING head"
        rows = session.rows(sql, (count, dataset))
        if not rows:
            raise NotFound("dataset", str(dataset))
        next_ordinal[dataset] = rows[0][0] - count + 1
    ordinals: list[int] = []
    segments: list[tuple[Any, ...]] = []
    for append in batch.appends:
        if append.more and not (segments and segments[-1][0] == append.dataset):
            raise Conflict("a further file of a commit must follow a file of the same dataset")
        if append.more:
            ordinal = ordinals[-1]
        else:
            ordinal = next_ordinal[append.dataset]
            next_ordinal[append.dataset] += 1
        ordinals.append(ordinal)
        size = (append.rows, append.bytes)
        segments.append((append.dataset, ordinal, ordinal, append.kind, checked_text(append.path), *size))
    if session.insert("segments", SEGMENT, segments) != len(segments):
        raise Conflict("a segment with one of these paths was committed before")
    entries = [
        (*pair, ordinal) for append, ordinal in zip(batch.appends, ordinals, strict=True) for pair in append.notify
    ]
    if entries:
        to_notify(session, entries)
    return ordinals


def to_notify(session: Session, entries: Iterable[tuple[int, int, int]]) -> None:
    """Outbox entries: (broker, channel, execution). Brokers and channels that no longer exist are left out."""
    sql = (
        "INSERT INTO outbox (broker, channel, execution) SELECT b.id, c.id, ? FROM definitions b, definitions c "
        "WHERE b.kind = 'broker' AND b.id = ? AND c.kind = 'channel' AND c.id = ?"
    )
    session.each(sql, [(execution, broker, channel) for broker, channel, execution in entries])


def _keys(session: Session, batch: Commit, ordinals: list[int]) -> None:
    rows = []
    for item in batch.keys:
        ordinal = None if item.append is None else ordinals[item.append]
        rows.append((item.feed, checked_text(item.key), item.receipt, item.time, ordinal))
    if session.insert("idempotency", ("feed", "key", "receipt", "time", "ordinal"), rows) != len(rows):
        raise Conflict("one of these idempotency keys was committed before")


def _batches(session: Session, batch: Commit) -> None:
    for item in batch.feed_batches:
        upsert = (
            "INSERT INTO feed_batches (feed, batch) VALUES (?, ?) "
            "ON CONFLICT (feed) DO UPDATE SET batch = excluded.batch WHERE feed_batches.batch < excluded.batch"
        )
        if not session.run(upsert, (item.feed, item.batch)):
            raise Conflict(f"batch {item.batch} of feed {item.feed} was committed before")


def _unsubscribe(session: Session, batch: Commit) -> None:
    if not batch.unsubscribe:
        return
    one = [(item.subscription, item.broker) for item in batch.unsubscribe if item.broker is not None]
    every = [(item.subscription,) for item in batch.unsubscribe if item.broker is None]
    session.each("DELETE FROM subscription_brokers WHERE subscription = ? AND broker = ?", one)
    session.each("DELETE FROM subscription_brokers WHERE subscription = ?", every)
    end_subscriptions(session, sorted({item.subscription for item in batch.unsubscribe}))


def end_subscriptions(session: Session, ids: Sequence[int]) -> None:
    """End those that no broker has. Their results are still there: whose they are is kept as long as these."""
    for start in range(0, len(ids), IDS):
        part = ids[start : start + IDS]
        ended = session.rows(
            "SELECT s.id, s.channel, s.args, p.last + 1 FROM subscriptions s JOIN progress p ON p.channel = s.channel "
            f"WHERE s.id IN ({marks(part)}) AND "
            "NOT EXISTS (SELECT 1 FROM subscription_brokers b WHERE b.subscription = s.id)",
            part,
        )
        rows = [(id, channel, digest(args), execution) for id, channel, args, execution in ended]
        session.each("DELETE FROM ended_subscriptions WHERE id = ?", [(id,) for id, *_ in ended])
        session.insert("ended_subscriptions", ("id", "channel", "digest", "execution"), rows)
        session.each("DELETE FROM subscriptions WHERE id = ?", [(id,) for id, *_ in ended])


def digest(args: str) -> bytes:
    """Of the canonical arguments of a subscription."""
    return hashlib.sha256(args.encode()).digest()[:16]


def _subscribe(session: Session, batch: Commit) -> None:
    if not batch.subscribe:
        return
    check_exist(session, Channel, [item.channel for item in batch.subscribe])
    check_exist(session, Broker, [item.broker for item in batch.subscribe])
    rows = [(item.subscription, item.channel, checked_text(item.args)) for item in batch.subscribe]
    session.insert("subscriptions", ("id", "channel", "args"), rows)
    pairs = [(item.subscription, item.broker) for item in batch.subscribe]
    session.insert("subscription_brokers", ("subscription", "broker"), pairs)


def kind_of(definition: Definition | type[Definition]) -> str:
    """``dataset``, ``feed``, …"""
    kind = definition if isinstance(definition, type) else type(definition)
    return kind.__name__.lower()


def key_of(definition: Definition) -> str:
    """The key of a definition: its lower-cased name, for a function ``name@arity``."""
    name = definition.name.lower()
    return f"{name}@{len(definition.parameters)}" if isinstance(definition, Function) else name


def checked_text(value: str) -> str:
    if "\0" in value:
        raise UserError("text with a NUL character cannot be stored")
    return value


def marks(values: Sequence[Any]) -> str:
    return ", ".join("?" * len(values))


def check_exist(session: Session, kind: type[Definition], ids: Iterable[int], name: str = "") -> None:
    required = sorted(set(ids))
    if not required:
        return
    sql = f"SELECT id FROM definitions WHERE kind = ? AND id IN ({marks(required)})"
    existing = {row[0] for row in session.rows(sql, (kind_of(kind), *required))}
    for id in required:
        if id not in existing:
            raise NotFound(kind_of(kind), name or str(id))
