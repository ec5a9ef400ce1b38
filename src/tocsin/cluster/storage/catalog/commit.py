"""The changes that one group commit makes to the catalog."""

from __future__ import annotations

from msgspec import Struct, field


class Append(Struct, frozen=True):
    """A written segment file that becomes the next ordinal of ``dataset``."""

    dataset: int
    path: str
    rows: int
    bytes: int


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
