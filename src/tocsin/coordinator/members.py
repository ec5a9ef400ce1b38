"""Brokers as the coordinator knows them."""

from __future__ import annotations

from collections import deque

from msgspec import Struct, field

from tocsin.coordinator.events import BrokerRow
from tocsin.wire.reports import LoadReport, Order


class Member(Struct, eq=False):
    """``heard`` None: it has not spoken since the coordinator started. ``number`` is its place in the load."""

    row: BrokerRow
    number: int
    heard: float | None = None
    alive: bool = False
    report: int = 0  # number of the last report, 0 when the next one has to be full
    last: LoadReport | None = None
    orders: deque[Order] = field(default_factory=deque)
    drop: list[str] = field(default_factory=list)
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

    def hand_out(self, now: float, per_second: float) -> list[Order]:
        """The orders that may begin now: a bucket that fills with ``per_second``, and holds one second of it."""
        self.allowance = min(max(per_second, 1.0), self.allowance + (now - self.allowed_at) * per_second)
        self.allowed_at = now
        found: list[Order] = []
        while self.orders and self.allowance >= 1.0:
            self.allowance -= 1.0
            found.append(self.orders.popleft())
        return found
