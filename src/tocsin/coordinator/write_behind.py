"""Has written down what the state machine wants remembered, apart from the loop: a database that is slow or away holds
nobody up who needs nothing of it.

What could not be written stays, and is written when the database is back. Who has to know that it is remembered waits
for it, and gets the error otherwise.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tocsin.coordinator.core.events import BrokerRow, Choice, Note, Sample
from tocsin.coordinator.store import Changes, Store
from tocsin.errors import Busy, LeaseHeld, StorageError, SystemTrouble

log = logging.getLogger("tocsin.server")

#: Seconds that the database is waited for.
PATIENCE = 10.0
#: Notes that are kept while it is away.
NOTES = 10_000
#: Calls that wait for it, and those of them that it has to do with at the same time.
CALLS, AT_ONCE = 256, 8

T = TypeVar("T")


class WriteBehind:
    """``lost`` is called once another coordinator has taken over."""

    def __init__(self, store: Store, lost: Callable[[LeaseHeld], None] = lambda error: None) -> None:
        self.store = store
        self._lost = lost
        self._brokers: dict[str, BrokerRow | None] = {}
        self._choice: tuple[Choice | None, ...] = ()
        self._notes: deque[tuple[float, Note]] = deque(maxlen=NOTES)
        self._samples: deque[tuple[float, Sample]] = deque(maxlen=NOTES)
        self._calls, self._room = 0, asyncio.Semaphore(AT_ONCE)
        self._writing: asyncio.Task[None] | None = None
        self._trouble = ""

    # -- what is to be remembered

    def broker(self, name: str, row: BrokerRow | None) -> None:
        self._brokers[name] = row

    def choice(self, choice: Choice | None) -> None:
        self._choice = (choice,)

    def note(self, at: float, note: Note) -> None:
        self._notes.append((at, note))

    def sample(self, at: float, sample: Sample) -> None:
        self._samples.append((at, sample))

    # -- and when it is

    async def kept(self) -> None:
        """Returns when all that was given is remembered; raises what hinders it, and it is tried again later."""
        await self._patiently(self._kept())

    async def _kept(self) -> None:
        if self._writing is not None:  # has begun without what was given since
            await asyncio.wait([self._writing])
        if self._brokers or self._choice or self._notes or self._samples:
            if self._writing is None:
                self._writing = _started(self._write())
            await asyncio.shield(self._writing)

    async def try_again(self) -> None:
        """For the clock: troubles are told in the log, once."""
        if self._writing is None:
            with suppress(SystemTrouble):
                await self.kept()

    async def _write(self) -> None:
        changes = Changes(self._brokers, self._choice, list(self._notes), list(self._samples))
        self._brokers, self._choice = {}, ()
        self._notes.clear()
        self._samples.clear()
        try:
            await self._apart(lambda: self.store.write(changes))
            if self._trouble:
                log.warning("what happens is remembered again")
            self._trouble = ""
        except Exception as error:
            # What is newer counts. Where the commit is uncertain, a note is better there twice than not at all.
            self._brokers = changes.brokers | self._brokers
            self._choice = self._choice or changes.choice
            self._notes = deque([*changes.notes, *self._notes], NOTES)
            self._samples = deque([*changes.samples, *self._samples], NOTES)
            if str(error) != self._trouble:
                log.error("what happens cannot be remembered: %s", error)
                self._trouble = str(error)
            if isinstance(error, LeaseHeld):
                self._lost(error)
            raise
        finally:
            self._writing = None

    async def ask(self, work: Callable[[Store], T]) -> T:
        """What is remembered."""
        if self._calls >= CALLS:
            raise Busy("too many ask for what is remembered", hint="ask again later")
        self._calls += 1
        task = _started(self._ask(work))
        task.add_done_callback(self._answered)
        return await self._patiently(asyncio.shield(task))

    async def _ask(self, work: Callable[[Store], T]) -> T:
        async with self._room:
            return await self._apart(lambda: work(self.store))

    def _answered(self, task: asyncio.Task[T]) -> None:
        self._calls -= 1

    @staticmethod
    async def _patiently(answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(PATIENCE):
                return await answer
        except TimeoutError as error:
            hint = "check the server of the database; what was wanted is done when it is back"
            raise StorageError(f"the store does not answer within {PATIENCE:g} s", hint=hint) from error

    @staticmethod
    async def _apart(work: Callable[[], T]) -> T:
        """In a thread that nobody waits for at the end of the process."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            if done.done():
                return
            if error is not None:
                done.set_exception(error)
            else:
                done.set_result(result)  # type: ignore[arg-type]

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except BaseException as raised:
                error = raised
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=run, name="store", daemon=True).start()
        return await done

    async def close(self) -> None:
        """Writes what is left."""
        with suppress(SystemTrouble):
            await self.kept()


def _started(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Goes on when nobody waits for it any more, and is not missed then."""
    task = asyncio.create_task(work)
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    return task
