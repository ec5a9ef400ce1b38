"""Ids sorted by a key, in blocks: a slice of them answers a comparison without looking at each."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np
from numpy.typing import NDArray

_FIRST, _BLOCK = 8, 4096
Ids = NDArray[np.int32]


class _Block:
    __slots__ = ("ids", "keys", "size")

    def __init__(self, capacity: int) -> None:
        self.keys = np.empty(capacity, np.int64)
        self.ids = np.empty(capacity, np.int32)
        self.size = 0

    def insert(self, key: int, id: int) -> None:
        n = self.size
        if n == len(self.keys):
            self.keys = np.resize(self.keys, 2 * n)
            self.ids = np.resize(self.ids, 2 * n)
        at = int(self.keys[:n].searchsorted(key, "right"))
        self.keys[at + 1 : n + 1] = self.keys[at:n]
        self.ids[at + 1 : n + 1] = self.ids[at:n]
        self.keys[at], self.ids[at] = key, id
        self.size = n + 1

    def remove(self, key: int, id: int) -> bool:
        keys = self.keys[: self.size]
        first, last = (int(keys.searchsorted(key, side)) for side in ("left", "right"))
        found = np.flatnonzero(self.ids[first:last] == id)
        if not len(found):
            return False
        at, n = first + int(found[0]), self.size
        self.keys[at : n - 1] = self.keys[at + 1 : n]
        self.ids[at : n - 1] = self.ids[at + 1 : n]
        self.size = n - 1
        return True

    def split(self) -> _Block:
        """Moves the upper half to a new block."""
        half = self.size // 2
        upper = _Block(_BLOCK)
        upper.size = self.size - half
        upper.keys[: upper.size] = self.keys[half : self.size]
        upper.ids[: upper.size] = self.ids[half : self.size]
        self.size = half
        return upper


class SortedRun:
    """Insertion and removal move at most one block."""

    __slots__ = ("_blocks", "_firsts", "size")

    def __init__(self) -> None:
        self._blocks = [_Block(_FIRST)]
        #: The first key of each block but the first one.
        self._firsts: list[int] = []
        self.size = 0

    def insert(self, key: int, id: int) -> None:
        at = bisect_right(self._firsts, key)
        block = self._blocks[at]
        block.insert(key, id)
        self.size += 1
        if block.size == _BLOCK:
            upper = block.split()
            self._blocks.insert(at + 1, upper)
            self._firsts.insert(at, int(upper.keys[0]))

    def remove(self, key: int, id: int) -> None:
        # Equal keys may be in several blocks.
        for at in range(bisect_left(self._firsts, key), bisect_right(self._firsts, key) + 1):
            if self._blocks[at].remove(key, id):
                self.size -= 1
                if not self._blocks[at].size and len(self._blocks) > 1:
                    del self._blocks[at]
                    del self._firsts[max(0, at - 1)]
                return
        raise KeyError(id)

    def all(self, into: list[Ids]) -> None:
        into += [block.ids[: block.size] for block in self._blocks]

    def up_to(self, key: int, into: list[Ids]) -> None:
        """Adds the ids whose keys are not above."""
        at = bisect_right(self._firsts, key) if self._firsts else 0
        block = self._blocks[at]
        into.append(block.ids[: block.keys[: block.size].searchsorted(key, "right")])
        if at:
            into += [each.ids[: each.size] for each in self._blocks[:at]]

    def from_(self, key: int, into: list[Ids]) -> None:
        """Adds the ids whose keys are not below."""
        at = bisect_left(self._firsts, key) if self._firsts else 0
        block = self._blocks[at]
        into.append(block.ids[block.keys[: block.size].searchsorted(key, "left") : block.size])
        if at < len(self._firsts):
            into += [each.ids[: each.size] for each in self._blocks[at + 1 :]]
