"""What an application was promised and what it got."""

from __future__ import annotations

from msgspec import Struct, field

from tocsin.client.notification import Missed, Notification


class Gap(Struct, frozen=True):
    """Executions behind ``after`` and before ``next`` were announced as missing; ``known`` is the number it had."""

    time: float
    after: int
    next: int
    reason: str
    subscription: int
    known: int | None


class Interest(Struct, eq=False):
    """A subscription of an application. ``confirmed``: since when every execution is promised, behind ``begin``.

    ``after`` and ``number`` are what the application keeps over a restart.
    """

    handle: int
    channel: str
    kind: str
    wanted: bool = True
    confirmed: float | None = None
    begin: int = 0
    after: int | None = None
    number: int | None = None
    received: list[Notification] = field(default_factory=list)
    missed: list[Gap] = field(default_factory=list)

    def confirm(self, now: float, cursor: int) -> None:
        """Counts the first time; after a restart it goes on."""
        if self.confirmed is None:
            self.confirmed, self.begin = now, cursor

    def miss(self, now: float, item: Missed, known: int | None) -> None:
        self.missed.append(Gap(now, item.after, item.next, item.reason, item.subscription, known))
