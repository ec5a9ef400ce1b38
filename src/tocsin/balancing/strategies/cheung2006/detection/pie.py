"""PIE: what brokers and clusters publish about their load, when they do, and what is kept of it (section 3.3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

#: Periods for which an entry is kept, and after which an unchanged broker publishes again, so that it never expires.
KEPT, REPEATED = 3, 2


class Pie(msgspec.Struct, frozen=True, tag=True):
    """``balanced``: the brokers with which this one is balanced. ``whole``: of the cluster of this head."""

    broker: str
    cluster: str
    status: Status
    indices: Indices
    balanced: tuple[str, ...] = ()
    whole: bool = False


@dataclass
class Publisher:
    """Generates every period; publishes what is news to others."""

    parameters: Parameters
    period: float
    last: Pie | None = None
    published_at: float = float("-inf")

    def publishes(self, pie: Pie, now: float) -> bool:
        """An index moved beyond its threshold, and the status is OK or has changed.

        A changed status is news by itself: neighbours have to learn that a broker is available again. An unchanged
        broker that is OK publishes every other period.
        """
        last = self.last
        changed = last is None or last.status is not pie.status
        moved = last is None or self._moved(last.indices, pie.indices)
        due = now - self.published_at >= REPEATED * self.period - 1e-6
        news = pie.status is Status.OK or last is None or last.status is not pie.status
        if not (news and (moved or changed or due)):
            return False
        self.last, self.published_at = pie, now
        return True

    def _moved(self, before: Indices, after: Indices) -> bool:
        ratio, delay = self.parameters.pie_ratio_threshold, self.parameters.pie_delay_threshold
        differences = before.differences(after, self.parameters)
        limits = (ratio, ratio, delay)
        return any(abs(each) > limit for each, limit in zip(differences.values(), limits, strict=True))


class Entries:
    """What others published, by broker; kept for three periods."""

    def __init__(self, period: float) -> None:
        self._lifetime = KEPT * period
        self._known: dict[str, tuple[float, Pie]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Pie]:
        return iter([self._known[name][1] for name in sorted(self._known)])

    def __contains__(self, broker: str) -> bool:
        return broker in self._known

    def register(self, pie: Pie, now: float) -> None:
        self._known[pie.broker] = (now, pie)

    def expire(self, now: float) -> None:
        self._known = {name: each for name, each in self._known.items() if now - each[0] < self._lifetime}

    def forget(self, broker: str) -> None:
        self._known.pop(broker, None)

    def forget_cluster(self, cluster: str) -> None:
        self._known = {name: each for name, each in self._known.items() if each[1].cluster != cluster}

    def unavailable(self) -> bool:
        """Whether one of them is overloaded: others that are OK give it precedence (section 3.3.2.3)."""
        return any(pie.status is Status.UNAVAILABLE for _, pie in self._known.values())
