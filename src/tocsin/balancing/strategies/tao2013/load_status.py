"""LOW, HIGH and OVERLOAD (table III), and the thresholds of each metric with their exceptions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from tocsin.balancing.strategies.tao2013.metrics import DOWNLINK, MATCHING, METRICS, QUEUE, UPLINK, LoadTable, Role
from tocsin.errors import UserError

LOWER, UPPER = 0.9, 0.95
#: Above it an output queue grows without end, whatever its deadline.
FULL = 1.0


class Status(Enum):
    LOW = "low"
    HIGH = "high"
    OVERLOAD = "overload"


@dataclass(frozen=True)
class Thresholds:
    """TH_low and TH_high of utilisations. ``static_uplink``: edges have an upper threshold of their uplink too, as in
    PEER; in the paper they have only the lower one, and queue depth has only an upper one, which is dynamic."""

    low: float = LOWER
    high: float = UPPER
    static_uplink: bool = False
    _exempt: Mapping[Role, frozenset[str]] = field(
        default_factory=lambda: {Role.EDGE: frozenset({UPLINK, QUEUE}), Role.HEAD: frozenset()}, repr=False
    )

    def __post_init__(self) -> None:
        if not 0.0 < self.low <= self.high:
            hint = "0 < low <= high"
            raise UserError(f"the lower threshold is {self.low:g} and the upper one {self.high:g}", hint=hint)

    def upper(self, role: Role, metric: str) -> float | None:
        """TH_high, if the metric has a static one."""
        if metric in self._exempt[role] and not (metric == UPLINK and self.static_uplink):
            return None
        return self.high

    def lower(self, role: Role, metric: str) -> float | None:
        return None if metric == QUEUE else self.low

    def status(self, table: LoadTable, *, late: bool = False) -> Status:
        """Table III. ``late``: a queue is above its dynamic threshold."""
        role, metrics = table.role, table.metrics
        uppers = {name: self.upper(role, name) for name in METRICS[role]}
        if late or any(limit is not None and metrics[name] > limit for name, limit in uppers.items()):
            return Status.OVERLOAD
        return Status.LOW if self.is_low(metrics, role) else Status.HIGH

    def is_low(self, metrics: Mapping[str, float], role: Role) -> bool:
        """A metric that equals a threshold is not below it; table III leaves that open."""
        lowers = {name: self.lower(role, name) for name in METRICS[role]}
        return all(limit is None or metrics[name] < limit for name, limit in lowers.items())

    def objection(self, now: LoadTable, after: LoadTable) -> str | None:
        """Why a broker with this table must not accept what leads to the other: it is not LOW, or would be overloaded.

        An uplink without an upper threshold must not exceed its bandwidth: the queues would grow without end.
        """
        if self.status(now) is not Status.LOW:
            return f"its status is {self.status(now).value}"
        for name in METRICS[now.role]:
            limit = FULL if name == UPLINK and self.upper(now.role, name) is None else self.upper(now.role, name)
            if limit is not None and after.metric(name) > limit:
                return f"its {name} would be {after.metric(name):.3f} of {limit:g}"
        return None


STATIC = frozenset({DOWNLINK, MATCHING, UPLINK})
