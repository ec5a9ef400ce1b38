"""Amounts a second over the last seconds."""

from __future__ import annotations

#: Seconds that the indices are measured over. The thesis does not say.
WINDOW = 20


class Meter:
    """A counter for each second; those within the window count."""

    __slots__ = ("_counts", "_first", "_second", "_sum")

    def __init__(self, began: float = 0.0) -> None:
        self._counts = [0.0] * (WINDOW + 1)
        self._second = self._first = int(began)
        self._sum = 0.0

    def add(self, amount: float, at: float) -> None:
        second = int(at)
        if second > self._second:
            self._advance(second)
        elif second <= self._second - WINDOW:
            return
        self._counts[second % (WINDOW + 1)] += amount
        self._sum += amount

    def _advance(self, second: int) -> None:
        for each in range(self._second + 1, min(second, self._second + WINDOW + 1) + 1):
            self._sum -= self._counts[each % (WINDOW + 1)]
            self._counts[each % (WINDOW + 1)] = 0.0
        self._second = second

    def rate(self, now: float) -> float:
        """Of the whole seconds that have passed; the present one is incomplete."""
        if int(now) > self._second:
            self._advance(int(now))
        seconds = min(WINDOW, self._second - self._first)
        return max(0.0, self._sum - self._counts[self._second % (WINDOW + 1)]) / seconds if seconds else 0.0
