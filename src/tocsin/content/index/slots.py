"""One slot for each conjunction in the index: whose it is, its tests, and its place in a bucket."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tocsin.content.index.arena import Arena, grown

#: Column, low, high of a test.
Row = Sequence[int]
_ARRAYS = ("owner", "first", "count", "home", "place", "following", "exact")


class Slots:
    """Arrays are replaced when they grow: do not keep them."""

    def __init__(self) -> None:
        self.tests = Arena(3)
        self.owner: NDArray[np.int32] = np.empty(1024, np.int32)
        self.first: NDArray[np.int32] = np.empty(1024, np.int32)
        self.count: NDArray[np.int32] = np.empty(1024, np.int32)
        #: The bucket, and the place in it; of one that is in several buckets -1.
        self.home: NDArray[np.int32] = np.empty(1024, np.int32)
        self.place: NDArray[np.int32] = np.empty(1024, np.int32)
        #: The next conjunction of the same condition; -1 after the last.
        self.following: NDArray[np.int32] = np.empty(1024, np.int32)
        #: Whether the tests say everything.
        self.exact: NDArray[np.bool_] = np.empty(1024, np.bool_)
        self._used = 0
        self._free: list[int] = []

    def add(self, owner: int, rows: Sequence[Row], exact: bool, following: int) -> int:
        slot = self._free.pop() if self._free else self._used
        if slot == self._used:
            self._used += 1
            if slot == len(self.owner):
                for name in _ARRAYS:
                    setattr(self, name, grown(getattr(self, name), self._used))
        first = self.tests.allocate(len(rows)) if rows else 0
        if rows:
            self.tests.rows[first : first + len(rows)] = rows
        self.owner[slot], self.first[slot], self.count[slot] = owner, first, len(rows)
        self.following[slot], self.exact[slot] = following, exact
        return slot

    def rows(self, slot: int) -> list[Row]:
        first = int(self.first[slot])
        found: list[Row] = self.tests.rows[first : first + int(self.count[slot])].tolist()
        return found

    def remove(self, slot: int) -> None:
        if self.count[slot]:
            self.tests.release(int(self.first[slot]), int(self.count[slot]))
        self._free.append(slot)

    @property
    def bytes(self) -> int:
        return self.tests.bytes + sum(int(getattr(self, name).nbytes) for name in _ARRAYS)
