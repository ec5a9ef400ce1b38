"""The true load of a flow simulation: a load in which thousands connect, subscribe and migrate at once."""

from __future__ import annotations

import numpy as np

from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.balancing.model.load import NOWHERE, Load
from tocsin.balancing.model.rows import Rows
from tocsin.simulation.flow.workload import Workload


class Crowd(Load):
    """Rows have room for all that a subscriber will ever want; the beginning of each is what it wants already."""

    def __init__(self, work: Workload) -> None:
        super().__init__(work.brokers, work.backs)
        self.capacity = work.capacity.astype(np.float64)
        self.rows = Rows.packed(work.size, work.wanted)
        self.rows.size[:] = 0
        self.at = np.full(work.subscribers, NOWHERE, dtype=np.int32)
        self._in_order = not work.ends  # otherwise rows have gaps

    def come(self, us: Longs, brokers: Ints) -> None:
        """Subscribers who want nothing yet."""
        self.at[us] = brokers
        self.count += np.bincount(brokers, minlength=self.m)

    def make(self, us: Longs, ks: Ints) -> None:
        """The next subscription of each, as often as it is in ``us``; ``ks`` are those that the rows have there."""
        if self._in_order:
            np.add.at(self.rows.size, us, 1)
        else:
            for u, k in zip(us.tolist(), ks.tolist(), strict=True):
                self.rows.put(u, [*self.rows[u].tolist(), k])
        at = self.at[us]
        np.add.at(self.n, (ks, at), 1)
        self._stale[at] = True

    def end(self, u: int, k: int) -> None:
        """The subscriber unsubscribes from k."""
        row = self.rows[u]
        if self.at[u] != NOWHERE:
            self.n[k, self.at[u]] -= 1
            self._stale[self.at[u]] = True
        self.rows.put(u, row[row != k].tolist())

    def migrate(self, us: Longs, brokers: Longs) -> None:
        """Each with all that it wants."""
        size, items = self.rows.gather(us)
        source = self.at[us]
        np.subtract.at(self.n, (items, np.repeat(source, size)), 1)
        np.add.at(self.n, (items, np.repeat(brokers, size)), 1)
        self.at[us] = brokers
        self.count += np.bincount(brokers, minlength=self.m) - np.bincount(source, minlength=self.m)
        self._stale[source] = self._stale[brokers] = True
