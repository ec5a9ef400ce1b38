"""Many subscribers in one process, of Tocsin through the SDK or of NATS by hand, that record what they receive.

    python -m benchmarks.subscribers tocsin COORDINATOR FIRST COUNT
    python -m benchmarks.subscribers nats PORT,PORT,… FIRST COUNT

Prints {"event": "ready"} once all are subscribed, then answers lines of JSON on standard input:

    {"report": [first, last], "timeout": SECONDS}     losses and delays of the messages with these numbers
    {"status": true}                                  the number of connections and of reconnections
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from benchmarks.fanout import processes, wire
from tocsin.client import Client, connect
from tocsin.client.notification import Gap

KINDS = [f"kind{n}" for n in range(20)]
#: Each message is for one part of the kinds, in turn: a short loss is noticed with few deliveries.
PARTS = 2
#: Subscriptions of each.
EACH = 3
#: Subscribers that connect at the same time.
AT_ONCE = 20
#: Seconds before all servers of NATS are tried again, as its clients have it.
RECONNECT = 2.0


def kinds_of(number: int) -> list[str]:
    return [KINDS[(number + step) % len(KINDS)] for step in range(EACH)]


def turn(n: int) -> list[str]:
    """The kinds that message number ``n`` is for."""
    return KINDS[n % PARTS :: PARTS]


class Diary:
    """What one subscription got since the last report."""

    def __init__(self, kind: str) -> None:
        self._turn = KINDS.index(kind) % PARTS
        self.got: list[tuple[int, float]] = []

    def add(self, row: dict[str, Any]) -> None:
        self.got.append((row["n"], (time.monotonic_ns() - row["at"]) / 1e6))

    def expected(self, first: int, last: int) -> list[int]:
        return [n for n in range(first, last + 1) if n % PARTS == self._turn]

    def has(self, last: int) -> bool:
        """Whether the newest of them has arrived; the others come before it."""
        newest = last - (last - self._turn) % PARTS
        return newest < 1 or any(n >= newest for n, _ in reversed(self.got))

    def take(self, first: int, last: int) -> tuple[int, int, list[float]]:
        """Lost, duplicated and the delays in milliseconds of these messages; later ones stay."""
        seen: set[int] = set()
        delays, again, later = [], 0, []
        for n, delay in self.got:
            if n > last:
                later.append((n, delay))
            elif n in seen or n < first:  # older messages were in the previous report
                again += 1
            else:
                seen.add(n)
                delays.append(delay)
        self.got = later
        return len(self.expected(first, last)) - len(seen), again, delays


class Crowd:
    """Subscribers of one kind."""

    def __init__(self) -> None:
        self.diaries: list[Diary] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def open(self, numbers: Sequence[int]) -> None:
        limit = asyncio.Semaphore(AT_ONCE)

        async def enter(number: int) -> None:
            async with limit:
                await self.enter(number)

        await asyncio.gather(*(enter(number) for number in numbers))

    async def enter(self, number: int) -> None:
        raise NotImplementedError

    def status(self) -> dict[str, Any]:
        raise NotImplementedError

    async def report(self, first: int, last: int, timeout: float) -> dict[str, Any]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not all(diary.has(last) for diary in self.diaries):
                    await asyncio.sleep(0.1)
        lost, duplicated, counts = 0, 0, Counter[float]()
        for diary in self.diaries:
            missing, again, delays = diary.take(first, last)
            lost, duplicated = lost + missing, duplicated + again
            counts.update(round(delay, 1) for delay in delays)
            await asyncio.sleep(0)  # counting must not delay the next ones
        return {"lost": lost, "duplicated": duplicated, "delays": list(counts.items())}

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)


class Tocsin(Crowd):
    def __init__(self, coordinator: str) -> None:
        super().__init__()
        self.coordinator = coordinator
        self.clients: list[Client] = []

    async def enter(self, number: int) -> None:
        client = connect(coordinator=self.coordinator)
        await client.open()
        self.clients.append(client)
        for kind in kinds_of(number):
            subscription = client.subscribe("OfKind", kind=kind)
            await subscription.confirmed()
            self.diaries.append(Diary(kind))
            self.tasks.append(asyncio.create_task(self._follow(subscription, self.diaries[-1])))

    async def _follow(self, subscription: Any, diary: Diary) -> None:
        async for notification in subscription:
            if not isinstance(notification, Gap):  # a gap shows as lost
                for row in notification:
                    diary.add(row)

    def status(self) -> dict[str, Any]:
        all_of = [client.status for client in self.clients]
        return {
            "connected": sum(each.state == "connected" for each in all_of),
            "migrations": sum(each.migrations for each in all_of),
            "reconnects": sum(each.connects - 1 - each.migrations for each in all_of),
            "dropped": sum(each.duplicates for each in all_of),
        }

    async def close(self) -> None:
        await super().close()
        await asyncio.gather(*(client.close() for client in self.clients), return_exceptions=True)


class Nats(Crowd):
    def __init__(self, ports: str) -> None:
        super().__init__()
        self.ports = [int(port) for port in ports.split(",")]
        self.connected = self.connects = self.entered = 0

    async def enter(self, number: int) -> None:
        diaries = {kind.encode(): Diary(kind) for kind in kinds_of(number)}
        self.diaries += diaries.values()
        self.entered += 1
        ready = asyncio.Event()
        self.tasks.append(asyncio.create_task(self._live(diaries, ready)))
        await ready.wait()

    async def _live(self, diaries: dict[bytes, Diary], ready: asyncio.Event) -> None:
        """The next server of a shuffled list at once, and a pause after all of them were tried."""
        pool, tried = random.sample(self.ports, len(self.ports)), 0
        while True:
            pool.append(pool.pop(0))
            tried = 0 if await self._stay(pool[-1], diaries, ready) else tried + 1
            if tried >= len(pool):
                await asyncio.sleep(RECONNECT + random.random() / 10)
                tried = 0

    async def _stay(self, port: int, diaries: dict[bytes, Diary], ready: asyncio.Event) -> bool:
        """Reads until the connection ends; whether there was one."""
        here, writer = False, None
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            await reader.readline()  # INFO
            writer.write(wire.nats_subscribe(list(diaries)))
            while line := await reader.readline():
                if line.startswith(b"MSG "):
                    words = line.split()
                    payload = await reader.readexactly(int(words[-1]) + 2)
                    diaries[words[1]].add(json.loads(payload))
                elif line.startswith(b"PING"):
                    writer.write(b"PONG\r\n")
                elif line.startswith(b"PONG") and not here:
                    here = True
                    self.connected += 1
                    self.connects += 1
                    ready.set()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.connected -= here
            if writer is not None:
                writer.close()
        return here

    def status(self) -> dict[str, Any]:
        return {"connected": self.connected, "migrations": 0, "reconnects": self.connects - self.entered, "dropped": 0}


async def main(kind: str, address: str, first: str, count: str) -> None:
    processes.allow_files()
    crowd = Tocsin(address) if kind == "tocsin" else Nats(address)
    await crowd.open(range(int(first), int(first) + int(count)))
    say({"event": "ready"})
    loop = asyncio.get_running_loop()
    try:
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            command = json.loads(line)
            say(await crowd.report(*command["report"], command["timeout"]) if "report" in command else crowd.status())
    finally:
        await crowd.close()


def say(answer: dict[str, Any]) -> None:
    data = json.dumps(answer).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
