"""A network of real processes for tests: a data cluster without Spark, a coordinator, brokers and clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import httpx
from broker_lab import Broker
from coordinator_lab import Coordinator

from sparkless import Sparkless, sparkless
from tocsin.client import Client, connect

KINDS = [f"kind{n}" for n in range(6)]


def looped(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    @wraps(test)
    def run(tmp_path: Path) -> None:
        async def limited() -> None:
            async with asyncio.timeout(500):
                await test(tmp_path)

        asyncio.run(limited())

    return run


class Network:
    """A data cluster, a coordinator, brokers by name, and clients that record what they receive."""

    def __init__(self, folder: Path, cluster: Sparkless, cluster_url: str, **settings: Any) -> None:
        self.of_brokers: dict[str, Any] = settings.pop("of_brokers", {})
        self.folder, self.cluster, self.cluster_url = folder, cluster, cluster_url
        fast: dict[str, Any] = {"interval": 0.2, "balance_every": 0.5, "gone_after": 60.0, "strategy": "peal"}
        fast["limits"] = {"cool_down": 1.0}
        self.coordinator = Coordinator(folder / "coordinator", **fast | settings)
        self.brokers: dict[str, Broker] = {}
        self.clients: list[Client] = []
        self.got: list[dict[str, list[int]]] = []
        self.last = 0
        self.arrived = asyncio.Condition()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *names: str, draining: bool = False) -> None:
        for name in names:
            port = str(self.brokers[name].port) if name in self.brokers else "0"
            options = ("--coordinator", self.coordinator.url, "--port", port)
            self.brokers[name] = Broker(
                self.folder / name, self.cluster_url, name, *options, heartbeat=1.0, **self.of_brokers
            )
        for name in names:
            await asyncio.to_thread(self.brokers[name].event, "ready")
        state = "draining" if draining else "up"
        await self.until(lambda top: all(states(top).get(name) == state for name in names))

    async def join(self, count: int, **credentials: str) -> None:
        """Connects clients with three subscriptions each; those of a user are its devices."""
        first = len(self.clients)
        for number in range(first, first + count):
            device = {"device": f"device-{number}"} if credentials else {}
            client = connect(coordinator=self.coordinator.url, **credentials, **device)
            await client.open()
            self.clients.append(client)
            self.got.append({})
            for kind in (KINDS[(number + step) % len(KINDS)] for step in range(3)):
                subscription = client.subscribe("OfKind", kind=kind)
                await subscription.confirmed()
                self.got[number][kind] = []
                self._tasks.append(asyncio.create_task(self._follow(subscription, self.got[number][kind])))

    async def _follow(self, subscription: Any, into: list[int]) -> None:
        async for notification in subscription:
            into.extend(row["n"] for row in notification)
            async with self.arrived:
                self.arrived.notify_all()

    def execute(self, times: int = 1) -> None:
        """Runs executions whose result, for every kind, is a row with the number of the execution."""
        for _ in range(times):
            self.last += 1
            row = {"n": self.last, "text": "x" * 500}
            self.cluster.found("OfKind", *[([kind], [row]) for kind in KINDS])

    async def flow(self, until: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Runs two executions for each change of the topology, until it meets the condition."""
        top = await self.topology()
        while not until(top):
            await asyncio.to_thread(self.execute, 2)
            top = await self.topology(top["version"])
        return top

    async def until(self, condition: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        top = await self.topology()
        while not condition(top):
            top = await self.topology(top["version"])
        return top

    async def topology(self, but: int | None = None) -> dict[str, Any]:
        """``but``: waits for another version than this."""
        query = {} if but is None else {"wait": but}
        async with httpx.AsyncClient(timeout=60) as http:
            found: dict[str, Any] = (await http.get(self.coordinator.url + "/topology", params=query)).json()
            return found

    async def post(self, path: str) -> None:
        async with httpx.AsyncClient(timeout=60) as http:
            answer = await http.post(self.coordinator.url + path)
            assert answer.status_code == 200, answer.text

    async def know_alternatives(self) -> None:
        """Waits until every client knows another broker."""
        while not all(len(client._state.candidates.urls) > 1 for client in self.clients):
            await self.topology()

    async def check_all_received(self, since: int = 0) -> None:
        """Every subscription got each execution once, in order."""
        self.execute()
        expected = list(range(since + 1, self.last + 1))
        async with self.arrived:
            await self.arrived.wait_for(
                lambda: all(numbers[-1:] == expected[-1:] for each in self.got for numbers in each.values())
            )
        for each in self.got:
            for numbers in each.values():
                assert numbers == expected

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for client in self.clients:
            await client.close()
        for broker in self.brokers.values():
            if not broker.killed and broker.process.poll() is None:
                broker.kill()
        self.coordinator.kill()


def states(top: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in top["brokers"]}


def counts(top: dict[str, Any]) -> dict[str, int]:
    return {each["name"]: each["subscribers"] for each in top["brokers"] if each["state"] != "gone"}


@asynccontextmanager
async def network(folder: Path, *names: str, **settings: Any) -> AsyncIterator[Network]:
    with sparkless(folder / "data") as (cluster, url):
        found = Network(folder, cluster, url, **settings)
        try:
            await found.start(*names)
            yield found
        finally:
            await found.end()
