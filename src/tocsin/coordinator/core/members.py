"""Brokers as the coordinator knows them, and the moves that are to begin at each."""

from __future__ import annotations

from msgspec import Struct, field

from tocsin.balancing.model.load import Status
from tocsin.balancing.model.migration import Migration
from tocsin.coordinator.core.events import BrokerRow
from tocsin.wire.reports import LoadReport

#: How many times ``gone_after`` a broker is waited for at most.
MOST_PATIENT = 3.0
#: How many times the time between two reports passes until one is missed.
MISSED = 2.5


class Transfer(Struct, eq=False):
    """A move: queued at its source until there is a ``ticket``, then under way until ``deadline``."""

    name: str
    move: Migration
    source: Member
    target: Member
    ticket: str = ""
    deadline: float = float("inf")


class Member(Struct, eq=False):
    """``heard`` None: it has not spoken since the coordinator started. ``number`` is its place in the load.

    It is alive from its first full report on. ``token`` is that of its last registration: what was sent before it and
    comes late is nobody's.
    """

    row: BrokerRow
    number: int
    remembered: bool = False
    heard: float | None = None
    gap: float = 0.0  # seconds between two of its reports, and by how much they differ, both smoothed
    wobble: float = 0.0
    alive: bool = False
    token: str = ""
    boot: str = ""  # of its process; tickets are for one process of a broker
    report: int = 0  # number of the last report
    behind: bool = True  # the next report has to be full
    last: LoadReport | None = None
    promised: int = 0  # placed here since its last report
    orders: dict[str, Transfer] = field(default_factory=dict)
    drop: dict[str, None] = field(default_factory=dict)
    allowance: float = 0.0  # moves that may begin now
    allowed_at: float = 0.0

    @property
    def name(self) -> str:
        return self.row.name

    @property
    def state(self) -> str:
        if not self.alive:
            return "gone"
        return "draining" if self.row.draining else "up"

    @property
    def status(self) -> Status:
        if not self.alive:
            return Status.GONE
        return Status.DRAINING if self.row.draining else Status.OPEN

    def reported(self, now: float, alive: bool) -> None:
        """A report came of one that was ``alive`` or not. How regular they are is learned as TCP does (RFC 6298)."""
        if alive and self.heard is not None:
            gap = now - self.heard
            self.wobble += (abs(gap - self.gap) - self.wobble) / 4 if self.gap else gap / 2
            self.gap += (gap - self.gap) / 8 if self.gap else gap
        self.heard = now

    def patience(self, gone_after: float, lag: float) -> float:
        """Seconds of silence after which it is dead: longer for one whose reports come unevenly, within limits."""
        return min(MOST_PATIENT * gone_after, max(gone_after, self.gap + 4 * self.wobble + lag))

    def missed(self, now: float, interval: float, lag: float) -> bool:
        """It may be dead: nobody is sent to it, and nothing is planned with it, until it reports or is buried."""
        if not self.alive or self.heard is None:
            return False
        return now - self.heard > max(MISSED * interval, self.gap + 4 * self.wobble + lag)

    def fill(self, now: float, per_second: float) -> None:
        """A bucket that fills with ``per_second`` and holds one second of it."""
        self.allowance = min(max(per_second, 1.0), self.allowance + (now - self.allowed_at) * per_second)
        self.allowed_at = now
