"""Notifies brokers of executions: the asyncio shell around one ``Dispatch`` per broker, on a thread of its own."""

from __future__ import annotations

import asyncio
import logging
import random
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.cluster.notify import dispatch as on
from tocsin.cluster.notify.dispatch import Dispatch, make_batch
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.cluster.storage.catalog import Catalog
from tocsin.errors import TocsinError
from tocsin.http.client import Address, trust
from tocsin.http.pipeline import Answer, Pipeline, Stale
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import RENEWED
from tocsin.wire.backoff import backoff
from tocsin.wire.join import PART
from tocsin.wire.notify_headers import ANSWER, LATER, UNANSWERED

log = logging.getLogger(__name__)

T = TypeVar("T")

_LATER = b"%b: %b\r\n" % (ANSWER, LATER)
_THREADS = 128


@dataclass(eq=False)
class _Recipient:
    """One broker. Only the loop's thread changes it."""

    id: int
    dispatch: Dispatch
    name: str = ""
    pipe: Pipeline | None = None
    path: str = ""
    signed_at: float = float("-inf")  # when the connection carried a token last
    last_error: str | None = None  # of the catalog


class Notifier:
    """``message`` makes the bytes to post for an entry; None means that nothing has to be sent for it.

    ``token_for`` makes the token that a connection to the broker of this name carries; '' for none."""

    def __init__(
        self,
        catalog: Catalog,
        message: Callable[[Broker, OutboxEntry], bytes | None],
        *,
        gone_after: float,
        declare_gone: Callable[[Broker], None],
        token_for: Callable[[str], str] = lambda broker: "",
        tls: Tls | None = None,
        count: Callable[[str], None] = lambda outcome: None,
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
        self._token_for = token_for
        self._context = trust if tls is None else tls.client
        self._count = count
        self._monotonic = monotonic
        self._rng = rng or random.Random()
        self._backoff = (min_backoff, max_backoff)
        self._timeout = timeout
        self._recipients: dict[int, _Recipient] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._answered: list[tuple[_Recipient, Sequence[OutboxEntry]]] = []
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = threading.Event()

    # -- from any thread

    def start(self) -> None:
        """Starts with what the outbox holds."""
        if self._thread is not None:
            return
        self._up.clear()
        self._thread = threading.Thread(target=self._run, name="notifier", daemon=True)
        self._thread.start()
        self._up.wait()

    def stop(self) -> None:
        """Stops at once; what was not answered is sent after the next start."""
        thread, loop = self._thread, self._loop
        if thread is None or loop is None:
            return
        loop.call_soon_threadsafe(self._stopping.set)
        thread.join()
        self._thread = None

    def wake(self, broker_ids: Iterable[int], *, returned: bool = False) -> None:
        """The outbox has entries for these brokers. ``returned``: they registered, so try now."""
        ids = tuple(broker_ids)
        with suppress(RuntimeError):  # the loop has ended: the next start reads the outbox
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._wake, ids, returned)

    def status(self) -> dict[int, dict[str, Any]]:
        return {
            each.id: {
                "pending": each.dispatch.pending,
                "failures": each.dispatch.retry.failures,
                "last_error": each.last_error or each.dispatch.last_error,
            }
            for each in list(self._recipients.values())
        }

    # -- the loop's thread

    def _run(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        self._deletable = asyncio.Event()
        # Many threads, made on demand: a slow message for one broker does not delay the others.
        self._pool = ThreadPoolExecutor(_THREADS, "notifier")
        self._start(self._delete())
        self._start(self._resume())
        self._up.set()
        await self._stopping.wait()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._recipients.values():
            self._close(each)
        self._loop = None
        self._recipients.clear()
        self._answered.clear()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _resume(self) -> None:
        brokers = await self._insist(lambda: list(self._catalog.all(Broker)))
        self._wake((broker.id for broker in brokers if broker.state == "up"), False)

    def _wake(self, ids: Iterable[int], returned: bool) -> None:
        if self._stopping.is_set():
            return
        for id in ids:
            recipient = self._recipients.get(id)
            if recipient is None:
                retry = RetryPolicy(self._gone_after, self._rng, *self._backoff)
                recipient = self._recipients[id] = _Recipient(id, Dispatch(retry))
            self._handle(recipient, on.Wake(returned))

    def _handle(self, to: _Recipient, event: on.Event) -> None:
        for it in to.dispatch.handle(event, self._monotonic()):
            match it:
                case on.Post():
                    assert to.pipe is not None
                    to.pipe.post(to.path, it.body, self._signature(to) + (_LATER if it.defer else b""))
                case on.Delete():
                    self._answered.append((to, it.entries))
                    self._deletable.set()
                case on.ReadOutbox():
                    self._start(self._call(to, partial(self._read, to.id, it)))
                case on.MakeBatch():
                    self._start(self._call(to, partial(make_batch, it.entries, partial(self._message, it.broker))))
                case on.Connect():
                    self._start(self._connect(to, it.url))
                case on.Close():
                    self._close(to)
                case on.Pause():
                    assert self._loop is not None
                    self._loop.call_later(it.seconds, self._pause_ended, to, it.id)
                case on.GiveUp():
                    self._start(self._call(to, partial(self._give_up, it.broker)))
                case on.Report():
                    self._report(to, it)

    def _signature(self, to: _Recipient) -> bytes:
        """The header with a token: for the first request on a connection, and before the broker stops trusting it."""
        if self._monotonic() - to.signed_at < RENEWED:
            return b""
        to.signed_at = self._monotonic()
        token = self._token_for(to.name)
        return f"{PART}: {token}\r\n".encode() if token else b""

    def _report(self, to: _Recipient, it: on.Report) -> None:
        self._count(it.outcome)
        if it.outcome == "gone":
            log.warning("broker %s is declared gone: %s", to.name, it.reason)
        elif it.outcome == "failed" and to.dispatch.retry.failures == 1:
            log.warning("broker %s does not answer: %s", to.name, it.reason)

    def _pause_ended(self, to: _Recipient, id: int) -> None:
        if not self._stopping.is_set():
            self._handle(to, on.PauseEnded(id))

    # -- the connection

    async def _connect(self, to: _Recipient, url: str) -> None:
        try:
            parts = urlsplit(url)
            address = Address(f"{parts.scheme}://{parts.netloc}", self._context)
            to.path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            pipe = Pipeline(address, partial(self._on_answer, to), partial(self._on_end, to), self._timeout)
            to.pipe = pipe
            to.signed_at = float("-inf")
            await pipe.open()
        except Exception as error:  # an address can be wrong in ways that no library foresees
            self._on_end(to, error)
        else:
            if to.pipe is pipe:  # it may have ended already
                self._handle(to, on.Connected())

    def _close(self, to: _Recipient) -> None:
        if to.pipe is not None:
            to.pipe.close()
            to.pipe = None

    def _on_answer(self, to: _Recipient, answer: Answer) -> None:
        allowed = answer.fields.get(UNANSWERED, b"")
        self._handle(to, on.Answered(answer.status, int(allowed) if allowed.isdigit() else 0))

    def _on_end(self, to: _Recipient, error: Exception) -> None:
        self._close(to)
        reason = f"{type(error).__name__}: {error}".rstrip(": ")
        self._handle(to, on.Disconnected(reason, stale=isinstance(error, Stale)))

    # -- the catalog, in threads

    def _read(self, id: int, it: on.ReadOutbox) -> on.OutboxRead:
        entries = self._catalog.outbox(id, it.limit, it.known)
        brokers = self._catalog.all(Broker) if entries else ()
        return on.OutboxRead(entries, next((broker for broker in brokers if broker.id == id), None))

    def _give_up(self, broker: Broker) -> on.GaveUp:
        self._declare_gone(broker)
        self._catalog.delete_outbox(broker.id)
        return on.GaveUp()

    async def _call(self, to: _Recipient, call: Callable[[], on.Event]) -> None:
        event = await self._insist(call, to)
        if isinstance(event, on.OutboxRead) and event.broker is not None:
            to.name = event.broker.name
        self._handle(to, event)

    async def _insist(self, call: Callable[[], T], to: _Recipient | None = None) -> T:
        """Runs in a thread, again and again while it raises anything: that is not the broker's fault."""
        assert self._loop is not None
        failures = 0
        while True:
            try:
                found = await self._loop.run_in_executor(self._pool, call)
            except Exception as error:
                failures += 1
                expected = isinstance(error, (TocsinError, OSError))
                log.warning("notifications have to wait: %s", error, exc_info=not expected)
                if to is not None:
                    to.last_error = str(error)
                await asyncio.sleep(backoff(failures, *self._backoff, self._rng))
            else:
                if to is not None:
                    to.last_error = None
                return found

    async def _delete(self) -> None:
        """One transaction for everything that brokers answered meanwhile."""
        while True:
            await self._deletable.wait()
            self._deletable.clear()
            batch, self._answered = self._answered, []
            entries = [entry for _, each in batch for entry in each]
            await self._insist(partial(self._catalog.delete_notified, entries))
            for to, each in batch:
                self._handle(to, on.Deleted(each))
