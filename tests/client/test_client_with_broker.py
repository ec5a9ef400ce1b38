"""The client with real broker processes, on a data cluster without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from typing import Any

import httpx
import pytest

from brokers import Broker
from brokers import broker as broker_process
from sparkless import Sparkless, sparkless
from tocsin.client import Unauthorized, connect, sync
from tocsin.errors import NotFound

KINDS = ["fire", "flood", "storm"]
SETUP = """
CREATE ACTIVE DATASET Posts (id string NOT NULL, kind string NOT NULL);
CREATE FEED Reports; CONNECT FEED Reports TO DATASET Posts; START FEED Reports;
CREATE CONTINUOUS CHANNEL Alarms(kind string) { SELECT p.id FROM Posts p WHERE is_new(p) AND p.kind = kind };
"""


class Cluster:
    """Each post of records is an execution of Alarms."""

    def __init__(self, real: Sparkless, url: str) -> None:
        self.real, self.url = real, url
        real.execute(SETUP)
        real.posted = lambda feed, records: self.execute(records)

    def execute(self, records: list[dict[str, Any]]) -> None:
        kinds = {
            record["kind"]: [{"id": r["id"]} for r in records if r["kind"] == record["kind"]] for record in records
        }
        self.real.found("Alarms", *(([kind], rows) for kind, rows in kinds.items()))


def looped(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        async def limited() -> None:
            async with asyncio.timeout(300):
                await test(*args, **kwargs)

        asyncio.run(limited())

    return run


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with sparkless(tmp_path_factory.mktemp("cluster")) as (real, url):
        yield Cluster(real, url)


@pytest.fixture(scope="module")
def broker(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Shared by the tests that do not stop it."""
    with broker_process(tmp_path_factory.mktemp("broker"), cluster.url) as found:
        yield found


def report(number: int, kind: str = "fire") -> dict[str, Any]:
    return {"id": f"r{number}", "kind": kind}


def ids(*notifications: Any) -> list[str]:
    return [row["id"] for notification in notifications for row in notification]


@looped
async def test_published_records_return_as_notifications(broker):
    async with connect(broker.url) as client, client.subscribe("Alarms", kind="fire") as found:
        receipt = await client.publish("Reports", [report(1), {"kind": "fire"}, report(2, "flood"), report(3)])
        assert receipt.accepted == 3 and [each.index for each in receipt.refused] == [1]
        notification = await found.get()
        assert (notification.channel, ids(notification)) == ("Alarms", ["r1", "r3"])
        assert (found.lag, found.gaps, client.status.broker) == (0, 0, "b")


def test_published_records_return_as_notifications_without_async(broker):
    with sync.connect(broker.url) as client, client.subscribe("Alarms", ["fire"]) as found:
        for number in range(5):
            client.publish("Reports", report(number))
        assert [ids(found.get(timeout=120)) for _ in range(5)] == [[f"r{number}"] for number in range(5)]


@looped
async def test_named_and_positional_arguments_are_the_same_subscription(broker):
    async with connect(broker.url) as client:
        first, second = client.subscribe("Alarms", ["fire"]), client.subscribe("alarms", kind="fire")
        await asyncio.gather(first.confirmed(), second.confirmed())
        await client.publish("Reports", report(1))
        assert ids(await first.get()) == ids(await second.get()) == ["r1"]
        assert first.id == second.id
        await first.unsubscribe()
        await client.publish("Reports", report(2))
        assert ids(await second.get()) == ["r2"]


@looped
async def test_an_unknown_channel_or_feed_is_not_found(broker):
    async with connect(broker.url) as client:
        with pytest.raises(NotFound):
            await client.subscribe("Nowhere").confirmed()
        with pytest.raises(NotFound):
            await client.publish("Nowhere", {})


@looped
async def test_a_restarted_program_receives_what_it_missed(broker):
    async with connect(broker.url) as client, client.subscribe("Alarms", kind="fire") as found:
        await client.publish("Reports", report(1))
        first = await found.get()
        id = found.id
    async with connect(broker.url) as client:
        for each in (2, 3):
            await client.publish("Reports", report(each))
        found = client.subscribe("Alarms", kind="fire", after=first.execution, subscription=id)
        assert ids(await found.get(), await found.get()) == ["r2", "r3"]


@looped
async def test_a_user_resumes_durable_subscriptions(broker):
    credentials = {"user": "ann", "password": "a long secret"}
    httpx.post(f"{broker.url}/registeruser", json=credentials, trust_env=False, timeout=60).raise_for_status()
    async with connect(broker.url, **credentials, device="phone") as client:
        found = client.subscribe("Alarms", kind="fire")
        await found.confirmed()
        await client.publish("Reports", report(1))
        await client.publish("Reports", report(2))
        first = await found.get()
        assert ids(first) == ["r1"]
    async with connect(broker.url, **credentials, device="phone") as client:
        (held,) = client.durable_subscriptions
        assert (held.channel, held.after) == ("Alarms", first.execution)
        found = client.subscribe(held.channel, held.args, after=held.after, subscription=held.subscription)
        assert ids(await found.get()) == ["r2"]
    with pytest.raises(Unauthorized):
        await connect(broker.url, user="ann", password="another one").open()


@looped
async def test_a_slow_reader_receives_everything(cluster, tmp_path):
    with broker_process(tmp_path / "slow", cluster.url, "slow", buffer_bytes=4096) as broker:
        async with connect(broker.url) as slow, connect(broker.url) as quick:
            found = slow.subscribe("Alarms", kind="fire", max_pending=2)
            await found.confirmed()
            for number in range(200):
                await quick.publish("Reports", {"id": f"{number:0100000d}", "kind": "fire"})
            async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
                while "tocsin_broker_subscribers_lagging 1.0" not in (await http.get(f"{broker.url}/metrics")).text:
                    pass  # each request takes some time
            got = [int(ids(await found.get())[0][-3:]) for _ in range(200)]
            assert got == list(range(200)) and found.gaps == 0


@looped
async def test_clients_of_killed_brokers_lose_and_repeat_nothing(cluster, tmp_path):
    """Two brokers are killed in turns while reports flow; five clients each hold three subscriptions."""
    with (
        broker_process(tmp_path / "one", cluster.url, "one") as first,
        broker_process(tmp_path / "two", cluster.url, "two") as second,
    ):
        clients = [connect(urls) for urls in ([first.url, second.url], [second.url, first.url]) * 2]
        clients.append(connect(first.url))
        for client in clients:
            await client.open()
        found = [(kind, client.subscribe("Alarms", kind=kind)) for client in clients for kind in KINDS]
        await asyncio.gather(*(subscription.confirmed() for _, subscription in found))
        for number in range(300):
            await asyncio.to_thread(cluster.execute, [report(number, KINDS[number % 3])])
            if number in (50, 150, 250):
                broker = first if number != 150 else second
                await asyncio.to_thread(broker.kill)
                await asyncio.to_thread(broker.start)
        for kind, subscription in found:
            expected = [f"r{number}" for number in range(300) if KINDS[number % 3] == kind]
            got = ids(*[await subscription.get() for _ in range(100)])
            assert got == expected and subscription.gaps == 0
        assert sum(client.status.connects for client in clients) > len(clients)
        for client in clients:
            await client.close()
