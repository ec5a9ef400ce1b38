"""Simulated time: what is to happen, in order. Two things at the same time happen in the order they were asked for."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any


class Clock:
    """``now`` is in seconds. Nothing here reads the clock of the machine."""

    def __init__(self) -> None:
        self.now = 0.0
        self.events = 0
        self._queue: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._asked = 0

    def at(self, time: float, action: Callable[..., None], *args: Any) -> None:
        """What should have happened before happens now."""
        self._asked += 1
        heappush(self._queue, (time if time > self.now else self.now, self._asked, action, args))

    def after(self, seconds: float, action: Callable[..., None], *args: Any) -> None:
        self._asked += 1
        heappush(self._queue, (self.now + seconds if seconds > 0 else self.now, self._asked, action, args))

    def run(self, until: float) -> None:
        """Everything up to and at this time."""
        queue = self._queue
        while queue and queue[0][0] <= until:
            self.now, _, action, args = heappop(queue)
            self.events += 1
            action(*args)
        self.now = max(self.now, until)
