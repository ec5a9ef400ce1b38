"""The subscribers of each broker, heaviest first, updated by migrations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tocsin.balancing.model.arrays import Floats, Ints, Longs

#: How many are examined together: usually the first fits, and rarely none does.
STEPS = (1, 8, 64, 512, 4096)


class Ranks:
    """A broker's list is sorted on demand only: most brokers only receive."""

    def __init__(self, u: Floats, at: Ints, m: int) -> None:
        order = np.lexsort((np.arange(len(u)), -u))
        self._rank = np.empty(len(order), dtype=np.int64)
        self._rank[order] = np.arange(len(order))
        self._order = order
        by_broker = order[np.argsort(at[order], kind="stable")]
        ends = np.searchsorted(at[by_broker], np.arange(m + 1))
        self._here: list[Longs] = [self._rank[by_broker[ends[j] : ends[j + 1]]] for j in range(m)]
        self._came: list[list[int]] = [[] for _ in range(m)]

    def chunks(self, j: int, first: int = 1) -> Iterator[Longs]:
        """The broker's subscribers, heaviest first (of equals the lower number), some at a time."""
        if self._came[j]:
            self._here[j] = np.sort(np.concatenate([self._here[j], np.array(self._came[j])]))
            self._came[j].clear()
        here, begin, turn = self._here[j], 0, 0
        while begin < len(here):
            step = max(first, STEPS[min(turn, len(STEPS) - 1)])
            yield self._order[here[begin : begin + step]]
            begin, turn = begin + step, turn + 1

    def migrate(self, u: int, source: int, target: int) -> None:
        """A negative number is no broker."""
        rank = self._rank[u]
        if source >= 0:
            here = self._here[source]
            if len(here) and here[0] == rank:
                self._here[source] = here[1:]
            elif rank in self._came[source]:
                self._came[source].remove(int(rank))
            else:
                self._here[source] = np.delete(here, np.searchsorted(here, rank))
        if target >= 0:
            self._came[target].append(int(rank))
