"""One stream of Server-Sent Events with many readers: each has a queue, and one that does not read is dropped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from tocsin.http.responses import encoder

#: Events that may wait for one reader.
MAX_QUEUED = 2_000
#: Seconds after which a comment is sent, so that a broken connection is noticed.
KEEP_ALIVE = 15.0


class EventStream:
    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[bytes | None]] = set()

    def __len__(self) -> int:
        return len(self._queues)

    def publish(self, event: str, data: Any) -> None:
        if not self._queues:
            return
        text = encode(event, data)
        for queue in list(self._queues):
            if queue.qsize() < MAX_QUEUED:
                queue.put_nowait(text)
            else:
                self._queues.discard(queue)
                queue.put_nowait(None)

    def close(self) -> None:
        for queue in self._queues:
            queue.put_nowait(None)

    async def read(self, first: list[bytes], closed: Callable[[], None] = lambda: None) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield b": connected\n\n" + b"".join(first)
            while True:
                try:
                    async with asyncio.timeout(KEEP_ALIVE):
                        text = await queue.get()
                except TimeoutError:
                    text = b": keep alive\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._queues.discard(queue)
            closed()


def encode(event: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), encoder.encode(data))
