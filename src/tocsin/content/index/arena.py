"""Rows of whole numbers for many small lists in one array: each list has a region that grows by doubling."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_FIRST = 1024


class Arena:
    """``rows`` is replaced when it grows: do not keep it."""

    def __init__(self, width: int) -> None:
        self.rows: NDArray[np.int64] = np.empty((_FIRST, width), np.int64)
        self._used = 0
        self._free: dict[int, list[int]] = {}

    def allocate(self, size: int) -> int:
        """The first row of a region of this size."""
        free = self._free.get(size)
        if free:
            return free.pop()
        start = self._used
        self._used += size
        self.rows = grown(self.rows, self._used)
        return start

    def release(self, start: int, size: int) -> None:
        self._free.setdefault(size, []).append(start)

    @property
    def bytes(self) -> int:
        return int(self.rows.nbytes)


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """The array, or a copy of it with room for at least this many rows."""
    if size <= len(array):
        return array
    larger = np.empty((max(size, len(array) + len(array) // 2), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
