"""The load model of the DEBS paper (section 4), exact and incremental.

    z_jk = 1 if broker j holds BE subscription k            I_j = Σ_k z_jk λ_k       what it fetches
    n_jk = FE subscriptions of k at broker j                O_j = Σ_k n_jk λ_k       what it delivers
    F_j  = I_j + O_j = Σ_k z_jk (1 + n_jk) λ_k              cov = σ / μ of the F_j

Only the integers n are updated; I and O are summed from them on demand, and only for the brokers that changed. So no
rounding error accumulates, and an empty broker has load 0.0 and not 1e-12.

Subscribers, brokers and BE subscriptions are small integers here; ``Interner`` maps names to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum

import numpy as np

from tocsin.balancing.model.arrays import Flags, Floats, Ints, Longs, summed
from tocsin.balancing.model.loads import Loads
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.rows import Rows

#: Broker of a subscriber that is at no broker.
NOWHERE = -1
#: ``max_subscribers`` of a broker without a limit on its subscribers.
UNLIMITED = np.iinfo(np.int32).max


class Status(IntEnum):
    OPEN = 0  # accepts subscribers
    FULL = 1  # serves, and reports that it accepts no more
    DRAINING = 2  # serves until all subscribers have left
    GONE = 3  # left or dead


class Load:
    """Which subscriber is at which broker, and the resulting load. ``capacity`` 2.0 carries twice as much as 1.0."""

    def __init__(self, brokers: int = 0, subscriptions: int = 0) -> None:
        self.lam: Floats = np.zeros(subscriptions)
        self.n: Ints = np.zeros((subscriptions, brokers), dtype=np.int32)
        self.rows = Rows()
        self.at: Ints = np.empty(0, dtype=np.int32)
        self.capacity: Floats = np.ones(brokers)
        self.max_subscribers: Longs = np.full(brokers, UNLIMITED, dtype=np.int64)
        self.status: Ints = np.zeros(brokers, dtype=np.int32)
        self.count: Longs = np.zeros(brokers, dtype=np.int64)
        self._I: Floats = np.zeros(brokers)
        self._O: Floats = np.zeros(brokers)
        self._stale: Flags = np.zeros(brokers, dtype=np.bool_)

    @classmethod
    def of(cls, rows: Rows, lam: Floats, at: Ints, capacity: Floats) -> Load:
        """All at once, for large clusters."""
        load = cls(len(capacity), len(lam))
        load.lam = np.array(lam, dtype=np.float64)
        load.capacity = np.array(capacity, dtype=np.float64)
        load.rows, load.at = rows, np.array(at, dtype=np.int32)
        here = np.flatnonzero(load.at != NOWHERE)
        size, items = rows.gather(here)
        m = len(capacity)
        cells = items.astype(np.int64) * m + np.repeat(load.at[here], size)
        load.n = np.bincount(cells, minlength=len(lam) * m).astype(np.int32).reshape(len(lam), m)
        load.count = np.bincount(load.at[here], minlength=m).astype(np.int64)
        load._stale[:] = True
        return load

    def snapshot(self) -> Load:
        """A copy: plans are made on it while this load goes on changing."""
        made = object.__new__(Load)
        for name, value in vars(self).items():
            setattr(made, name, value.copy())
        return made

    # Changes.

    def join(self, u: int, broker: int = NOWHERE, subscriptions: Iterable[int] = ()) -> None:
        """Add a subscriber with its subscriptions, or replace it."""
        self.leave(u)
        self._reach_subscriber(u)
        row = list(dict.fromkeys(subscriptions))
        if row:
            self._reach_subscription(max(row))
        self.rows.put(u, row)
        self.attach(u, broker)

    def leave(self, u: int) -> None:
        """Remove a subscriber and its subscriptions."""
        if u < len(self.at):
            self.attach(u, NOWHERE)
            self.rows.put(u, ())

    def attach(self, u: int, broker: int) -> None:
        """Put a subscriber at this broker (``NOWHERE``: at none)."""
        row, old = self.rows[u], int(self.at[u])
        if old != NOWHERE:
            self.n[row, old] -= 1
            self.count[old] -= 1
            self._stale[old] = True
        if broker != NOWHERE:
            self.n[row, broker] += 1
            self.count[broker] += 1
            self._stale[broker] = True
        self.at[u] = broker

    def rate(self, k: int, lam: float) -> None:
        self.rates([k], [lam])

    def rates(self, ks: Sequence[int] | Longs, lams: Sequence[float] | Floats) -> None:
        """Set data rates; brokers that hold none of these keep their sums."""
        if len(ks):
            self._reach_subscription(int(np.max(ks)))
            self.lam[ks] = lams
            self._stale |= (self.n[ks] > 0).any(axis=0)

    def broker(
        self, j: int, capacity: float = 1.0, max_subscribers: int = UNLIMITED, status: Status = Status.OPEN
    ) -> None:
        """Add or update a broker."""
        if capacity <= 0:
            raise ValueError(f"broker {j}: capacity {capacity} is not above 0")
        self._reach_broker(j)
        self.capacity[j], self.max_subscribers[j], self.status[j] = capacity, max_subscribers, status

    def mark(self, j: int, status: Status) -> None:
        """Set the status of a broker; the subscribers of one that is gone are at no broker."""
        self.status[j] = status
        for u in self.subscribers(j) if status == Status.GONE else ():
            self.attach(u, NOWHERE)

    # Results.

    @property
    def m(self) -> int:
        return len(self.capacity)

    @property
    def live(self) -> Flags:
        return self.status <= Status.FULL.value  # comparing with an enum member takes NumPy ten times as long

    @property
    def loads(self) -> Loads:
        if self._stale.any():
            stale = np.flatnonzero(self._stale)
            n = self.n[:, stale]
            self._I[stale], self._O[stale] = self.lam @ (n > 0), self.lam @ n
            self._stale[:] = False
        return Loads(self._I.copy(), self._O.copy(), self.capacity, self.live)

    def as_if(self, migrations: Iterable[Migration]) -> Loads:
        """The loads after these migrations, from the changed counts only; the last one of each subscriber counts."""
        last = {migration.subscriber: migration.target for migration in migrations}
        us = np.array([u for u in last if self.at[u] not in (NOWHERE, last[u])], dtype=np.int64)
        loads = self.loads
        if not len(us):
            return loads
        m, target = self.m, np.array([last[u] for u in us.tolist()], dtype=np.int64)
        change, changed = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        for part, some in self.rows.parts(us):
            size, items = self.rows.gather(some)
            keys = items.astype(np.int64) * m
            cells = np.concatenate(
                [changed, keys + np.repeat(self.at[some], size), keys + np.repeat(target[part], size)]
            )
            signs = np.concatenate([change, np.repeat([-1, 1], len(items))])
            changed, place = np.unique(cells, return_inverse=True)
            change = np.bincount(place, signs, len(changed)).astype(np.int64)
        k, j = changed // m, changed % m
        old = self.n[k, j]
        held = ((old + change) > 0).astype(np.int32) - (old > 0)
        return Loads(
            loads.I + summed(j, held * self.lam[k], m),
            loads.O + summed(j, change * self.lam[k], m),
            self.capacity,
            loads.live,
        )

    def subscribers(self, j: int) -> list[int]:
        return [int(u) for u in np.flatnonzero(self.at == j)]

    def lower_bound(self) -> float:
        """No assignment has a smaller maximum: deliveries stay, and each subscription is fetched at least once."""
        wanted = self.n.any(axis=1)
        total = float(self.loads.O.sum() + self.lam[wanted].sum())
        strength = float(self.capacity[self.live].sum())
        return total / strength if strength else 0.0

    def _reach_subscriber(self, u: int) -> None:
        if u >= len(self.at):
            self.rows.reach(u + 1)
            none = np.full(len(self.rows) - len(self.at), NOWHERE, dtype=np.int32)
            self.at = np.concatenate([self.at, none])

    def _reach_subscription(self, k: int) -> None:
        more = k + 1 - len(self.lam)
        if more > 0:
            more = max(more, len(self.lam) // 2)
            self.lam = np.concatenate([self.lam, np.zeros(more)])
            self.n = np.concatenate([self.n, np.zeros((more, self.m), dtype=np.int32)])

    def _reach_broker(self, j: int) -> None:
        more = j + 1 - self.m
        if more > 0:
            self.n = np.concatenate([self.n, np.zeros((len(self.lam), more), dtype=np.int32)], axis=1)
            self.capacity = np.concatenate([self.capacity, np.ones(more)])
            self.max_subscribers = np.concatenate([self.max_subscribers, np.full(more, UNLIMITED, dtype=np.int64)])
            # A skipped number belongs to no broker.
            self.status = np.concatenate([self.status, np.full(more, Status.GONE, dtype=np.int32)])
            self.count = np.concatenate([self.count, np.zeros(more, dtype=np.int64)])
            self._I, self._O = (np.concatenate([part, np.zeros(more)]) for part in (self._I, self._O))
            self._stale = np.concatenate([self._stale, np.zeros(more, dtype=np.bool_)])
