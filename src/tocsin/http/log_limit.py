"""Keeps a log readable while every request fails for the same reason."""

from __future__ import annotations

import time
from collections.abc import Callable


class LogLimit:
    """One line of a kind in ``seconds``; the next one says how many were left out. Kinds are few, such as codes of
    errors."""

    def __init__(self, seconds: float = 1.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._clock = seconds, clock
        self._next: dict[str, float] = {}
        self._left_out: dict[str, int] = {}

    def admit(self, kind: str) -> int | None:
        """How many lines of the kind were left out before this one; None: leave this one out too."""
        now = self._clock()
        if now < self._next.get(kind, now):
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return None
        self._next[kind] = now + self._seconds
        return self._left_out.pop(kind, 0)
