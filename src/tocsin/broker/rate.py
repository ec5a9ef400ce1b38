"""λ: how much of something there is in a second, as a moving average that forgets exponentially."""

from __future__ import annotations

import math

#: Seconds after which an event counts 1/e.
WINDOW = 60.0


class Rate:
    """Exact for any times of events; needs no timer. ``per_second`` starts at 0 and settles within a few windows."""

    __slots__ = ("_at", "_sum")

    def __init__(self, now: float) -> None:
        self._at = now
        self._sum = 0.0

    def add(self, amount: float, now: float) -> None:
        self._sum = self._decayed(now) + amount
        self._at = max(self._at, now)

    def per_second(self, now: float) -> float:
        return self._decayed(now) / WINDOW

    def _decayed(self, now: float) -> float:
        return self._sum * math.exp(-max(0.0, now - self._at) / WINDOW)
