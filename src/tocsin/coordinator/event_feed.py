"""Those who watch: what happens as Server-Sent Events, and answers that wait until something has changed.

Every note and every look at the balance has a number, and the newest of them are kept, so that a watcher that was cut
off goes on where it was. The network as it is now is not numbered: only the newest is worth anything.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from itertools import takewhile
from typing import Any

import msgspec

#: What is kept of each kind.
KEPT = {"note": 10_000, "sample": 2_000}
#: Seconds for which changes are gathered before watchers are told.
GATHER = 0.05
#: Seconds between two pictures of the network to the same watcher.
PICTURE = 1.0
#: Seconds after which a watcher hears that nothing happened.
QUIET = 10.0


class EventFeed:
    """``version`` changes with the network and is another one after a restart."""

    def __init__(self) -> None:
        self.version = time.time_ns() // 1_000_000
        self.epoch = f"{self.version:x}"
        self.closed = False
        self._number = 0
        self._lost = 0  # number of the newest one that is not kept any more
        self._kept: dict[str, deque[tuple[int, bytes]]] = {kind: deque(maxlen=most) for kind, most in KEPT.items()}
        self._bell = asyncio.Event()

    def publish(self, kind: str, data: Any) -> None:
        self._number += 1
        kept = self._kept[kind]
        if len(kept) == kept.maxlen:
            self._lost = max(self._lost, kept[0][0])
        kept.append((self._number, message(kind, data, self.id)))
        self.changed()

    def changed(self) -> None:
        self.version += 1
        self._ring()

    def close(self) -> None:
        """Lets everybody go: whoever stops does not wait for those who watch."""
        self.closed = True
        self._ring()

    def _ring(self) -> None:
        bell, self._bell = self._bell, asyncio.Event()
        bell.set()

    @property
    def id(self) -> str:
        return f"{self.epoch}-{self._number}"

    async def until_not(self, version: int, seconds: float) -> None:
        """Returns when the version is another one, and at the latest after this time."""
        if await self._rung(lambda: self.version != version, seconds):
            await asyncio.sleep(GATHER)

    async def _rung(self, wanted: Callable[[], bool], seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while not wanted() and not self.closed:
                    await self._bell.wait()
        except TimeoutError:
            return False
        return True

    def after(self, number: int, kinds: Iterable[str] = KEPT) -> list[bytes]:
        found: list[tuple[int, bytes]] = []
        for kind in kinds:
            found += takewhile(lambda each: each[0] > number, reversed(self._kept[kind]))
        return [text for _, text in sorted(found)]

    def newest(self, most: int) -> list[bytes]:
        """So many of each kind."""
        found = [each for kept in self._kept.values() for each in list(kept)[-most:]] if most else []
        return [text for _, text in sorted(found)]

    def resumes(self, last: str) -> int | None:
        """The number to go on from; None if that is not possible any more."""
        epoch, _, number = last.partition("-")
        known = epoch == self.epoch and number.isascii() and number.isdigit() and len(number) < 19
        return int(number) if known and self._lost <= int(number) <= self._number else None

    async def events(self, last: str, backlog: int, picture: Callable[[], bytes]) -> AsyncIterator[bytes]:
        """``last`` is the id of the event that the watcher had last, '' if it had none."""
        start = self.resumes(last) if last else None
        number = self._number if start is None else start
        # To whoever has gone too far back: ask for everything anew.
        head = [message("gap", {}, self.id)] if last and start is None else [message("hello", {}, self.id)]
        head += self.newest(backlog) if not last else self.after(number)
        number, version = self._number, self.version
        yield b"retry: 1000\n\n" + b"".join(head) + message("topology", msgspec.Raw(picture()))
        due = time.monotonic() + PICTURE
        while not self.closed:
            dirty = self.version != version
            patience = max(0.0, due - time.monotonic()) if dirty else QUIET
            if heard := await self._rung(self._later(number, None if dirty else version), patience):
                await asyncio.sleep(GATHER)
            out, number = self.after(number), self._number
            if self.version != version and time.monotonic() >= due:
                version, due = self.version, time.monotonic() + PICTURE
                out.append(message("topology", msgspec.Raw(picture())))
            if out or not (heard or dirty):
                yield b"".join(out) or b": nothing new\n\n"

    def _later(self, number: int, version: int | None) -> Callable[[], bool]:
        return lambda: self._number != number or version not in (None, self.version)


def message(kind: str, data: Any, id: str = "") -> bytes:
    head = f"id: {id}\n" if id else ""
    return f"{head}event: {kind}\ndata: ".encode() + msgspec.json.encode(data) + b"\n\n"
