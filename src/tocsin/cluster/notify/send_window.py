"""The in-flight window of one broker: requests without an answer, and entries that must not be sent again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from tocsin.cluster.model import OutboxEntry

#: Unanswered requests at most, where the broker allows as many; none follows this many unanswered bytes.
REQUESTS = 32
BYTES = 1024 * 1024
#: Entries at most that were sent and are still in the outbox.
ENTRIES = 1024


class SendWindow:
    """``limit`` is the number of unanswered requests that the broker allows on this connection; one until it says more.

    ``entries`` are still in the outbox and must not be sent now: unanswered, or answered and not deleted yet.
    """

    def __init__(self) -> None:
        self.limit = 1
        self.entries: set[OutboxEntry] = set()
        self._unanswered: deque[tuple[Sequence[OutboxEntry], int]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._unanswered)

    @property
    def unanswered(self) -> int:
        """Entries, not requests."""
        return sum(len(entries) for entries, _ in self._unanswered)

    @property
    def room(self) -> bool:
        """Whether another request may be sent."""
        return len(self._unanswered) < self.limit and self._bytes < BYTES and len(self.entries) < ENTRIES

    def allow(self, limit: int) -> None:
        """The broker allows this many unanswered requests."""
        self.limit = max(1, min(limit, REQUESTS))

    def sent(self, entries: Sequence[OutboxEntry], size: int) -> None:
        """In one request of ``size`` bytes."""
        self.entries.update(entries)
        self._unanswered.append((entries, size))
        self._bytes += size

    def skipped(self, entries: Sequence[OutboxEntry]) -> None:
        """Nothing has to be sent for them; they wait for their deletion only."""
        self.entries.update(entries)

    def answered(self) -> Sequence[OutboxEntry]:
        """The entries of the oldest request, which stay in the window until they are deleted."""
        entries, size = self._unanswered.popleft()
        self._bytes -= size
        return entries

    def deleted(self, entries: Iterable[OutboxEntry]) -> None:
        """They have left the outbox."""
        self.entries.difference_update(entries)

    def lost(self) -> None:
        """The connection ended: whether the broker took the unanswered is unknown, so all of them are sent again."""
        for entries, _ in self._unanswered:
            self.entries.difference_update(entries)
        self._unanswered.clear()
        self._bytes = 0
        self.limit = 1
