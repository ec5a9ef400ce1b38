"""A what-if copy of the load: strategies try migrations on it before they suggest them.

It shares rates and subscriptions with the original load and copies only what a migration changes. F is updated by exact
differences, so a migration costs microseconds whatever the size of the cluster.

A migration reads one subscriber's subscriptions at two brokers: n is stored broker by broker, so that these are two
short rows of memory. Which brokers hold one subscriber's subscriptions is read as often and changes rarely: ``held`` is
stored subscription by subscription.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tocsin.balancing.model.arrays import Flags, Floats, Ints, Longs, summed
from tocsin.balancing.model.load import NOWHERE, Load, Status
from tocsin.balancing.model.loads import Loads
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.ranks import Ranks

#: The criteria of this load model, in order of priority.
DRAINING, LOAD = "draining", "load"
#: Rows × brokers processed at once; bounds the memory of a large query.
CHUNK = 1 << 21
#: From this many migrations on, n is summed again as a whole instead of updated one by one.
MANY = 200


class WhatIf:
    """Its owner may migrate any subscriber in it. ``only``: the subscribers to try, if they are few; only their ``u``
    is summed."""

    def __init__(self, load: Load, only: Longs | None = None) -> None:
        self.rows, self.lam = load.rows, load.lam
        self.capacity, self.max_subscribers, self.status = load.capacity, load.max_subscribers, load.status
        self.live: Flags = load.live
        self.all_live = bool(self.live.all())
        #: What was derived from this state and takes long; a migration clears it.
        self.derived: dict[str, Any] = {}
        self._ranks: Ranks | None = None
        self.by_broker: Ints = load.n.T.copy()
        self.held: Flags = load.n > 0
        self.at = load.at.copy()
        self.count = load.count.copy()
        self._open: Flags = self.status == Status.OPEN.value
        self._accepts: Flags = self._open & (self.count < self.max_subscribers)
        loads = load.loads
        self.I, self.O = loads.I, loads.O
        self.F: Floats = loads.F.copy()
        self.relative: Floats = loads.relative.copy()
        us = np.arange(len(self.rows)) if only is None else only
        self.u: Floats = np.zeros(len(self.rows))
        self.u[us] = self.rows.sums(us, self.lam)
        self._spread()

    def _spread(self) -> None:
        """Views of the same array: n as subscription × broker, and one row for each broker."""
        self.n: Ints = self.by_broker.T
        self._mine: list[Ints] = list(self.by_broker)

    def fork(self) -> WhatIf:
        """A copy of this state."""
        other = object.__new__(WhatIf)
        other.__dict__.update(self.__dict__)
        for name in ("by_broker", "held", "at", "count", "_accepts", "I", "O", "F", "relative"):
            setattr(other, name, getattr(self, name).copy())
        other.derived, other._ranks = dict(self.derived), None
        other._spread()
        return other

    def become(self, other: WhatIf) -> None:
        """Take over the state of a copy, which is not used any more."""
        self.__dict__.update(other.__dict__)

    # As a load model of the host that decides about all brokers.

    criteria = (DRAINING, LOAD)

    def measure(self, criterion: str) -> float:
        """Smaller is better: subscribers of brokers that are being drained, or the largest relative load."""
        if criterion == DRAINING:
            return float(self.count[self.status == Status.DRAINING].sum())
        return self.loads.maximum

    def apply(self, action: Migration) -> None:
        self.migrate(action.subscriber, action.target)

    def what_if(self) -> WhatIf:
        return self.fork()

    @property
    def ranks(self) -> Ranks:
        """The subscribers of each broker, heaviest first; sorted once, and updated by each migration from then on."""
        if self._ranks is None:
            self._ranks = Ranks(self.u, self.at, self.m)
        return self._ranks

    def after(self, migrations: Iterable[Migration]) -> WhatIf:
        """A copy with these migrations made; of two migrations of one subscriber the last counts."""
        last = {migration.subscriber: migration.target for migration in migrations}
        other = self.fork()
        other.migrate_all(np.array(list(last), dtype=np.int64), np.array(list(last.values()), dtype=np.int64))
        return other

    @property
    def m(self) -> int:
        return len(self.capacity)

    @property
    def accepts(self) -> Flags:
        """Which brokers accept one more subscriber."""
        return self._accepts.copy()

    @property
    def loads(self) -> Loads:
        return Loads(self.I.copy(), self.O.copy(), self.capacity, self.live)

    def subscribers(self, j: int) -> Longs:
        return np.flatnonzero(self.at == j)

    def migrate(self, u: int, target: int) -> None:
        row, source = self.rows[u], int(self.at[u])
        weight = float(self.u[u])
        if self.derived:
            self.derived.clear()
        if self._ranks is not None:
            self._ranks.migrate(u, source, target)
        if source != NOWHERE:
            left = self._mine[source][row]
            left -= 1
            self._mine[source][row] = left
            gone = 0.0
            if np.count_nonzero(left) < len(row):
                only = row[left == 0]
                self.held[only, source] = False
                gone = float(self.lam[only].sum())
            self._changed(source, -gone, -weight, -1)
        if target != NOWHERE:
            there = self._mine[target][row]
            came = 0.0
            if np.count_nonzero(there) < len(row):
                new = row[there == 0]
                self.held[new, target] = True
                came = float(self.lam[new].sum())
            there += 1
            self._mine[target][row] = there
            self._changed(target, came, weight, 1)
        self.at[u] = target

    def _changed(self, j: int, incoming: float, outgoing: float, count: int) -> None:
        here = int(self.count[j]) + count
        self.count[j] = here
        self._accepts[j] = self._open[j] and here < self.max_subscribers[j]
        if here == 0:
            self.I[j] = self.O[j] = self.F[j] = self.relative[j] = 0.0
            return
        fetched, delivered = float(self.I[j]) + incoming, float(self.O[j]) + outgoing
        self.I[j], self.O[j], self.F[j] = fetched, delivered, fetched + delivered
        self.relative[j] = (fetched + delivered) / float(self.capacity[j])

    def migrate_all(self, us: Longs, targets: Longs) -> None:
        """Migrate each of these to its target."""
        if len(us) < MANY:
            for u, target in zip(us.tolist(), targets.tolist(), strict=True):
                self.migrate(u, target)
            return
        self.derived.clear()
        self._ranks = None
        q, cells = len(self.lam), self.by_broker.size
        for part, some in self.rows.parts(us):
            size, items = self.rows.gather(some)
            for brokers, change in ((self.at[some], -1), (targets[part], 1)):
                where = np.repeat(brokers.astype(np.int64), size)
                here = where != NOWHERE
                counted = np.bincount(where[here] * q + items[here], minlength=cells)
                self.by_broker += (change * counted).astype(np.int32).reshape(self.m, q)
        self.at[us] = targets
        self.held = np.ascontiguousarray(self.n > 0)
        self.count = np.bincount(self.at[self.at != NOWHERE], minlength=self.m).astype(np.int64)
        self._accepts = self._open & (self.count < self.max_subscribers)
        self.I, self.O = self.lam @ self.held, self.by_broker @ self.lam
        self.F = self.I + self.O
        self.relative = self.F / self.capacity

    def release(self, u: int) -> float:
        """How much load its broker loses if u leaves: its deliveries, and fetches that only u needs."""
        row = self.rows[u]
        return float(self.u[u] + self.lam[row[self._mine[self.at[u]][row] == 1]].sum())

    def added(self, u: int) -> Floats:
        """For each broker, the load that u would add: its deliveries, and fetches of what is not held there yet."""
        row = self.rows[u]
        return np.asarray(self.u[u] + self.lam[row] @ ~self.held[row], dtype=np.float64)

    def added_at(self, u: int, j: int) -> float:
        """``added`` at one broker."""
        row = self.rows[u]
        there = self._mine[j][row]
        missing = 0.0
        if np.count_nonzero(there) < len(row):
            missing = float(self.lam[row[there == 0]].sum())
        return float(self.u[u]) + missing

    @property
    def mean(self) -> float:
        """The relative load of every live broker if the load could be shared to the last byte."""
        strength = float(self.capacity[self.live].sum())
        return float(self.F[self.live].sum()) / strength if strength else 0.0

    @property
    def bound(self) -> float:
        """The lower bound on the maximum: ``mean`` if only one broker fetched each subscription."""
        strength = float(self.capacity[self.live].sum())
        fetched = float(self.lam[self.held[:, self.live].any(axis=1)].sum())
        return (float(self.O[self.live].sum()) + fetched) / strength if strength else 0.0

    def releases(self, us: Longs) -> Floats:
        """``release`` of many."""
        out, q, flat = np.empty(len(us)), len(self.lam), self.by_broker.ravel()
        for part, some in self.rows.parts(us):
            size, items = self.rows.gather(some)
            owner = np.repeat(np.arange(len(some)), size)
            alone = flat[np.repeat(self.at[some].astype(np.int64) * q, size) + items] == 1
            out[part] = self.u[some] + summed(owner, self.lam[items] * alone, len(some))
        return out

    def added_to(self, us: Longs, target: int) -> Floats:
        """``added`` of many at one broker."""
        out = np.empty(len(us))
        missing = np.where(self._mine[target] == 0, self.lam, 0.0)
        for part, some in self.rows.parts(us):
            size, items = self.rows.gather(some)
            owner = np.repeat(np.arange(len(some)), size)
            out[part] = self.u[some] + summed(owner, missing[items], len(some))
        return out

    def added_all(self, us: Longs) -> Floats:
        """``added`` of many at every broker: subscribers × brokers."""
        out = np.empty((len(us), self.m))
        # A few subscribers have fewer rows than there are subscriptions.
        few = 40 * len(us) < len(self.lam)
        missing = np.empty(0) if few else ~self.held * self.lam[:, None]
        step = max(1, CHUNK // (self.m * max(1, int(self.rows.size[us].mean()) if len(us) else 1)))
        for begin in range(0, len(us), step):
            some = us[begin : begin + step]
            size, items = self.rows.gather(some)
            part = np.zeros((len(some), self.m))
            filled = size > 0
            if len(items):
                first = (np.cumsum(size) - size)[filled]
                lacking = ~self.held[items] * self.lam[items, None] if few else missing[items]
                part[filled] = np.add.reduceat(lacking, first, axis=0)
            out[begin : begin + step] = part + self.u[some, None]
        return out
