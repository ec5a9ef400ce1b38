"""λ: how much of something there is in a second, as a moving average that forgets exponentially."""

from __future__ import annotations

from math import exp

#: Seconds after which an event counts 1/e.
WINDOW = 60.0


class Rate:
    """Exact for any times of events; needs no timer. Starts at 0 and settles within a few windows.

    Events and their bytes are forgotten alike, so that one factor serves both.
    """

    __slots__ = ("_at", "_bytes", "_events")

    def __init__(self, now: float) -> None:
        self._at = now
        self._events = 0.0
        self._bytes = 0.0

    def add(self, size: int, now: float) -> None:
        """One event of so many bytes."""
        if now > self._at:
            factor = exp((self._at - now) / WINDOW)
            self._at = now
            self._events = self._events * factor + 1.0
            self._bytes = self._bytes * factor + size
        else:
            self._events += 1.0
            self._bytes += size

    def per_second(self, now: float) -> float:
        return self._events * self._factor(now) / WINDOW

    def bytes_per_second(self, now: float) -> float:
        return self._bytes * self._factor(now) / WINDOW

    def _factor(self, now: float) -> float:
        return exp(-max(0.0, now - self._at) / WINDOW)
