"""λ: how much of something there is in a second, as a moving average that forgets exponentially."""

from __future__ import annotations

from math import exp, expm1

#: Seconds after which an event counts 1/e.
WINDOW = 60.0
#: Seconds that are taken to have been watched at least: a single event right after the beginning says little.
LEAST = WINDOW / 2


def seconds(watched: float) -> float:
    """The seconds that what has been counted is divided by, if each has faded by as much as an event of its time.

    So there is no bias towards 0 at the beginning: a steady stream has the same mean after half a minute and after an
    hour, only less certain.
    """
    return -WINDOW * expm1(-max(watched, LEAST) / WINDOW)


class Rate:
    """Exact for any times of events; needs no timer. ``now``: from when on events are counted.

    Events and their bytes are forgotten alike, so that one factor serves both.
    """

    __slots__ = ("_at", "_begun", "_bytes", "_events")

    def __init__(self, now: float) -> None:
        self._at = self._begun = now
        self._events = 0.0
        self._bytes = 0.0

    def add(self, size: int, now: float) -> None:
        """One event of ``size`` bytes."""
        if now > self._at:
            factor = exp((self._at - now) / WINDOW)
            self._at = now
            self._events = self._events * factor + 1.0
            self._bytes = self._bytes * factor + size
        else:
            self._events += 1.0
            self._bytes += size

    def fresh(self, now: float) -> bool:
        """It has been watched for so short that it is too low."""
        return now - self._begun < LEAST

    def per_second(self, now: float) -> float:
        return self._events * self._factor(now)

    def bytes_per_second(self, now: float) -> float:
        return self._bytes * self._factor(now)

    def _factor(self, now: float) -> float:
        return exp(-max(0.0, now - self._at) / WINDOW) / seconds(now - self._begun)
