"""Brokers as the coordinator knows them, and the moves that are to begin at each."""

from __future__ import annotations

from msgspec import Struct, field

from tocsin.balancing.load import Status
from tocsin.balancing.move import Move
from tocsin.coordinator.events import BrokerRow
from tocsin.wire.reports import LoadReport


class Transfer(Struct, eq=False):
    """A move: queued at its source until there is a ``ticket``, then under way until ``deadline``."""

    name: str
    move: Move
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
    alive: bool = False
    token: str = ""
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

    def fill(self, now: float, per_second: float) -> None:
        """A bucket that fills with ``per_second`` and holds one second of it."""
        self.allowance = min(max(per_second, 1.0), self.allowance + (now - self.allowed_at) * per_second)
        self.allowed_at = now
