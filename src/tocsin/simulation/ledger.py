"""What an application was promised and what it got."""

from __future__ import annotations

from msgspec import Struct, field

from tocsin.client.notification import Missed, Notification

#: Why a client announces executions as missing that another channel of the same name had.
DROPPED = "dropped"


class Gap(Struct, frozen=True):
    """Executions after ``after`` and before ``next`` were announced as missing; ``known`` is the id it had."""

    time: float
    after: int
    next: int
    reason: str
    subscription: int
    known: int | None


class Span(Struct, eq=False):
    """Since ``confirmed`` every execution after ``begin`` is promised, of the channel of ``subscription``."""

    subscription: int
    confirmed: float
    begin: int
    received: list[Notification] = field(default_factory=list)
    missed: list[Gap] = field(default_factory=list)


class Interest(Struct, eq=False):
    """A subscription of an application. A channel that is dropped and created again begins another span.

    ``after``, ``number`` and ``epoch`` are what the application keeps over a restart. ``ended`` counts how often its
    channel was dropped under it.
    """

    handle: int
    channel: str
    kind: str
    wanted: bool = True
    after: int | None = None
    number: int | None = None
    epoch: int = 0
    ended: int = 0
    spans: list[Span] = field(default_factory=list)
    going_on: bool = False  # the last span goes on

    @property
    def received(self) -> list[Notification]:
        return [item for span in self.spans for item in span.received]

    @property
    def missed(self) -> list[Gap]:
        return [gap for span in self.spans for gap in span.missed]

    def confirm(self, now: float, subscription: int, execution: int) -> None:
        """Counts the first time; after a restart it goes on."""
        if not self.going_on:
            self.spans.append(Span(subscription, now, execution))
            self.going_on = True

    def end(self) -> None:
        """The channel was dropped."""
        self.after = self.number = None
        self.epoch = 0
        self.ended += 1
        self.going_on = False

    def miss(self, now: float, item: Missed, known: int | None) -> None:
        if item.reason == DROPPED:
            self.spans.append(Span(item.subscription, now, item.next - 1))
        elif self.spans:
            self.spans[-1].missed.append(Gap(now, item.after, item.next, item.reason, item.subscription, known))
