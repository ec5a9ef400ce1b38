from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_harness import ManualCluster

from tocsin.cluster.model import Broker, Channel, Parameter
from tocsin.config import ClusterConfig, Limits
from tocsin.errors import Conflict, LimitExceeded, NotFound


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[ManualCluster]:
    """Subscribing needs no Spark."""
    made = ManualCluster(ClusterConfig(home=str(tmp_path), limits=Limits(subscriptions_per_request=1000)))
    names, catalog = made.context.definitions, made.context.catalog
    for name in ("a", "b"):
        names.add(Broker(catalog.new_id(), name, "http://127.0.0.1:9/"))
    channel = Channel(catalog.new_id(), "c", "continuous", (Parameter("k", "bigint"),), "SELECT k AS k")
    catalog.add_channel(channel, {})
    names.add(channel, stored=True)
    made.start(spark=False)
    yield made
    made.close()


def stored(cluster: ManualCluster) -> dict[int, list[str]]:
    """The subscriptions in the catalog, which must equal those in memory."""
    channel = cluster.context.definitions.get(Channel, "c")
    names = {broker.id: broker.name for broker in cluster.context.definitions.all(Broker)}
    stored = {
        number: sorted(names[broker] for broker in brokers)
        for number, _, brokers in cluster.context.catalog.subscriptions(channel.id)
    }
    table = cluster.context.tables[channel.id]
    assert {number: sorted(names[item] for item in table.brokers(number)) for number in table.ids().tolist()} == stored
    return stored


def test_one_request_adds_thousands_and_identical_ones_once(cluster: ManualCluster) -> None:
    ids = cluster.subscribe("c", "a", [[n % 700] for n in range(1000)]).result(120)
    assert len(set(ids)) == 700
    assert ids[0] == ids[700]
    assert len(stored(cluster)) == 700


def test_concurrent_changes_leave_memory_and_catalog_equal(cluster: ManualCluster) -> None:
    """Two brokers subscribe and unsubscribe at the same time: memory and catalog agree, and no subscription is lost."""
    failures: list[BaseException] = []

    def churn(broker: str) -> None:
        try:
            for turn in range(40):
                (number,) = cluster.subscribe("c", broker, [[turn % 3]]).result(120)
                cluster.unsubscribe("c", [number], broker).result(120)
            cluster.subscribe("c", broker, [[0]]).result(120)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=churn, args=(broker,)) for broker in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(stored(cluster).values()) == [["a", "b"]]


def test_a_migration_is_one_commit(cluster: ManualCluster) -> None:
    (number,) = cluster.subscribe("c", "a", [[1]]).result(120)
    assert cluster.migrate("c", number, None, None, "b").result(120) == number
    assert stored(cluster) == {number: ["b"]}
    other = cluster.migrate("c", number, [2], "b", "a").result(120)
    assert other != number
    assert stored(cluster) == {other: ["a"]}


def test_an_unknown_subscription_is_refused(cluster: ManualCluster) -> None:
    (number,) = cluster.subscribe("c", "a", [[1]]).result(120)
    with pytest.raises(NotFound):
        cluster.subscribe("nothing", "a", [[1]])
    with pytest.raises(NotFound):
        cluster.subscribe("c", "unknown", [[1]])
    with pytest.raises(NotFound):
        cluster.unsubscribe("c", [number + 1])
    with pytest.raises(Conflict):
        cluster.migrate("c", number, None, "b", "a")
    with pytest.raises(LimitExceeded):
        cluster.subscribe("c", "a", [[1]] * 1001)
    assert stored(cluster) == {number: ["a"]}
    assert cluster.unsubscribe("c", [number], "b").result(120) == 0
    assert stored(cluster) == {number: ["a"]}


def test_foreign_files_in_the_segment_path_are_not_deleted(tmp_path: Path) -> None:
    home = tmp_path / "segments"
    home.mkdir()
    (home / "precious.txt").write_text("not ours")
    made = ManualCluster(ClusterConfig(home=str(tmp_path)))
    made.start(spark=False)
    made.close()
    assert (home / "precious.txt").read_text() == "not ours"


def test_arguments_have_a_limited_size(tmp_path: Path) -> None:
    limits = Limits(argument_bytes=20, channel_argument_bytes=50)
    made = ManualCluster(ClusterConfig(home=str(tmp_path), limits=limits))
    catalog = made.context.catalog
    made.context.definitions.add(Broker(catalog.new_id(), "a", "http://127.0.0.1:9/"))
    channel = Channel(catalog.new_id(), "c", "continuous", (Parameter("k", "string"),), "SELECT k AS k")
    catalog.add_channel(channel, {})
    made.context.definitions.add(channel, stored=True)
    made.start(spark=False)
    try:
        with pytest.raises(LimitExceeded, match="at most 20") as caught:
            made.subscribe("c", "a", [["x"], ["é" * 9]])
        assert caught.value.fields["limit"] == 20
        ids = made.subscribe("c", "a", [[f"{n}" * 16] for n in range(2)]).result(120)
        with pytest.raises(LimitExceeded, match="more than 50 bytes") as caught:
            made.subscribe("c", "a", [["x" * 16]])
        assert caught.value.fields["limit"] == 50
        assert made.subscribe("c", "a", [["0" * 16]]).result(120) == ids[:1]
        with pytest.raises(LimitExceeded):
            made.migrate("c", ids[0], ["y" * 16], None, "a")
        made.unsubscribe("c", ids[:1]).result(120)
        made.subscribe("c", "a", [["x" * 16]]).result(120)
        table = made.context.tables[channel.id]
        assert table.argument_bytes == 40 and not made.subscription_service._reserved_bytes
    finally:
        made.close()
