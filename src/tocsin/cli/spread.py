"""Percentiles of many values in little memory."""

from __future__ import annotations

import math

#: Two values in the same bucket differ by at most this factor.
STEP = math.log(1.02)
#: Seconds; smaller values count as this.
LEAST = 1e-6


class Spread:
    """Percentiles are exact to two per cent, the least and the greatest value completely."""

    def __init__(self) -> None:
        self.count = 0
        self.least = math.inf
        self.greatest = -math.inf
        self._buckets: dict[int, int] = {}

    def add(self, value: float) -> None:
        self.count += 1
        self.least = min(self.least, value)
        self.greatest = max(self.greatest, value)
        place = round(math.log(max(value, LEAST)) / STEP)
        self._buckets[place] = self._buckets.get(place, 0) + 1

    def percentile(self, percent: float) -> float:
        """A value that about ``percent`` of the values do not exceed."""
        left = math.ceil(self.count * percent / 100)
        for place in sorted(self._buckets):
            left -= self._buckets[place]
            if left <= 0:
                return min(self.greatest, max(self.least, math.exp(place * STEP)))
        return math.nan

    def milliseconds(self) -> dict[str, float] | None:
        """Median, 99th percentile and maximum of seconds, for JSON."""
        if not self.count:
            return None
        figures = {"p50": self.percentile(50), "p99": self.percentile(99), "max": self.greatest}
        return {name: round(value * 1e3, 3) for name, value in figures.items()}
