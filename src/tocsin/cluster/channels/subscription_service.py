"""Subscribe, unsubscribe and migrate subscriptions: arguments are checked, and changes are durable when confirmed."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any

from tocsin.cluster.channels.feed_channels import FeedChannels
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.model import Broker, Channel
from tocsin.cluster.storage.catalog import AddSubscription, RemoveSubscription
from tocsin.cluster.storage.committer import CommitRequest
from tocsin.cluster.storage.subscription_table import SubscriptionTable, size_of
from tocsin.errors import Conflict, LimitExceeded

Arguments = Sequence[Any] | Mapping[str, Any]


class SubscriptionService:
    def __init__(self, context: ClusterContext, feed_channels: FeedChannels) -> None:
        self.context = context
        self.feed_channels = feed_channels
        self._lock = threading.Lock()
        #: Ids of subscriptions that are being committed, by channel and arguments.
        self._reserved: dict[tuple[int, str], int] = {}
        self._reserved_bytes: Counter[int] = Counter()  # of their arguments, by channel
        self._unsubscribing: dict[int, Future[int]] = {}

    def subscribe(self, channel: str, broker: str, args: Sequence[Arguments]) -> Future[list[int]]:
        """The ids, in the order of ``args``. Every execution that starts after the future has ended includes them."""
        limit = self.context.config.limits.subscriptions_per_request
        if len(args) > limit:
            raise LimitExceeded(f"{len(args)} subscriptions in one request, at most {limit} are allowed", limit=limit)
        definition = self.feed_channels.get(channel)
        table = self.context.tables[definition.id]
        subscriber = self.context.definitions.get(Broker, broker)
        texts = [self._canonical(table, values) for values in args]
        ids, reserved = self._ids(definition, table, texts)

        def applied(_: int) -> list[int]:
            for id, text in zip(ids, texts, strict=True):
                table.add(id, text, subscriber.id)
            return ids

        added = [AddSubscription(id, definition.id, text, subscriber.id) for id, text in zip(ids, texts, strict=True)]
        future = self.context.committer.submit(CommitRequest(applied=applied, subscribe=added))
        future.add_done_callback(lambda _: self._release(definition.id, texts, reserved))
        return future

    def unsubscribe(self, channel: str, ids: Sequence[int], broker: str | None = None) -> Future[int]:
        """How many of them the broker (None: any broker) had."""
        _, table = self._channel(channel)
        subscriber = None if broker is None else self.context.definitions.get(Broker, broker).id
        for id in ids:
            if not table.brokers(id):
                raise table.missing(id)

        def applied(_: int) -> int:
            return sum(table.discard(id, subscriber) for id in ids)

        with self._lock:
            removed = [RemoveSubscription(id, subscriber) for id in ids]
            future = self.context.committer.submit(CommitRequest(applied=applied, unsubscribe=removed))
            self._unsubscribing.update(dict.fromkeys(ids, future))
        future.add_done_callback(lambda _: self._unsubscribed(ids, future))
        return future

    def migrate(self, channel: str, id: int, args: Arguments | None, source: str | None, target: str) -> Future[int]:
        """Migrate to another broker in one commit, so that every execution sees it on exactly one of the two. Changed
        ``args`` make a subscription with another id."""
        definition, table = self._channel(channel)
        subscription = table.get(id)
        to = self.context.definitions.get(Broker, target)
        if source is not None:
            origin = self.context.definitions.get(Broker, source).id
            if origin not in subscription.brokers:
                raise Conflict(f"broker {source!r} does not have subscription {id}", subscription=id)
        elif len(subscription.brokers) == 1:
            origin = next(iter(subscription.brokers))
        else:
            names = sorted(self.context.definitions.by_id(item).name for item in subscription.brokers)
            hint = f"name one of them: FROM {' or FROM '.join(names)}"
            raise Conflict(f"several brokers have subscription {id}", hint=hint, brokers=names)
        text = self._canonical(table, subscription.args if args is None else args)
        (new_id,), reserved = self._ids(definition, table, [text])
        unchanged = (new_id, to.id) == (id, origin)

        def applied(_: int) -> int:
            table.add(new_id, text, to.id)
            if not unchanged:
                table.discard(id, origin)
            return new_id

        request = CommitRequest(
            applied=applied,
            subscribe=[AddSubscription(new_id, definition.id, text, to.id)],
            unsubscribe=[] if unchanged else [RemoveSubscription(id, origin)],
        )
        future = self.context.committer.submit(request)
        future.add_done_callback(lambda _: self._release(definition.id, [text], reserved))
        return future

    def _channel(self, name: str) -> tuple[Channel, SubscriptionTable]:
        channel = self.context.definitions.get(Channel, name)
        return channel, self.context.tables[channel.id]

    def _canonical(self, table: SubscriptionTable, args: Arguments) -> str:
        text = table.canonical(args)
        limit, size = self.context.config.limits.argument_bytes, size_of(text)
        if size > limit:
            raise LimitExceeded(f"arguments of {size} bytes, at most {limit} are allowed", limit=limit)
        return text

    def _ids(self, channel: Channel, table: SubscriptionTable, texts: Sequence[str]) -> tuple[list[int], int]:
        """The ids, and the bytes of those that are new: they are reserved until ``_release``.

        Identical subscriptions share an id, also while they are being committed.

        An id whose last broker may be unsubscribing is not reused: this waits for the commit that decides it.
        """
        while True:
            with self._lock:
                ids = [table.find(text) or self._reserved.get((channel.id, text)) for text in texts]
                busy = {self._unsubscribing[id] for id in ids if id is not None and id in self._unsubscribing}
                if not busy:
                    reserved = self._reserve(channel, table, [t for t, id in zip(texts, ids, strict=True) if not id])
                    for place, text in enumerate(texts):
                        id = ids[place] or self._reserved.get((channel.id, text)) or self.context.catalog.new_id()
                        ids[place] = self._reserved[channel.id, text] = id
                    return [id for id in ids if id is not None], reserved
            wait(busy)

    def _reserve(self, channel: Channel, table: SubscriptionTable, texts: Sequence[str]) -> int:
        limit, size = self.context.config.limits.channel_argument_bytes, sum(map(size_of, texts))
        if texts and table.argument_bytes + self._reserved_bytes[channel.id] + size > limit:
            message = f"the arguments of all subscriptions of {channel.name} would have more than {limit} bytes"
            raise LimitExceeded(message, hint="unsubscribe from something first", limit=limit)
        self._reserved_bytes[channel.id] += size
        return size

    def _release(self, channel: int, texts: Sequence[str], reserved: int) -> None:
        with self._lock:
            self._reserved_bytes[channel] -= reserved
            if not self._reserved_bytes[channel]:
                del self._reserved_bytes[channel]
            for text in texts:
                self._reserved.pop((channel, text), None)

    def _unsubscribed(self, ids: Sequence[int], future: Future[int]) -> None:
        with self._lock:
            for id in ids:
                if self._unsubscribing.get(id) is future:
                    del self._unsubscribing[id]
