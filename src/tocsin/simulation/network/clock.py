"""Simulated time: scheduled actions, in order. Two at the same time run in the order in which they were scheduled."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Clock:
    """``now`` is in seconds. Nothing here reads the clock of the machine."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._queue: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []
        self._scheduled = 0

    def at(self, time: float, action: Callable[..., object], *args: Any) -> None:
        """An action in the past runs now."""
        self._scheduled += 1
        heappush(self._queue, (time if time > self.now else self.now, self._scheduled, action, args))

    def after(self, seconds: float, action: Callable[..., object], *args: Any) -> None:
        self._scheduled += 1
        heappush(self._queue, (self.now + seconds if seconds > 0 else self.now, self._scheduled, action, args))

    def run(self, until: float) -> None:
        """Runs all actions up to and at this time."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, action, args = heappop(queue)
            self.events += 1
            action(*args)
        self.now = max(self.now, until)
