"""One seed, and a source of chance of its own for each purpose: who asks more of one does not disturb the others."""

from __future__ import annotations

from random import Random


class RandomStreams:
    def __init__(self, seed: int) -> None:
        self.seed = seed

    def of(self, purpose: str) -> Random:
        # A text is hashed by random itself, the same way in every process.
        return Random(f"{self.seed}/{purpose}")
