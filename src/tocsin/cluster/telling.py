"""Telling brokers of executions: each broker in order, retried with backoff, never waiting for another.

The catalog's outbox says what is left to tell, so a crash only repeats telling.
"""

from __future__ import annotations

import asyncio
import http.client
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from tocsin.cluster.model import Broker, Tell
from tocsin.cluster.patience import Patience
from tocsin.errors import TocsinError
from tocsin.web.calling import Caller
from tocsin.wire.backoff import backoff

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Answers that ask to be tried again; other 4xx are counted as failures just the same, but are said louder.
_ASKS_AGAIN = (408, 425, 429)
#: An answer's body is of no interest: read this much so that the connection can be used again.
_ANSWER_BYTES = 64 * 1024
_THREADS = 128
#: What is told in one request: at most so many executions, and none behind so many bytes.
AT_ONCE = 16
AT_ONCE_BYTES = 256 * 1024


class Outbox(Protocol):
    """What the teller needs of the catalog."""

    def tells(self, broker: int, limit: int = 100) -> list[Tell]: ...
    def told(self, tells: Sequence[Tell]) -> None: ...
    def forget_tells(self, broker: int) -> Any: ...
    def all(self, kind: type[Broker]) -> list[Broker]: ...


class _Enough(Exception):
    """The answer is longer than anything of interest."""


class _Gone(Exception):
    """The broker itself says that it will not come back (410)."""


@dataclass
class _Line:
    """What is known of one broker. Only the loop's thread changes it."""

    id: int
    patience: Patience
    task: asyncio.Task[None] | None = None
    again: bool = False
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    pending: int = 0
    last_error: str | None = None
    last_success: float | None = None


class Teller:
    """``message`` makes the bytes to post; None means that there is nothing to tell any more."""

    def __init__(
        self,
        catalog: Outbox,
        message: Callable[[Broker, Tell], bytes | None],
        *,
        gone_after: float,
        declare_gone: Callable[[Broker], None],
        count: Callable[[str], None] = lambda outcome: None,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        min_backoff: float = 0.1,
        max_backoff: float = 30.0,
        timeout: float = 10.0,
    ) -> None:
        self._catalog = catalog
        self._message = message
        self._gone_after = gone_after
        self._declare_gone = declare_gone
        self._count = count
        self._now = now
        self._monotonic = monotonic
        self._rng = rng or random.Random()
        self._min_backoff = min_backoff
        self._max_backoff = max_backoff
        self._timeout = timeout
        self._lines: dict[int, _Line] = {}
        self._told: list[tuple[Tell, asyncio.Future[None]]] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = threading.Event()

    # --- life; from any thread

    def start(self) -> None:
        """Starts telling what the outbox holds."""
        if self._thread is not None:
            return
        self._up.clear()
        self._thread = threading.Thread(target=self._run, name="teller", daemon=True)
        self._thread.start()
        self._up.wait()

    def stop(self) -> None:
        """Stops at once; what was not answered is told after the next start."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        loop.call_soon_threadsafe(self._ending.set)
        thread.join()
        self._thread = None

    def wake(self, broker_ids: Iterable[int], *, returned: bool = False) -> None:
        """There is something to tell these brokers. ``returned``: they are there again, so try now."""
        ids = tuple(broker_ids)
        with suppress(RuntimeError):  # the loop has ended: the next start reads the outbox
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._wake, ids, returned)

    def status(self) -> dict[int, dict[str, Any]]:
        return {
            line.id: {
                "pending": line.pending,
                "failures": line.patience.failures,
                "last_error": line.last_error,
                "last_success": line.last_success,
            }
            for line in list(self._lines.values())
        }

    # --- the loop's thread

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ending = asyncio.Event()
        self._settling = asyncio.Event()
        # Many threads, made on demand: a slow message for one broker leaves others to the rest.
        self._pool = ThreadPoolExecutor(_THREADS, "teller")
        self._callers: dict[str, Caller] = {}
        tasks = [asyncio.create_task(self._settle()), asyncio.create_task(self._resume())]
        self._up.set()
        await self._ending.wait()
        tasks += [line.task for line in self._lines.values() if line.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop = None
        self._lines.clear()
        self._told.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)
        for caller in self._callers.values():
            caller.close()

    async def _resume(self) -> None:
        brokers = await self._insist(lambda: list(self._catalog.all(Broker)))
        self._wake((broker.id for broker in brokers if broker.state == "up"), False)

    def _wake(self, ids: Iterable[int], returned: bool) -> None:
        if self._ending.is_set():
            return
        for id in ids:
            line = self._lines.get(id)
            if line is None:
                patience = Patience(self._gone_after, self._rng, self._min_backoff, self._max_backoff)
                line = self._lines[id] = _Line(id, patience)
            line.again = True
            if returned:
                line.patience.answered()
                line.cut.set()
            if line.task is None:
                line.task = asyncio.create_task(self._serve(line))

    async def _serve(self, line: _Line) -> None:
        """Tells one broker until nothing is left; ended and started again by ``wake``."""
        try:
            while line.again:
                line.again = False
                while await self._batch(line):
                    pass
        finally:
            line.task = None

    async def _batch(self, line: _Line) -> bool:
        """One look into the outbox. False: nothing is left to do here until somebody wakes the line."""
        tells = await self._insist(lambda: self._catalog.tells(line.id), line)
        line.pending = len(tells)
        if not tells:
            return False
        broker = await self._insist(lambda: self._find(line.id), line)
        if broker is None or broker.state == "gone":
            return False
        settled: list[asyncio.Future[None]] = []
        while tells and (count := await self._tell(broker, tells[:AT_ONCE], line)):
            settled += [self._answered(tell) for tell in tells[:count]]
            del tells[:count]
            line.pending -= count
        # The next look must not find what was told already.
        await asyncio.gather(*settled)
        return self._lines.get(line.id) is line

    async def _tell(self, broker: Broker, tells: Sequence[Tell], line: _Line) -> int:
        """How many of them are done with: answered, or nothing to tell. 0: failed, and the wait is over."""
        count, data = await self._insist(lambda: self._joined(broker, tells), line)
        if data is None:
            return count
        try:
            await self._post(broker.url, data)
        except _Gone:
            await self._give_up(broker, line, "it answered 410 Gone")
            return 0
        except Exception as error:  # an address can be wrong in ways that no library foresees
            await self._failed(broker, line, f"{type(error).__name__}: {error}".rstrip(": "))
            return 0
        self._count("ok")
        line.patience.answered()
        line.last_error = None
        line.last_success = self._now()
        return count

    def _joined(self, broker: Broker, tells: Sequence[Tell]) -> tuple[int, bytes | None]:
        """What to post of the first of them, and how many these are: what has gathered goes together."""
        found, size, count = [], 0, 0
        for tell in tells:
            data = self._message(broker, tell)
            count += 1
            if data is not None:
                found.append(data)
                size += len(data)
                if size > AT_ONCE_BYTES:
                    break
        if len(found) < 2:
            return count, found[0] if found else None
        return count, b"[" + b",".join(found) + b"]"

    async def _post(self, url: str, data: bytes) -> None:
        parts = urlsplit(url)
        origin = f"{parts.scheme}://{parts.netloc}"
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        caller = self._callers.get(origin)
        if caller is None:
            caller = self._callers[origin] = Caller(origin)
        seen = 0

        def take(piece: bytes) -> None:
            nonlocal seen
            seen += len(piece)
            if seen > _ANSWER_BYTES:
                raise _Enough

        # One limit over everything: an answer that drips must not hold the line.
        try:
            async with asyncio.timeout(self._timeout):
                status, _ = await caller.post(path, data, take, self._timeout)
        except _Enough:
            return
        if status == 410:
            raise _Gone
        if not 200 <= status < 300:
            refused = 400 <= status < 500 and status not in _ASKS_AGAIN
            raise OSError(f"{'refused' if refused else 'answered'} {status} {http.client.responses.get(status, '')}")

    async def _failed(self, broker: Broker, line: _Line, error: str) -> None:
        self._count("failed")
        line.last_error = error
        if line.patience.silent_since is None:
            log.warning("broker %s does not answer: %s", broker.name, error)
        delay = line.patience.failed(self._monotonic())
        if delay is None:
            await self._give_up(broker, line, error)
        else:
            await self._pause(line, delay)

    async def _give_up(self, broker: Broker, line: _Line, reason: str) -> None:
        self._count("gone")
        log.warning("broker %s is declared gone: %s", broker.name, reason)
        line.again = False
        await self._insist(lambda: self._declare_gone(broker), line)
        await self._insist(lambda: self._catalog.forget_tells(broker.id), line)
        self._lines.pop(line.id, None)
        if line.again:  # somebody woke it meanwhile: perhaps it has returned already
            line.again = False
            self._wake((line.id,), False)

    async def _pause(self, line: _Line | None, delay: float) -> None:
        """Cut short where the broker comes back meanwhile."""
        if line is None:
            await asyncio.sleep(delay)
            return
        line.cut.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(line.cut.wait(), delay)

    # --- the catalog, in threads

    def _find(self, id: int) -> Broker | None:
        return next((broker for broker in self._catalog.all(Broker) if broker.id == id), None)

    async def _insist(self, call: Callable[[], T], line: _Line | None = None) -> T:
        """Runs in a thread, again and again while it raises anything: that is not the broker's fault."""
        assert self._loop is not None
        failures = 0
        while True:
            try:
                return await self._loop.run_in_executor(self._pool, call)
            except Exception as error:
                failures += 1
                log.warning("telling has to wait: %s", error, exc_info=not isinstance(error, (TocsinError, OSError)))
                if line is not None:
                    line.last_error = str(error)
                await self._pause(line, backoff(failures, self._min_backoff, self._max_backoff, self._rng))

    def _answered(self, tell: Tell) -> asyncio.Future[None]:
        assert self._loop is not None
        future: asyncio.Future[None] = self._loop.create_future()
        self._told.append((tell, future))
        self._settling.set()
        return future

    async def _settle(self) -> None:
        """One transaction for all that was answered meanwhile, whichever broker."""
        while True:
            await self._settling.wait()
            self._settling.clear()
            batch, self._told = self._told, []
            if batch:
                tells = [tell for tell, _ in batch]
                await self._insist(lambda tells=tells: self._catalog.told(tells))  # type: ignore[misc]
                for _, future in batch:
                    if not future.done():
                        future.set_result(None)
