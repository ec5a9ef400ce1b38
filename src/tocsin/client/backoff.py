"""How long to wait before the next try."""

from __future__ import annotations

from random import Random


class Backoff:
    """Doubles up to ``most`` seconds. The upper half is left to chance, so that not all clients come back at once."""

    def __init__(self, random: Random, first: float = 0.1, most: float = 10.0) -> None:
        self.first = first
        self.most = most
        self.failures = 0
        self._random = random

    def ceiling(self, places: int = 1) -> float:
        """With several places to try, each is tried before the wait grows."""
        return min(self.most, self.first * 2.0 ** min(self.failures // places, 40))

    def next(self, places: int = 1) -> float:
        wait = self.ceiling(places) * (0.5 + self._random.random() / 2)
        self.failures += 1
        return wait

    def scattered(self, within: float) -> float:
        """The first wait after a broker has gone: at a moment of chance."""
        self.failures += 1
        return within * self._random.random()

    def reset(self) -> None:
        self.failures = 0
