"""What an application was promised and what it received."""

from __future__ import annotations

from msgspec import Struct, field

from tocsin.client.notification import Gap, Notification
from tocsin.wire.position import Position


class RecordedGap(Struct, frozen=True):
    """Executions after ``after`` and before ``next`` were declared missing; ``known`` is the id it had then."""

    time: float
    after: int
    next: int
    reason: str
    subscription: int
    known: int | None


class Interest(Struct, eq=False):
    """A subscription of an application. From time ``confirmed`` on, it is promised every execution after ``begin``.

    ``position`` and ``id`` are what the application keeps over a restart.
    """

    handle: int
    channel: str
    kind: str
    wanted: bool = True
    confirmed: float | None = None
    begin: int = 0
    position: Position | None = None
    id: int | None = None
    received: list[Notification] = field(default_factory=list)
    missed: list[RecordedGap] = field(default_factory=list)

    def confirm(self, now: float, after: int) -> None:
        """Only the first confirmation counts; after a restart the application resumes."""
        if self.confirmed is None:
            self.confirmed, self.begin = now, after

    def miss(self, now: float, gap: Gap, known: int | None) -> None:
        after, next = gap.after.execution, gap.next.execution
        self.missed.append(RecordedGap(now, after, next, gap.reason, gap.subscription, known))
