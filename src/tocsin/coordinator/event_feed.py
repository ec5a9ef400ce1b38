"""Streams events to readers as Server-Sent Events, and lets requests wait for a change.

Every note and sample has a number, and the newest of them are kept, so that a reader that was disconnected can resume.
The topology is not numbered: only the newest is of interest.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import takewhile
from typing import Any

import msgspec

#: Events of each kind that are kept.
KEPT = {"note": 10_000, "sample": 2_000}
#: Seconds for which changes are gathered before readers get them.
GATHER = 0.05
#: Seconds between two topologies to the same reader.
TOPOLOGY = 1.0
#: Seconds without events after which a reader gets a comment.
QUIET = 10.0


class EventFeed:
    """``version`` changes with the network, and with a restart."""

    def __init__(self) -> None:
        self.version = time.time_ns() // 1_000_000
        self.epoch = f"{self.version:x}"
        self.closed = False
        self._number = 0
        self._lost = 0  # number of the newest event that is not kept any more
        self._kept: dict[str, deque[tuple[int, bytes]]] = {kind: deque(maxlen=most) for kind, most in KEPT.items()}
        self._changed_event = asyncio.Event()

    def publish(self, kind: str, data: Any) -> None:
        self._number += 1
        kept = self._kept[kind]
        if len(kept) == kept.maxlen:
            self._lost = max(self._lost, kept[0][0])
        kept.append((self._number, message(kind, data, self.id)))
        self.changed()

    def changed(self) -> None:
        self.version += 1
        self._wake()

    def close(self) -> None:
        """End all streams: a shutdown does not wait for readers."""
        self.closed = True
        self._wake()

    def _wake(self) -> None:
        changed, self._changed_event = self._changed_event, asyncio.Event()
        changed.set()

    @property
    def id(self) -> str:
        return f"{self.epoch}-{self._number}"

    async def until_not(self, version: int, seconds: float) -> None:
        """Return when the version has changed, at the latest after this time."""
        if await self._wait_until(lambda: self.version != version, seconds):
            await asyncio.sleep(GATHER)

    async def _wait_until(self, condition: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not condition() and not self.closed:
                    await self._changed_event.wait()
        except TimeoutError:
            return False
        return True

    def after(self, number: int, kinds: Iterable[str] = KEPT) -> list[bytes]:
        found: list[tuple[int, bytes]] = []
        for kind in kinds:
            found += takewhile(lambda each: each[0] > number, reversed(self._kept[kind]))
        return [text for _, text in sorted(found)]

    def newest(self, most: int) -> list[bytes]:
        """At most this many of each kind."""
        found = [each for kept in self._kept.values() for each in list(kept)[-most:]] if most else []
        return [text for _, text in sorted(found)]

    def resumes(self, last: str) -> int | None:
        """The number to resume after; None if events since then are missing."""
        epoch, _, number = last.partition("-")
        known = epoch == self.epoch and number.isascii() and number.isdigit() and len(number) < 19
        return int(number) if known and self._lost <= int(number) <= self._number else None

    async def events(self, last: str, backlog: int, topology: Callable[[], bytes]) -> AsyncIterator[bytes]:
        """``last`` is the id of the reader's last event, '' for none."""
        start = self.resumes(last) if last else None
        number = self._number if start is None else start
        # A reader that cannot resume has to load everything again.
        head = [message("gap", {}, self.id)] if last and start is None else [message("hello", {}, self.id)]
        head += self.newest(backlog) if not last else self.after(number)
        number, version = self._number, self.version
        yield b"retry: 1000\n\n" + b"".join(head) + message("topology", msgspec.Raw(topology()))
        due = time.monotonic() + TOPOLOGY
        while not self.closed:
            dirty = self.version != version
            timeout = max(0.0, due - time.monotonic()) if dirty else QUIET
            if woken := await self._wait_until(self._later(number, None if dirty else version), timeout):
                await asyncio.sleep(GATHER)
            out, number = self.after(number), self._number
            if self.version != version and time.monotonic() >= due:
                version, due = self.version, time.monotonic() + TOPOLOGY
                out.append(message("topology", msgspec.Raw(topology())))
            if out or not (woken or dirty):
                yield b"".join(out) or b": nothing new\n\n"

    def _later(self, number: int, version: int | None) -> Callable[[], bool]:
        return lambda: self._number != number or version not in (None, self.version)


def message(kind: str, data: Any, id: str = "") -> bytes:
    head = f"id: {id}\n" if id else ""
    return f"{head}event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
