"""Telling brokers of executions: each broker in order, retried with backoff, never waiting for another.

The catalog's outbox says what is left to tell, and forgets a tell after its answer only, so a crash only repeats
telling. A broker that allows it is told more before it has answered (``Flight``).
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
from functools import partial
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.cluster.notify.send_window import SendWindow
from tocsin.errors import TocsinError
from tocsin.http.client import Address
from tocsin.http.pipeline import Answer, Pipeline, Stale
from tocsin.wire.backoff import backoff
from tocsin.wire.notify_headers import ANSWER, LATER, UNANSWERED

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Answers that ask to be tried again; other 4xx are counted as failures just the same, but are said louder.
_ASKS_AGAIN = (408, 425, 429)
_LATER = b"%b: %b\r\n" % (ANSWER, LATER)
_THREADS = 128
#: What is told in one request: at most so many executions, and none behind so many bytes.
AT_ONCE = 16
#: What one look into the outbox brings at most, beside what is on its way already.
LOOK = 100
AT_ONCE_BYTES = 256 * 1024


class Outbox(Protocol):
    """What the teller needs of the catalog."""

    def tells(self, broker: int, limit: int = 100) -> list[OutboxEntry]: ...
    def told(self, tells: Sequence[OutboxEntry]) -> None: ...
    def forget_tells(self, broker: int) -> Any: ...
    def all(self, kind: type[Broker]) -> list[Broker]: ...


class _Gone(Exception):
    """The broker itself says that it will not come back (410)."""


@dataclass
class _Line:
    """What is known of one broker. Only the loop's thread changes it."""

    id: int
    patience: RetryPolicy
    task: asyncio.Task[None] | None = None
    again: bool = False
    cut: asyncio.Event = field(default_factory=asyncio.Event)
    flight: SendWindow = field(default_factory=SendWindow)
    broker: Broker | None = None  # as it was found last
    url: str = ""
    path: str = ""
    pipe: Pipeline | None = None
    trouble: Exception | None = None  # what ended the pipe
    stirred: asyncio.Event = field(default_factory=asyncio.Event)
    pending: int = 0
    last_error: str | None = None
    last_success: float | None = None


class Notifier:
    """``message`` makes the bytes to post; None means that there is nothing to tell any more."""

    def __init__(
        self,
        catalog: Outbox,
        message: Callable[[Broker, OutboxEntry], bytes | None],
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
        self._told: list[tuple[_Line, Sequence[OutboxEntry]]] = []
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
        tasks = [asyncio.create_task(self._settle()), asyncio.create_task(self._resume())]
        self._up.set()
        await self._ending.wait()
        tasks += [line.task for line in self._lines.values() if line.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for line in self._lines.values():
            self._hang_up(line)
        self._loop = None
        self._lines.clear()
        self._told.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _resume(self) -> None:
        brokers = await self._insist(lambda: list(self._catalog.all(Broker)))
        self._wake((broker.id for broker in brokers if broker.state == "up"), False)

    def _wake(self, ids: Iterable[int], returned: bool) -> None:
        if self._ending.is_set():
            return
        for id in ids:
            line = self._lines.get(id)
            if line is None:
                patience = RetryPolicy(self._gone_after, self._rng, self._min_backoff, self._max_backoff)
                line = self._lines[id] = _Line(id, patience)
            line.again = True
            line.stirred.set()
            if returned:
                line.patience.answered()
                line.cut.set()
            if line.task is None:
                line.task = asyncio.create_task(self._serve(line))

    async def _serve(self, line: _Line) -> None:
        """Tells one broker until nothing is left and all is answered; ended and started again by ``wake``."""
        try:
            while self._lines.get(line.id) is line:
                if line.trouble is not None:
                    await self._failed(line, line.trouble)
                elif line.again and line.flight.room:
                    line.again = False
                    await self._look(line)
                elif line.again or line.flight:
                    await self._stir(line)
                else:
                    return
        finally:
            line.task = None

    async def _stir(self, line: _Line) -> None:
        """Until something was answered, settled or lost, or somebody wakes the line."""
        await line.stirred.wait()
        line.stirred.clear()

    async def _look(self, line: _Line) -> None:
        """One look into the outbox: tells what is new there, without waiting for answers."""
        aloft = set(line.flight.aloft)  # as it was before: what is settled meanwhile may be found all the same
        found = await self._insist(lambda: self._catalog.tells(line.id, LOOK + len(aloft)), line)
        tells = [tell for tell in found if tell not in aloft]
        line.pending = line.flight.unanswered + len(tells)
        if not tells:
            return
        broker = await self._insist(lambda: self._find(line.id), line)
        if broker is None or broker.state == "gone":
            return
        line.broker = broker
        if len(found) >= LOOK + len(aloft):
            line.again = True
        while tells:
            count, data = await self._insist(lambda: self._joined(broker, tells[:AT_ONCE]), line)
            while line.trouble is None and not line.flight.room:
                await self._stir(line)
            if data is not None:
                await self._ready(line, broker.url)
            if line.trouble is not None:
                return
            self._send(line, tells[:count], data)
            del tells[:count]

    async def _ready(self, line: _Line, url: str) -> None:
        """Sees to it that there is a connection to this address, or trouble."""
        if line.trouble is not None or (line.pipe is not None and line.url == url):
            return
        if line.pipe is not None:
            self._hang_up(line)  # it has moved; what it did not answer is told where it is now
            line.trouble = Stale("it has another address")
            return
        try:
            parts = urlsplit(url)
            address = Address(f"{parts.scheme}://{parts.netloc}")
            pipe = Pipeline(address, partial(self._heard, line), partial(self._lost, line), self._timeout)
            await pipe.open()
        except Exception as error:  # an address can be wrong in ways that no library foresees
            line.trouble = error
        else:
            line.pipe, line.url = pipe, url
            line.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def _send(self, line: _Line, tells: Sequence[OutboxEntry], data: bytes | None) -> None:
        if data is None:
            line.flight.aloft.update(tells)
            self._settled(line, tells)
            return
        assert line.pipe is not None
        fields = _LATER if line.flight.window > 1 else b""
        line.flight.sent(tells, len(data))
        line.pipe.post(line.path, data, fields)

    def _hang_up(self, line: _Line) -> None:
        if line.pipe is not None:
            line.pipe.close()
            line.pipe = None
        line.flight.lost()

    # --- from a broker

    def _heard(self, line: _Line, answer: Answer) -> None:
        status = answer.status
        if not 200 <= status < 300:
            refused = 400 <= status < 500 and status not in _ASKS_AGAIN
            reason = f"{'refused' if refused else 'answered'} {status} {http.client.responses.get(status, '')}"
            self._lost(line, _Gone() if status == 410 else OSError(reason))
            return
        allowed = answer.fields.get(UNANSWERED, b"")
        if allowed.isdigit():
            line.flight.allow(int(allowed))
        tells = line.flight.answered()
        self._count("ok")
        line.patience.answered()
        line.last_error = None
        line.last_success = self._now()
        line.pending -= len(tells)
        self._settled(line, tells)

    def _lost(self, line: _Line, error: Exception) -> None:
        """Nothing was on its way: the other side ended what was idle."""
        if line.flight:
            line.trouble = error
        self._hang_up(line)
        line.stirred.set()

    def _joined(self, broker: Broker, tells: Sequence[OutboxEntry]) -> tuple[int, bytes | None]:
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

    async def _failed(self, line: _Line, trouble: Exception) -> None:
        """Waits as long as the trouble asks for; what was not answered is looked for in the outbox again."""
        line.trouble, line.again, broker = None, True, line.broker
        assert broker is not None
        if isinstance(trouble, Stale):  # it did answer on this connection, and one that is new will show how it is
            return
        if isinstance(trouble, _Gone):
            await self._give_up(broker, line, "it answered 410 Gone")
            return
        error = f"{type(trouble).__name__}: {trouble}".rstrip(": ")
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

    def _settled(self, line: _Line, tells: Sequence[OutboxEntry]) -> None:
        """They are done with; the outbox is to forget them."""
        self._told.append((line, tells))
        self._settling.set()

    async def _settle(self) -> None:
        """One transaction for all that was answered meanwhile, whichever broker."""
        while True:
            await self._settling.wait()
            self._settling.clear()
            batch, self._told = self._told, []
            tells = [tell for _, each in batch for tell in each]
            await self._insist(lambda tells=tells: self._catalog.told(tells))  # type: ignore[misc]
            for line, each in batch:
                line.flight.settled(each)
                line.stirred.set()
