"""What an application was promised and what it received."""

from __future__ import annotations

from msgspec import Struct, field

from tocsin.client.notification import Gap, Notification
from tocsin.wire.position import Position

#: The reason of a gap after which another channel of the same name begins.
DROPPED = "dropped"


class RecordedGap(Struct, frozen=True):
    """Executions after ``after`` and before ``next`` were declared missing; ``known`` is the id it had then."""

    time: float
    after: int
    next: int
    reason: str
    subscription: int
    known: int | None


class Span(Struct, eq=False):
    """From time ``confirmed`` on, every execution after ``begin`` is promised, of the channel of ``subscription``.

    ``continued``: it follows that of a channel that was dropped, without a request of the application.
    """

    subscription: int
    confirmed: float
    begin: int
    received: list[Notification] = field(default_factory=list)
    missed: list[RecordedGap] = field(default_factory=list)
    continued: bool = False


class Interest(Struct, eq=False):
    """A subscription of an application. A channel that is dropped and created again begins another span.

    ``position`` and ``id`` are what the application keeps over a restart. ``again``: an
    application that keeps nothing may receive what it has consumed, up to there, again.
    """

    handle: int
    channel: str
    kind: str
    wanted: bool = True
    position: Position | None = None
    id: int | None = None
    spans: list[Span] = field(default_factory=list)
    ended: bool = True  # no span goes on
    again: int = 0

    @property
    def received(self) -> list[Notification]:
        return [item for span in self.spans for item in span.received]

    @property
    def missed(self) -> list[RecordedGap]:
        return [gap for span in self.spans for gap in span.missed]

    def confirm(self, now: float, subscription: int, execution: int) -> None:
        """Only the first confirmation counts; after a restart the application resumes."""
        if self.ended:
            self.spans.append(Span(subscription, now, execution))
            self.ended = False

    def receive(self, item: Notification) -> None:
        if item.execution > self.again:
            self.spans[-1].received.append(item)

    def forget(self) -> None:
        """The application loses its position, and continues from an earlier one."""
        self.position = self.id = None
        if not self.ended:
            span = self.spans[-1]
            self.again = span.received[-1].execution if span.received else span.begin

    def end(self) -> None:
        """The channel was dropped."""
        self.position = self.id = None
        self.ended, self.again = True, 0

    def miss(self, now: float, gap: Gap, known: int | None) -> None:
        after, next = gap.after.execution, gap.next.execution
        if gap.reason == DROPPED:
            self.spans.append(Span(gap.subscription, now, next - 1, continued=True))
            self.again = 0
        elif self.spans:
            self.spans[-1].missed.append(RecordedGap(now, after, next, gap.reason, gap.subscription, known))
