"""The centroid of a zone's items in each dimension, recorded as they come and go."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.overlay.keyspace.model.item import Item

PRIME = (1 << 61) - 1


class Centroid:
    """Exact sums of integers: what was added can be taken away again. An item weighs its ``size``."""

    def __init__(self, dimensions: int) -> None:
        self.weight = 0
        self._sums = [0] * dimensions
        self._marks = [0] * dimensions
        self._squares = [0] * dimensions

    def add(self, item: Item, sign: int = 1) -> None:
        weight = sign * item.size
        self.weight += weight
        for dimension, x in enumerate(item.point):
            self._sums[dimension] += weight * x
            # Coordinates have thousands of bits: their remainders tell as well whether all are alike, and are short.
            mark = x % PRIME
            self._marks[dimension] += weight * mark
            self._squares[dimension] += weight * mark * mark

    def recount(self, items: Iterable[Item]) -> None:
        self.weight = 0
        self._sums, self._marks, self._squares = ([0] * len(self._sums) for _ in range(3))
        for item in items:
            self.add(item)

    def cut(self, dimension: int) -> int | None:
        """The mean coordinate, rounded up; None if all items have the same one, so that no cut separates them."""
        marks, weight = self._marks[dimension], self.weight
        alike = marks * marks == self._squares[dimension] * weight
        return None if alike else -(-self._sums[dimension] // weight)
