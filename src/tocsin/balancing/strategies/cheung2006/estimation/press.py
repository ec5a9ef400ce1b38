"""PRESS: bit vectors that record which of the latest publications each subscription matched (section 4.1.1).

A vector is a whole number whose lowest bit, the right-most, stands for the first publication. Subscriptions have
numbers; those of the acceptor's covering subscription set are profiled like the broker's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec


class Profile(msgspec.Struct, frozen=True):
    """What was sampled. ``rate``: publications a second that came in meanwhile; ``size``: their mean, in bytes.

    ``accepting``: the vector of the acceptor's whole CSS.
    """

    samples: int
    rate: float
    size: float
    vectors: Mapping[int, int] = {}
    accepting: int = 0

    def vector(self, subscription: int) -> int:
        return self.vectors.get(subscription, 0)

    def rate_of(self, vector: int) -> float:
        """Equation 4.1: publications a second of the bits that are set."""
        return self.rate * vector.bit_count() / self.samples if self.samples else 0.0


class Press:
    """Sampling from the acceptor's OK until ``samples`` publications were seen, or ``timeout`` seconds have passed."""

    def __init__(self, accepting: Iterable[int], samples: int, timeout: float, now: float) -> None:
        self.samples, self.until = samples, now + timeout
        self._accepting = frozenset(accepting)
        self._began = now
        self._vectors: dict[int, int] = {}
        self._seen = self._enqueued = self._bytes = 0

    @property
    def complete(self) -> bool:
        return self._seen >= self.samples

    def enqueue(self, size: int) -> None:
        """A publication has come in, whether or not it is matched in time."""
        self._enqueued += 1
        self._bytes += size

    def observe(self, matched: Iterable[int]) -> None:
        """The subscriptions that one publication has matched."""
        if self.complete:
            return
        bit = 1 << self._seen
        self._seen += 1
        vectors = self._vectors
        for each in matched:
            vectors[each] = vectors.get(each, 0) | bit

    def profile(self, now: float) -> Profile:
        seconds = now - self._began
        rate = self._enqueued / seconds if seconds > 0 else 0.0
        size = self._bytes / self._enqueued if self._enqueued else 0.0
        return Profile(
            self._seen, rate, size, dict(self._vectors), union(self._vectors.get(n, 0) for n in self._accepting)
        )


def union(vectors: Iterable[int]) -> int:
    """Equations 4.3 and 4.6."""
    found = 0
    for each in vectors:
        found |= each
    return found


def and_not(vector: int, other: int) -> int:
    """Equation 4.4."""
    return vector & ~other


def text(vector: int, samples: int) -> str:
    """As the thesis prints it."""
    return f"{vector:0{samples}b}"
