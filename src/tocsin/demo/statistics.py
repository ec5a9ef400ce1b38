"""Statistics of a run so far."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np

from tocsin.demo.pool_frames import Activity


class Statistics:
    """``second`` takes the latencies since its last call; the summary is made of all of them."""

    def __init__(self, people: int) -> None:
        self.began = time.monotonic()
        self.sums: Counter[str] = Counter()
        self.reached = np.zeros(people, bool)
        self.connected = np.zeros(people, bool)
        self.first: float | None = None  # seconds until the first notification
        self.fresh: list[float] = []
        self._all: list[np.ndarray[Any, np.dtype[np.float32]]] = []
        self.covs: list[tuple[float, float, float]] = []  # seconds, cov, maximum

    def add(self, activity: Activity) -> None:
        for name in ("notifications", "results", "locations", "reports", "migrations", "confirmed", "refused"):
            self.sums[name] += getattr(activity, name)
        if activity.notified:
            self.reached[activity.notified] = True
            if self.first is None:
                self.first = time.monotonic() - self.began
        for number, broker in activity.brokers:
            self.connected[number] = bool(broker)
        self.fresh += activity.latencies

    def second(self) -> dict[str, float]:
        """Latencies since the last call, in milliseconds."""
        fresh, self.fresh = np.array(self.fresh, np.float32), []
        if len(fresh):
            self._all.append(fresh)
        return figures(fresh)

    def summary(self) -> dict[str, Any]:
        everything = np.concatenate([*self._all, np.array(self.fresh, np.float32)])
        covs = [cov for _, cov, maximum in self.covs if maximum > 0]
        return {
            "seconds": round(time.monotonic() - self.began, 1),
            "first_notification_seconds": None if self.first is None else round(self.first, 1),
            "people_connected": int(self.connected.sum()),
            "people_reached": int(self.reached.sum()),
            **{name: self.sums[name] for name in ("notifications", "results", "reports", "locations")},
            "subscriptions": self.sums["confirmed"],
            "migrations": self.sums["migrations"],
            "refused": self.sums["refused"],
            "latency_ms": figures(everything),
            "cov": {"worst": round(max(covs), 4), "last": round(covs[-1], 4)} if covs else None,
            "samples": [[round(at, 1), round(cov, 4), round(maximum, 1)] for at, cov, maximum in self.covs],
        }


def figures(seconds: np.ndarray[Any, np.dtype[np.float32]]) -> dict[str, float]:
    if not len(seconds):
        return {"count": 0, "p50_ms": 0.0, "p99_ms": 0.0}
    p50, p99 = np.percentile(seconds, (50, 99)) * 1e3
    return {"count": len(seconds), "p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1)}
