"""The input of a flow simulation: sessions, subscriptions, and the results of channels, all with their times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tocsin.balancing.model.arrays import Floats, Ints, Longs


class Execution(NamedTuple):
    """A channel runs at this time and finds ``sizes`` bytes for each of these BE subscriptions."""

    time: float
    subscriptions: Longs
    sizes: Longs


@dataclass(frozen=True)
class Workload:
    """Subscribers, BE subscriptions and brokers are numbers from 0 on. ``wanted`` has each subscriber's BE
    subscriptions one after the other, in the order in which it makes them at the times ``made``; no one of them twice.
    """

    seconds: float
    capacity: Floats  # of each broker
    brokers_at: Floats  # broker × (latitude, longitude)
    people_at: Floats  # subscriber × (latitude, longitude), when it logs in
    login: Floats
    size: Longs  # how many BE subscriptions each subscriber makes
    wanted: Ints
    made: Floats
    executions: Sequence[Execution]  # in the order of time
    backs: int
    name: str = ""
    ended: Floats | None = None  # when each FE subscription is unsubscribed; infinity: never
    logout: Floats | None = None  # when each subscriber logs out, with all its subscriptions; infinity: never

    def __post_init__(self) -> None:
        owner = self.owner
        if len(self.wanted) != len(self.made) or len(self.wanted) != int(self.size.sum()):
            raise ValueError("sizes, wanted and made do not fit together")
        if np.any(self.made < self.login[owner]):
            raise ValueError("a subscriber subscribes before its login")
        same = owner[1:] == owner[:-1]
        if np.any(self.made[1:][same] < self.made[:-1][same]):
            raise ValueError("the subscriptions of a subscriber are not in order of time")
        if self.ended is not None and (len(self.ended) != len(self.made) or np.any(self.ended <= self.made)):
            raise ValueError("a subscription ends before it is made")
        if self.logout is not None and (
            len(self.logout) != len(self.login)
            or np.any(self.logout <= self.login)
            or np.any(self.made >= self.logout[owner])
        ):
            raise ValueError("a subscriber logs out before its login or before it subscribes")
        if any(a.time > b.time for a, b in zip(self.executions, self.executions[1:], strict=False)):
            raise ValueError("executions are not in the order of time")

    @property
    def subscribers(self) -> int:
        return len(self.login)

    @property
    def brokers(self) -> int:
        return len(self.capacity)

    @cached_property
    def owner(self) -> Longs:
        """The subscriber of each FE subscription."""
        return np.repeat(np.arange(len(self.size)), self.size)

    @cached_property
    def by_time(self) -> Longs:
        """The FE subscriptions in the order in which they are made."""
        return np.argsort(self.made, kind="stable")

    @cached_property
    def logins(self) -> Longs:
        """The subscribers in the order in which they come."""
        return np.argsort(self.login, kind="stable")

    @cached_property
    def ends(self) -> list[tuple[float, int, int]]:
        """Unsubscriptions and logouts in the order of time: the subscriber, and its BE subscription or -1."""
        found = []
        if self.ended is not None:
            some = np.flatnonzero(np.isfinite(self.ended)).tolist()
            found += [(float(self.ended[i]), int(self.owner[i]), int(self.wanted[i])) for i in some]
        if self.logout is not None:
            some = np.flatnonzero(np.isfinite(self.logout)).tolist()
            found += [(float(self.logout[u]), u, -1) for u in some]
        return sorted(found)
