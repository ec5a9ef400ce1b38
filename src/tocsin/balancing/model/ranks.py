"""The subscribers of each broker, heaviest first, updated by migrations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tocsin.balancing.model.arrays import Longs
from tocsin.balancing.model.what_if import WhatIf

#: How many are examined together: usually the first fits, and rarely none does.
STEPS = (1, 8, 64, 512, 4096)


class Ranks:
    """A broker's list is sorted on demand only: most brokers only receive."""

    def __init__(self, view: WhatIf) -> None:
        order = np.lexsort((np.arange(len(view.u)), -view.u))
        self._rank = np.empty(len(order), dtype=np.int64)
        self._rank[order] = np.arange(len(order))
        self._order = order
        by_broker = order[np.argsort(view.at[order], kind="stable")]
        ends = np.searchsorted(view.at[by_broker], np.arange(view.m + 1))
        self._here: list[Longs] = [self._rank[by_broker[ends[j] : ends[j + 1]]] for j in range(view.m)]
        self._came: list[list[int]] = [[] for _ in range(view.m)]

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
        rank, here = self._rank[u], self._here[source]
        if len(here) and here[0] == rank:
            self._here[source] = here[1:]
        else:
            self._here[source] = np.delete(here, np.searchsorted(here, rank))
        self._came[target].append(int(rank))
