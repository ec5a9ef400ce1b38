"""The channels of the kind ``feed``: content subscriptions to stored feeds.

A stored feed is the sequence of its dataset's commits. Such a channel exists from the first subscription on, until its
feed is disconnected or dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from tocsin.cluster.channels.feed_history import FeedHistory
from tocsin.cluster.context import ClusterContext
from tocsin.cluster.model import Broker, Channel, Dataset, Feed, Parameter
from tocsin.cluster.records import type_ddl
from tocsin.cluster.storage.dataset import DatasetStore
from tocsin.cluster.storage.feed_table import FeedTable
from tocsin.errors import Conflict, Damaged, NotFound, TocsinError
from tocsin.wire.feed_name import WHERE, channel_of, feed_of


class FeedChannels:
    def __init__(self, context: ClusterContext) -> None:
        self.context = context

    def get(self, name: str) -> Channel:
        """The channel of this name; that of a feed is made if there is none yet."""
        definitions, feed = self.context.definitions, feed_of(name)
        if feed is None:
            return definitions.get(Channel, name)
        found = definitions.find(Channel, name)
        return self._make(definitions.get(Feed, feed).name) if found is None else found

    def _make(self, name: str) -> Channel:
        context = self.context
        with context.definitions.lock:
            feed = context.definitions.get(Feed, name)
            found = context.definitions.find(Channel, channel_of(feed.name))
            if found is not None:
                return found
            if feed.dataset is None:
                raise Conflict(
                    f"feed {feed.name!r} is not connected to a dataset, so that it has no publications",
                    hint=f"CONNECT FEED {feed.name} TO DATASET …",
                )
            dataset = context.definitions.get(Dataset, feed.dataset)
            channel = Channel(
                context.catalog.new_id(),
                channel_of(feed.name),
                "feed",
                (Parameter(WHERE),),
                f"SELECT * FROM {type_ddl.quoted(dataset.name)}",
                push=True,
                created=context.clock.now(),
                columns=dataset.columns,
                dataset=dataset.id,
            )
            context.definitions.add(channel)
            context.open_channel(channel)
            context.grants.refresh()
            return channel

    def drop(self, feed: Feed) -> None:
        """Its content subscriptions end. Called with the lock of the definitions."""
        context = self.context
        channel = context.definitions.find(Channel, channel_of(feed.name))
        if channel is not None:
            assert channel.dataset is not None
            context.definitions.remove(channel)
            context.feed_tables.get(channel.dataset, {}).pop(channel.id, None)
            context.tables.pop(channel.id).close()
            context.metrics.forget("channel", channel.name)
            context.grants.refresh()

    def store(self, channel: Channel) -> DatasetStore:
        assert channel.dataset is not None
        return self.context.stores[channel.dataset]

    def message(self, broker: Broker, channel: Channel, commit: int) -> bytes:
        """The records of a commit; without them, the broker fetches what its subscribers get of it."""
        message: dict[str, Any] = {
            "broker": broker.name,
            "channel": channel.name,
            "epoch": channel.epoch,
            "execution": commit,
        }
        try:
            records = self.context.commit_records.of(self.store(channel), commit)
        except Damaged:
            records = None
        if records is None:
            return msgspec.json.encode(message)
        return msgspec.json.encode(message)[:-1] + b',"records":[' + b",".join(records) + b"]}"

    def lines(self, channel: Channel, subscription: int, after: int, limit: int) -> Iterator[bytes]:
        """What a subscription gets of the commits after this one."""
        table, store = self.context.tables[channel.id], self.store(channel)
        assert isinstance(table, FeedTable)
        condition = table.condition(subscription)
        try:
            yield from FeedHistory(store, self.context.runtime).lines(subscription, condition, after, limit)
        except Exception as error:
            self.context.blame([store], error)
            raise

    def warnings(self, channel: str, subscription: int) -> tuple[str, ...]:
        """About its condition."""
        table = self.context.tables[self.get(channel).id]
        assert isinstance(table, FeedTable)
        return table.condition(subscription).warnings

    def no_commit(self, channel: Channel, number: int) -> TocsinError:
        """Answers a pull: it is not made of results that are stored."""
        error = NotFound("execution", f"{channel.name}/{number}", hint="fetch the results of a subscription instead")
        error.fields.update(first=1, last=self.store(channel).head)
        return error
