"""Bounded thread pools for calls that block: one pool for each kind of work, so that no kind delays another."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from tocsin.errors import Busy

T = TypeVar("T")
END: Any = object()


class Pool:
    """``threads`` calls run at once and ``waiting`` more may queue; further requests get a Busy error."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self.name = name
        self.room = threads + waiting
        self.taken = 0
        self._executor = ThreadPoolExecutor(threads, f"tocsin-{name}")

    async def run(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.wrap_future(self.submit(call, *args))

    def submit(self, call: Callable[..., T], *args: Any) -> Future[T]:
        if self.taken >= self.room:
            raise Busy(f"too many {self.name} requests at once", hint="try again in a second")
        loop = asyncio.get_running_loop()
        future = self._executor.submit(call, *args)
        self.taken += 1
        future.add_done_callback(lambda _: self._leave(loop))
        return future

    def _leave(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            loop.call_soon_threadsafe(self._left)
        except RuntimeError:  # the loop is closed
            return

    def _left(self) -> None:
        self.taken -= 1

    async def iterate(self, source: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """The items of a blocking iterator. When this returns, the first item was read, or raised its error here."""
        iterator = await self.run(source)
        first = await self.run(next, iterator, END)
        return self._rest(iterator, first)

    async def _rest(self, iterator: Iterator[T], item: Any) -> AsyncIterator[T]:
        step: Future[Any] | None = None
        try:
            while item is not END:
                yield item
                step = self.submit(next, iterator, END)
                item = await asyncio.wrap_future(step)
        finally:
            # A generator cannot be closed while a thread runs it.
            close = getattr(iterator, "close", lambda: None)
            if step is None or step.done():
                close()
            else:
                step.add_done_callback(lambda _: close())

    def close(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)


class Arrivals:
    """Awaits futures that another thread ends, with one wake-up of the loop for all requests of a commit."""

    def __init__(self) -> None:
        self._ended: deque[tuple[asyncio.Future[Any], Future[Any]]] = deque()
        self._woken = False

    async def wait(self, future: Future[T]) -> T:
        if future.done():
            return future.result()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()
        future.add_done_callback(lambda ended: self._arrived(loop, waiter, ended))
        return await waiter

    def _arrived(self, loop: asyncio.AbstractEventLoop, waiter: asyncio.Future[Any], future: Future[Any]) -> None:
        self._ended.append((waiter, future))
        if self._woken:
            return
        self._woken = True
        try:
            loop.call_soon_threadsafe(self._pass_on)
        except RuntimeError:  # the loop is closed
            return

    def _pass_on(self) -> None:
        self._woken = False  # first, so that a future that ends from now on wakes the loop again
        while self._ended:
            waiter, future = self._ended.popleft()
            if waiter.done():
                continue
            error = future.exception()
            if error is None:
                waiter.set_result(future.result())
            else:
                waiter.set_exception(error)


class Threads:
    """``quick`` reads the catalog, ``work`` runs scripts and queries, ``pulls`` reads results, ``posts`` decodes posts
    that would block the event loop, ``subscriptions`` changes subscriptions, ``waits`` holds long polls."""

    def __init__(self) -> None:
        self.quick = Pool("quick", 8, 1_000)
        self.work = Pool("statement", 8, 64)
        self.pulls = Pool("pull", 8, 1_000)
        self.posts = Pool("large post", 4, 1_000)
        self.subscriptions = Pool("subscription", 4, 10_000)
        self.waits = Pool("waiting", 128, 0)
        self.arrivals = Arrivals()

    def close(self) -> None:
        for pool in (self.quick, self.work, self.pulls, self.posts, self.subscriptions, self.waits):
            pool.close()
