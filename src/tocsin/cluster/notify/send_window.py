"""What is on its way to a broker: told and not answered yet, or answered and still in the outbox."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from tocsin.cluster.model import OutboxEntry

#: Unanswered at most: requests, where the broker allows as many; and none behind so many bytes.
REQUESTS = 32
BYTES = 1024 * 1024
#: Told and still in the outbox at most: how long settling may take is not the broker's affair.
TELLS = 1024


class SendWindow:
    """To one broker. ``window`` is what the broker allows on the connection there is; without a word of it, one."""

    def __init__(self) -> None:
        self.window = 1
        self.aloft: set[OutboxEntry] = set()  # whatever the outbox still holds and is not to be told now
        self._unanswered: deque[tuple[Sequence[OutboxEntry], int]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        return bool(self._unanswered)

    @property
    def unanswered(self) -> int:
        """Tells, not requests."""
        return sum(len(tells) for tells, _ in self._unanswered)

    @property
    def room(self) -> bool:
        """Whether a request more may be sent."""
        return len(self._unanswered) < self.window and self._bytes < BYTES and len(self.aloft) < TELLS

    def allow(self, window: int) -> None:
        """What the broker has said."""
        self.window = max(1, min(window, REQUESTS))

    def sent(self, tells: Sequence[OutboxEntry], size: int) -> None:
        """In one request of this many bytes."""
        self.aloft.update(tells)
        self._unanswered.append((tells, size))
        self._bytes += size

    def answered(self) -> Sequence[OutboxEntry]:
        """The oldest request was: what it told is not told again, but is in the outbox until it is settled."""
        tells, size = self._unanswered.popleft()
        self._bytes -= size
        return tells

    def settled(self, tells: Iterable[OutboxEntry]) -> None:
        """The outbox has forgotten them."""
        self.aloft.difference_update(tells)

    def lost(self) -> None:
        """The connection ended: nobody knows what was heard of the unanswered, so all of it is told again."""
        for tells, _ in self._unanswered:
            self.aloft.difference_update(tells)
        self._unanswered.clear()
        self._bytes = 0
        self.window = 1
