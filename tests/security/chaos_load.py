"""The load of the chaos test: publishers, anonymous subscribers, users and hostile clients, over WebSocket and HTTP."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from itertools import count
from typing import Any

import httpx
from chaos_network import ChaosNetwork
from websockets.asyncio.client import connect as open_websocket
from websockets.exceptions import WebSocketException
from websockets.typing import Subprotocol

from tocsin.client import Gap, connect
from tocsin.wire import SUBPROTOCOL

KINDS = ("fire", "flood", "storm")
PASSWORD = "correct horse battery"


class Load:
    """``published`` has what the data cluster acknowledged, by kind; ``received`` what each subscriber got."""

    def __init__(self, network: ChaosNetwork, rng: random.Random) -> None:
        self.network, self.rng = network, rng
        self.published: dict[str, list[int]] = {kind: [] for kind in KINDS}
        self.received: dict[str, list[int]] = {}
        self.kinds: dict[str, str] = {}
        self.gaps: dict[str, int] = {}
        self.ready = asyncio.Semaphore(0)
        self.stopped = asyncio.Event()

    async def publish(self) -> None:
        """A record every quarter of a second; each is sent again, with its idempotency key, until it is answered."""
        async with httpx.AsyncClient(base_url=self.network.cluster.url, timeout=30, trust_env=False) as http:
            for n in count(1):
                if self.stopped.is_set():
                    return
                kind = KINDS[n % len(KINDS)]
                while True:
                    with suppress(httpx.HTTPError):
                        headers = {"idempotency-key": f"record-{n}"}
                        answer = await http.post("/feeds/ReportFeed", json={"n": n, "kind": kind}, headers=headers)
                        if answer.status_code == 200:
                            assert answer.json()["accepted"] == 1, answer.text
                            break
                        assert answer.status_code in (408, 429, 503, 507), f"{answer.status_code}: {answer.text}"
                    await asyncio.sleep(0.2)
                self.published[kind].append(n)
                await asyncio.sleep(0.25)

    async def publish_to_victims(self) -> None:
        """To the dataset whose segments are damaged: only that all else goes on matters."""
        async with httpx.AsyncClient(base_url=self.network.cluster.url, timeout=30, trust_env=False) as http:
            for n in count(1):
                with suppress(httpx.HTTPError):
                    await http.post("/feeds/VictimFeed", json={"n": n})
                await asyncio.sleep(2)

    def _joins(self, name: str, kind: str) -> list[int]:
        self.kinds[name], self.gaps[name] = kind, 0
        return self.received.setdefault(name, [])

    async def subscribe(self, name: str, kind: str, channel: str = "OfKind", **who: Any) -> None:
        into = self._joins(name, kind)
        async with connect(coordinator=self.network.coordinator.url, wait_for_broker=True, **who) as client:
            subscription = client.subscribe(channel, kind=kind)
            await subscription.confirmed()
            self.ready.release()
            while True:
                event = await subscription.event()
                if event is None:
                    return
                if isinstance(event, Gap):
                    self.gaps[name] += 1
                else:
                    into.extend(row["n"] for row in event)

    async def stream(self, name: str, kind: str) -> None:
        """Server-Sent Events without a token, from any broker; it resumes as browsers do."""
        into = self._joins(name, kind)
        where, last = 0, ""
        while True:
            url = self.network.brokers[where % 3].url
            headers = {"last-event-id": last} if last else {}
            options: Any = {"params": {"channel": "OfKind", "kind": kind}, "headers": headers}
            try:
                # A comment comes every 15 s.
                async with (
                    httpx.AsyncClient(base_url=url, timeout=25, trust_env=False) as http,
                    http.stream("GET", "/events", **options) as answer,
                ):
                    answer.raise_for_status()
                    event = id = ""
                    async for line in answer.aiter_lines():
                        field, _, value = line.partition(": ")
                        if field == "id":
                            id = value
                        elif field == "event":
                            event = value
                        elif field == "data" and event == "notify":
                            into.extend(row["n"] for row in json.loads(value)["results"])
                        elif not line and id:
                            self.gaps[name] += event == "gap"
                            if not last:
                                self.ready.release()  # from here on it can resume
                            last, event = id, ""
            except httpx.HTTPError:
                pass
            where += 1
            await asyncio.sleep(0.5)

    async def poll(self, name: str, kind: str) -> None:
        """A REST user who knows all brokers, acknowledges what it got, and logs in again when it has to."""
        into = self._joins(name, kind)
        where, token, subscription = 0, "", 0
        while True:
            url = self.network.brokers[where % 3].url
            try:
                async with httpx.AsyncClient(base_url=url, timeout=20, trust_env=False) as http:
                    if not token:
                        who = {"user": name, "password": PASSWORD, "device": "rest"}
                        answer = (await http.post("/login", json=who)).raise_for_status()
                        token = answer.json()["token"]
                    http.headers["authorization"] = f"Bearer {token}"
                    if not subscription:
                        body = {"channel": "OfKind", "args": {"kind": kind}}
                        answer = (await http.post("/subscribe", json=body)).raise_for_status()
                        subscription = answer.json()["subscription"]
                        self.ready.release()
                    query = {"subscription": subscription, "wait": 5}
                    found = (await http.get("/getresults", params=query)).raise_for_status().json()
                    subscription = found["subscription"]
                    body = {"subscription": subscription, "execution": found["after"]}
                    if found["results"]:
                        (await http.post("/ackresults", json=body)).raise_for_status()
                        # What was acknowledged is not sent again; what was not, is: so it counts from here on.
                        into.extend(row["n"] for each in found["results"] for row in each["results"])
                    self.gaps[name] += len(found["gaps"])
            except httpx.HTTPStatusError as error:
                if error.response.status_code == 401:
                    token = ""
                where += 1
            except httpx.HTTPError:
                where += 1
            await asyncio.sleep(0.5)

    async def attack(self) -> None:
        """Garbage, slow bodies, large arguments, forged notifications, guesses, made-up tokens, at every part."""
        while not self.stopped.is_set():
            with suppress(OSError, TimeoutError, WebSocketException):
                async with asyncio.timeout(5):
                    if self.rng.random() < 0.5:
                        await self._attack_over_http(self.rng.choice(self.network.parts).port)
                    else:
                        await self._attack_over_websocket(self.rng.choice(self.network.brokers).port)
            await asyncio.sleep(0.3)

    async def _attack_over_websocket(self, port: int) -> None:
        """Large arguments, others' results, made-up tokens and tickets, and no message at all."""
        large = {"type": "subscribe", "channel": "OfKind", "args": ["A" * 900_000]}
        stolen = {"type": "subscribe", "channel": "OfKind", "args": ["hail"], "after": 0}
        hello: dict[str, Any] = {"type": "hello", "id": 1}
        frames: list[Any] = self.rng.choice(
            [
                [hello, *({**large, "id": n} for n in range(2, 12))],
                [hello, *({**stolen, "id": n, "subscription": n} for n in range(2, 40))],
                [hello | {"token": "e30.e30.e30"}],
                [hello | {"subscriber": "ann/default", "ticket": "made-up"}],
                [hello, {"type": "publish", "id": 2, "feed": "ReportFeed", "records": [{"n": "not a number"}]}],
                ["[" * 100_000, "\x00", "{}"],
                [],
            ]
        )
        address = f"ws://127.0.0.1:{port}/v1/ws"
        async with open_websocket(address, subprotocols=[Subprotocol(SUBPROTOCOL)], proxy=None) as socket:
            for each in frames:
                await socket.send(each if isinstance(each, str) else json.dumps(each))
            with suppress(TimeoutError):
                async with asyncio.timeout(2):
                    while True:
                        await socket.recv()

    async def _attack_over_http(self, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = self.rng.choice([b"[" * 5000, b'{"user":"ann","password":"guess me"}', b"\xff" * 2000, b"{}"])
        path = self.rng.choice(["/login", "/notify", "/subscribe", "/registerbroker", "/sql", "/feeds/ReportFeed"])
        head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
        length = len(body) + self.rng.choice([0, 0, 100_000])  # a body that never comes
        writer.write(f"{head}Content-Length: {length}\r\n\r\n".encode() + body)
        with suppress(TimeoutError):
            async with asyncio.timeout(2):
                await reader.read(2000)
        writer.close()
