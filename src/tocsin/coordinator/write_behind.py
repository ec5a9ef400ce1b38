"""Persists state changes in a background thread, so that a slow or unavailable database does not block requests that do
not need it.

Changes that could not be written stay queued and are written when the database is back. A request that must be durable
waits for it, and gets the error otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from tocsin.coordinator.store import Changes, Store
from tocsin.errors import Busy, LeaseHeld, StorageError, SystemFailure

log = logging.getLogger("tocsin.server")

#: Seconds to wait for the database.
TIMEOUT = 10.0
#: Most calls that wait for it, and most that run at the same time.
CALLS, AT_ONCE = 256, 8

T = TypeVar("T")


class WriteBehind:
    """``queued``: changes that are not written yet. ``lost`` is called when another coordinator has taken over."""

    def __init__(self, store: Store, lost: Callable[[LeaseHeld], None] = lambda error: None) -> None:
        self.store = store
        self._lost = lost
        self.queued = Changes()
        self._calls, self._room = 0, asyncio.Semaphore(AT_ONCE)
        self._writing: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._last_error = ""

    async def flush(self) -> None:
        """Return when all changes are written. Raises what prevents it; the changes stay queued."""
        await self._in_time(self._flush())

    async def _flush(self) -> None:
        if self._writing is not None:  # has begun without the latest changes
            await asyncio.wait([self._writing])
        if self.queued != Changes():
            if self._writing is None:
                self._writing = _started(self._write())
            await asyncio.shield(self._writing)

    async def check(self) -> None:
        """Raise what prevents writing. One write for all that ask at the same time."""
        if self._checking is None:
            self._checking = _started(self.read(lambda store: store.check()))
            self._checking.add_done_callback(self._checked)
        await asyncio.shield(self._checking)

    def _checked(self, task: asyncio.Task[None]) -> None:
        self._checking = None
        if not task.cancelled() and isinstance(error := task.exception(), LeaseHeld):
            self._lost(error)

    async def retry(self) -> None:
        """Called regularly; an error is logged once."""
        if self._writing is None:
            with suppress(SystemFailure):
                await self.flush()

    async def _write(self) -> None:
        changes, self.queued = self.queued, Changes()
        try:
            await self._in_thread(lambda: self.store.write(changes))
            if self._last_error:
                log.warning("the store is available again")
            self._last_error = ""
        except Exception as error:
            # Newer changes win. If the commit is uncertain, a note twice is better than none.
            newer, self.queued = self.queued, changes
            changes.brokers |= newer.brokers
            changes.choice = newer.choice or changes.choice
            changes.notes += newer.notes
            changes.samples += newer.samples
            if str(error) != self._last_error:
                log.error("cannot write to the store: %s", error)
                self._last_error = str(error)
            if isinstance(error, LeaseHeld):
                self._lost(error)
            raise
        finally:
            self._writing = None

    async def read(self, work: Callable[[Store], T]) -> T:
        """The result of this work on the store."""
        if self._calls >= CALLS:
            raise Busy("too many requests to the store", hint="try again later")
        self._calls += 1
        task = _started(self._read(work))
        task.add_done_callback(self._finished)
        return await self._in_time(asyncio.shield(task))

    async def _read(self, work: Callable[[Store], T]) -> T:
        async with self._room:
            return await self._in_thread(lambda: work(self.store))

    def _finished(self, task: asyncio.Task[T]) -> None:
        self._calls -= 1

    @staticmethod
    async def _in_time(answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(TIMEOUT):
                return await answer
        except TimeoutError as error:
            hint = "check the database server; queued changes are written when it is back"
            raise StorageError(f"the store does not answer within {TIMEOUT:g} s", hint=hint) from error

    @staticmethod
    async def _in_thread(work: Callable[[], T]) -> T:
        """In a thread that does not delay the end of the process."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()  # the thread goes on when its caller is cancelled

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="store", daemon=True).start()
        return await asyncio.wrap_future(done)

    async def close(self) -> None:
        """Write the remaining changes."""
        with suppress(SystemFailure):
            await self.flush()


def _started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """A task that goes on when its caller has gone, and whose error is then ignored."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
