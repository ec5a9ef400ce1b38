"""Drains brokers that are to be stopped: suggests a target for each of their subscribers.

Its objective is not balance but an empty broker, so its migrations are mandatory.

a) criteria: the subscribers of draining brokers.
b) load state estimation: a draining broker still has some.
c) decision: with each evaluation of the coordinator, and at once when draining begins.
d) method: subscribers migrate.
e) load moved: all of them, heaviest first.
f) target: the broker with the lowest relative load afterwards, which favours brokers that already hold the
   subscriber's subscriptions.
g), h) exchange and recipients: brokers report to the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tocsin.balancing.catalogue.blueprint import StageParts
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.model.arrays import Flags, Longs
from tocsin.balancing.model.load import Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import DRAINING
from tocsin.balancing.strategies.strategy import MIGRATES, StagedStrategy, View, composed


@dataclass
class Drain:
    """Every subscriber of a draining broker goes where the relative load is lowest afterwards, heaviest first."""

    model: ClassVar[str] = "subscribers"
    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select_target(self, scope: View, criterion: str, state: LoadState) -> Flags | None:
        """The brokers that accept subscribers."""
        accepts = scope.model.accepts
        return accepts if accepts.any() else None

    def select_load_to_move(self, scope: View, criterion: str, state: LoadState, target: Flags) -> Longs:
        view = scope.model
        leaving = np.flatnonzero((view.at >= 0) & (view.status == Status.DRAINING)[view.at])
        return leaving[np.argsort(-view.u[leaving], kind="stable")]

    def rebalance(
        self, scope: View, criterion: str, state: LoadState, target: Flags, load: Longs
    ) -> Iterator[Migration]:
        view = scope.model
        for u in load.tolist():
            accepts = view.accepts
            if not accepts.any():
                return
            source = int(view.at[u])
            after = np.where(accepts, view.relative + view.added(u) / view.capacity, np.inf)
            goal = int(np.argmin(after))
            view.migrate(u, goal)
            yield Migration(
                u, source, goal, gain=float(view.u[u]), mandatory=True, reason="drain: its broker is draining"
            )


def drain() -> StagedStrategy:
    return composed(StageParts("drain", DRAINING, use("draining"), use("drain"), fixed=True))
