"""Those who follow a stream of Server-Sent Events: each has a queue of its own, and who does not read is let go."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

from tocsin.http.responses import encoder

#: Events that may wait for one listener.
MOST = 2_000
#: Seconds after which something is said in any case, so that a connection that broke is noticed.
SILENCE = 15.0


class Listeners:
    def __init__(self) -> None:
        self._queues: set[asyncio.Queue[bytes | None]] = set()

    def __len__(self) -> int:
        return len(self._queues)

    def tell(self, event: str, data: Any) -> None:
        if not self._queues:
            return
        text = shown(event, data)
        for queue in list(self._queues):
            if queue.qsize() < MOST:
                queue.put_nowait(text)
            else:
                self._queues.discard(queue)
                queue.put_nowait(None)

    def close(self) -> None:
        for queue in self._queues:
            queue.put_nowait(None)

    async def listen(self, first: list[bytes], gone: Callable[[], None] = lambda: None) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._queues.add(queue)
        try:
            yield b": here\n\n" + b"".join(first)
            while True:
                try:
                    async with asyncio.timeout(SILENCE):
                        text = await queue.get()
                except TimeoutError:
                    text = b": still here\n\n"
                if text is None:
                    return
                yield text
        finally:
            self._queues.discard(queue)
            gone()


def shown(event: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (event.encode(), encoder.encode(data))
