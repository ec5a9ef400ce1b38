"""Notification dispatch to one broker: a pure machine that asyncio drives in production and the simulator in its runs.

``handle(event, now)`` returns instructions. ``ReadOutbox``, ``MakeBatch``, ``Connect``, ``Pause`` and ``GiveUp`` are
answered by one event each, and only one of them is pending at a time; answers of the broker and deletions come between.
"""

from __future__ import annotations

import http
from collections.abc import Callable, Sequence

from msgspec import Struct

from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.cluster.notify.send_window import SendWindow

#: Executions in one request at most; none follows this many bytes.
BATCH = 16
BATCH_BYTES = 256 * 1024
#: Entries that one read of the outbox brings at most.
READ = 100
#: Client errors that ask for another try; the others are reported as a refusal.
_TRY_AGAIN = (408, 425, 429)


# -- events


class Wake(Struct, frozen=True):
    """The outbox has new entries. ``returned``: the broker registered, so that no pause is needed any more."""

    returned: bool = False


class OutboxRead(Struct, frozen=True):
    """``broker`` as it is registered now; None where there is no such broker. As many entries as were asked for: there
    may be more."""

    entries: Sequence[OutboxEntry]
    broker: Broker | None


class BatchMade(Struct, frozen=True):
    """``body`` holds the first ``count`` entries; None: there is nothing to send for them."""

    count: int
    body: bytes | None


class Connected(Struct, frozen=True):
    pass


class Answered(Struct, frozen=True):
    """To the oldest unanswered request. ``allowed``: how many requests may be unanswered from now on; 0: no change."""

    status: int
    allowed: int = 0


class Disconnected(Struct, frozen=True):
    """The connection ended, or could not be made. ``stale``: it had answered before and may just have been idle."""

    reason: str
    stale: bool = False


class _Gone(Disconnected, frozen=True):
    """The broker itself says that it will not come back."""


class Deleted(Struct, frozen=True):
    entries: Sequence[OutboxEntry]


class PauseEnded(Struct, frozen=True):
    id: int


class GaveUp(Struct, frozen=True):
    """The broker is marked gone and its entries are deleted."""


Event = Wake | OutboxRead | BatchMade | Connected | Answered | Disconnected | Deleted | PauseEnded | GaveUp


# -- instructions


class ReadOutbox(Struct, frozen=True):
    """Without the ``known`` entries."""

    limit: int
    known: frozenset[OutboxEntry] = frozenset()


class MakeBatch(Struct, frozen=True):
    broker: Broker
    entries: Sequence[OutboxEntry]


class Connect(Struct, frozen=True):
    url: str


class Post(Struct, frozen=True):
    """``defer``: the broker may answer later, together with other requests."""

    body: bytes
    defer: bool


class Close(Struct, frozen=True):
    """Nothing of this connection is reported any more."""


class Delete(Struct, frozen=True):
    """From the outbox."""

    entries: Sequence[OutboxEntry]


class Pause(Struct, frozen=True):
    id: int
    seconds: float


class GiveUp(Struct, frozen=True):
    """Mark the broker gone, then delete its entries."""

    broker: Broker


class Report(Struct, frozen=True):
    """For metrics and logs. ``outcome`` is ok, failed or gone."""

    outcome: str
    reason: str = ""


Instruction = ReadOutbox | MakeBatch | Connect | Post | Close | Delete | Pause | GiveUp | Report


class Dispatch:
    """``pending``: entries that the broker has not answered, as far as the outbox was read."""

    def __init__(self, retry: RetryPolicy, *, batch: int = BATCH, read: int = READ) -> None:
        self.retry = retry
        self._most, self._limit = batch, read
        self.window = SendWindow()
        self.pending = 0
        self.last_error: str | None = None
        self._again = False  # the outbox may hold more than was read
        self._busy = False  # an instruction waits for its event
        self._pause = 0  # id of the pause that is under way
        self._pauses = 0
        self._broker: Broker | None = None
        self._url: str | None = None  # of the connection
        self._connecting = False
        self._queue: list[OutboxEntry] = []
        self._batch: tuple[list[OutboxEntry], bytes] | None = None
        self._trouble: Disconnected | None = None

    def handle(self, event: Event, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        match event:
            case Wake():
                self._again = True
                if event.returned:
                    self.retry.answered()
                    self._pause = 0
            case OutboxRead():
                self._busy = False
                self._read(event)
            case BatchMade():
                self._busy = False
                out = self._made(event)
            case Connected():
                self._busy = self._connecting = False
                assert self._broker is not None
                self._url = self._broker.url
            case Answered():
                out = self._answered(event)
            case Disconnected():
                self._disconnected(event)
            case Deleted():
                self.window.deleted(event.entries)
            case PauseEnded():
                if event.id == self._pause:
                    self._pause = 0
            case GaveUp():
                self._busy = False
                self.retry.answered()
                self.last_error, self.pending = None, 0
        return out + self._advance(now)

    def _advance(self, now: float) -> list[Instruction]:
        """The next step, where none is pending."""
        if self._busy or self._pause:
            return []
        if self._trouble is not None:
            return self._failed(self._trouble, now)
        if self._batch is not None:
            return self._send(now)
        if self._queue:
            assert self._broker is not None
            self._busy = True
            return [MakeBatch(self._broker, self._queue[: self._most])]
        if self._again and self.window.room:
            self._again, self._busy = False, True
            return [ReadOutbox(self._limit, frozenset(self.window.entries))]
        return []

    def _read(self, event: OutboxRead) -> None:
        self.pending = self.window.unanswered + len(event.entries)
        if not event.entries or event.broker is None or event.broker.state == "gone":
            return
        self._broker = event.broker
        self._queue = list(event.entries)
        self._again |= len(event.entries) >= self._limit

    def _made(self, event: BatchMade) -> list[Instruction]:
        entries, self._queue = self._queue[: event.count], self._queue[event.count :]
        if event.body is not None:
            self._batch = (entries, event.body)
            return []
        self.window.skipped(entries)
        self.pending -= len(entries)
        return [Delete(entries)]

    def _send(self, now: float) -> list[Instruction]:
        assert self._batch is not None and self._broker is not None
        if self._url is None:
            self._busy = self._connecting = True
            return [Connect(self._broker.url)]
        if self._url != self._broker.url:
            return [*self._close(Disconnected("the broker has another address", stale=True)), *self._advance(now)]
        if not self.window.room:
            return []
        (entries, body), self._batch = self._batch, None
        post = Post(body, defer=self.window.limit > 1)
        self.window.sent(entries, len(body))
        return [post, *self._advance(now)]

    # -- from the broker

    def _answered(self, event: Answered) -> list[Instruction]:
        status = event.status
        if not 200 <= status < 300:
            refused = 400 <= status < 500 and status not in _TRY_AGAIN
            name = http.HTTPStatus(status).phrase if status in http.HTTPStatus.__members__.values() else ""
            reason = f"{'refused' if refused else 'answered'} {status} {name}".strip()
            return self._close(_Gone(reason) if status == 410 else Disconnected(reason))
        if event.allowed:
            self.window.allow(event.allowed)
        entries = self.window.answered()
        self.retry.answered()
        self.last_error = None
        self.pending -= len(entries)
        return [Report("ok"), Delete(entries)]

    def _close(self, trouble: Disconnected) -> list[Instruction]:
        self._disconnected(trouble)
        self._trouble = trouble
        return [Close()]

    def _disconnected(self, event: Disconnected) -> None:
        """An idle connection may end without trouble."""
        if self.window or self._connecting:
            self._trouble = event
        if self._connecting:
            self._busy = self._connecting = False
        self._url = None
        self.window.lost()

    def _failed(self, trouble: Disconnected, now: float) -> list[Instruction]:
        """Everything without an answer is read from the outbox again, so that the order is kept."""
        self._trouble, self._batch, self._queue, self._again = None, None, [], True
        if trouble.stale:
            return self._advance(now)
        if isinstance(trouble, _Gone):
            return self._give_up(trouble.reason)
        self.last_error = trouble.reason
        delay = self.retry.failed(now)
        report = Report("failed", trouble.reason)
        if delay is None:
            return [report, *self._give_up(trouble.reason)]
        self._pauses += 1
        self._pause = self._pauses
        return [report, Pause(self._pause, delay)]

    def _give_up(self, reason: str) -> list[Instruction]:
        assert self._broker is not None
        self._again, self._busy = False, True
        return [Report("gone", reason), GiveUp(self._broker)]


def make_batch(
    entries: Sequence[OutboxEntry], message: Callable[[OutboxEntry], bytes | None], most: int = BATCH_BYTES
) -> BatchMade:
    """One request for the first of the entries: a single message, or an array of several."""
    messages: list[bytes] = []
    size = count = 0
    for entry in entries:
        data = message(entry)
        count += 1
        if data is not None:
            messages.append(data)
            size += len(data)
            if size > most:
                break
    if len(messages) < 2:
        return BatchMade(count, messages[0] if messages else None)
    return BatchMade(count, b"[" + b",".join(messages) + b"]")
