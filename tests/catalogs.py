"""Definitions and commits for tests of the catalog."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.cluster.model import Broker, Channel, Column, Dataset, Execution, Feed, Parameter
from tocsin.cluster.storage.catalog import AddSubscription, Append, Catalog, Commit

Open = Callable[[], Catalog]


def a_dataset(catalog: Catalog, name: str = "Reports") -> Dataset:
    dataset = Dataset(catalog.new_id(), name, (Column("id", "bigint", False), Column("at", "timestamp")), ("id",))
    catalog.add(dataset)
    return dataset


def a_channel(catalog: Catalog, name: str = "Near", positions: dict[int, int] | None = None) -> Channel:
    parameters = (Parameter("kind"), Parameter("limit", "int"))
    channel = Channel(catalog.new_id(), name, "continuous", parameters, "select 1", created=1.5)
    catalog.add_channel(channel, positions or {})
    return channel


def a_broker(catalog: Catalog, name: str = "b1") -> Broker:
    broker = Broker(catalog.new_id(), name, "http://localhost:1")
    catalog.add(broker)
    return broker


def a_feed(catalog: Catalog, name: str = "posts") -> Feed:
    feed = Feed(catalog.new_id(), name, {"type": "http"})
    catalog.add(feed)
    return feed


def append(catalog: Catalog, dataset: Dataset, *paths: str) -> list[int]:
    return catalog.commit(Commit(appends=[Append(dataset.id, path, 10, 100) for path in paths]))


def execution(channel: Channel, number: int, time: float = 1.0, path: str | None = None) -> Execution:
    return Execution(channel.id, number, time, time + 0.25, 3, 2, 99, path)


def subscriptions_of(channel: Channel, broker: Broker, *ids: int) -> list[AddSubscription]:
    return [AddSubscription(id, channel.id, f'["x",{id}]', broker.id) for id in ids]
