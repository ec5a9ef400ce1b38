"""The results of a flow simulation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tocsin.balancing.model.arrays import Floats, Longs


class Migration(NamedTuple):
    """``time`` is when the subscriber arrived."""

    time: float
    subscriber: int
    source: int
    target: int
    reason: str


@dataclass
class Samples:
    """One sample for each evaluation: samples × brokers, or samples."""

    time: Floats
    incoming: Floats  # I, from the reported rates
    outgoing: Floats  # O
    subscribers: Longs
    fetched: Longs  # bytes since the last sample, exactly
    delivered: Longs
    migrations: Longs  # arrived so far
    bound: Floats
    capacity: Floats

    @property
    def load(self) -> Floats:
        """F of each broker."""
        return self.incoming + self.outgoing

    @property
    def relative(self) -> Floats:
        return np.asarray(self.load / self.capacity, dtype=np.float64)

    @property
    def maximum(self) -> Floats:
        return np.asarray(self.relative.max(axis=1), dtype=np.float64)

    @property
    def mean(self) -> Floats:
        return np.asarray(self.relative.mean(axis=1), dtype=np.float64)

    @property
    def cov(self) -> Floats:
        mean = self.mean
        found: Floats = np.divide(self.relative.std(axis=1), mean, out=np.zeros(len(mean)), where=mean > 0)
        return found


@dataclass
class Run:
    """``deliveries`` and bytes are whole numbers for each broker: nothing is estimated."""

    samples: Samples
    deliveries: Longs
    bytes_in: Longs
    bytes_out: Longs
    executions: int  # of BE subscriptions that had subscribers
    at: Longs  # the broker of each subscriber in the end; -1: it has logged out
    migrations: list[Migration] = field(default_factory=list)
