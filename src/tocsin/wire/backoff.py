"""How long to wait before the next try. Every part that tries again takes its waits from here."""

from __future__ import annotations

from random import Random


def ceiling(failures: int, least: float, most: float) -> float:
    """``least`` seconds after the first failure in a row, then twice as long each time, never more than ``most``."""
    return min(most, least * 2.0 ** min(failures - 1, 60))


def backoff(failures: int, least: float, most: float, rng: Random) -> float:
    """Half of each wait is random: those that failed together do not return together."""
    return ceiling(failures, least, most) * rng.uniform(0.5, 1.0)


class Backoff:
    """The same for one caller, with its count of failures in a row."""

    def __init__(self, rng: Random, least: float = 0.1, most: float = 10.0) -> None:
        self.least, self.most, self._rng = least, most, rng
        self.failures = 0

    def ceiling(self, places: int = 1) -> float:
        """With several places to try, each is tried before the wait grows."""
        return ceiling(self.failures // places + 1, self.least, self.most)

    def next(self, places: int = 1) -> float:
        wait = backoff(self.failures // places + 1, self.least, self.most, self._rng)
        self.failures += 1
        return wait

    def scattered(self, within: float) -> float:
        """The first wait after a broker has gone: at a random moment."""
        self.failures += 1
        return within * self._rng.random()

    def reset(self) -> None:
        self.failures = 0
