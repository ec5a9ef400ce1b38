"""How long whoever had no answer waits before asking again."""

from __future__ import annotations

from random import Random


def backoff(failures: int, least: float, most: float, rng: Random) -> float:
    """Waits double, and half of each is left to chance: who failed together does not come back together."""
    return min(most, least * 2.0 ** min(failures - 1, 60)) * rng.uniform(0.5, 1.0)
