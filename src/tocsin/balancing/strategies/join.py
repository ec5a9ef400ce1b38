"""A new broker takes its share: brokers far below the mean are filled up to it from the most loaded ones.

No other subscriber migrates.

a) criteria: the load relative to capacity.
b) load state estimation: a broker below a share of the mean is new.
c) decision: with each evaluation of the coordinator.
d) method: subscribers migrate.
e) load moved: of the heavy subscribers of the most loaded broker those that relieve it most for what they cost the new
   broker, so an empty broker fills with subscribers that share subscriptions.
f) target: the least loaded of the new brokers.
g), h) exchange and recipients: brokers report to the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tocsin.balancing.catalogue.blueprint import MAIN, StageParts
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import LOAD, WhatIf
from tocsin.balancing.strategies.strategy import MIGRATES, StagedStrategy, View, composed

#: The best of this many of the heaviest is taken.
CHOICE = 64


@dataclass
class Join:
    """Brokers below ``share`` of the mean are filled up to it from the most loaded ones."""

    share: float = 0.5
    model: ClassVar[str] = "subscribers"
    actions: ClassVar[frozenset[ActionKind]] = MIGRATES

    def select_target(self, scope: View, criterion: str, state: LoadState) -> set[int] | None:
        view = scope.model
        return set(np.flatnonzero(view.accepts & (view.relative < self.share * view.mean)).tolist()) or None

    def select_load_to_move(self, scope: View, criterion: str, state: LoadState, target: set[int]) -> float:
        """The load up to which each of them is filled, and above which brokers give."""
        return scope.model.mean

    def rebalance(
        self, scope: View, criterion: str, state: LoadState, target: set[int], load: float
    ) -> Iterator[Migration]:
        view, new, mean = scope.model, set(target), load
        givers = view.live.copy()
        givers[list(new)] = False
        while new and givers.any():
            goal = min(new, key=lambda j: (view.relative[j], j))
            source = int(np.argmax(np.where(givers, view.relative, -np.inf)))
            found = self._pick(view, source, goal, mean) if view.accepts[goal] else None
            if view.relative[source] <= mean or found is None:
                new.discard(goal)
                continue
            gain = float(view.relative[source])
            view.migrate(found, goal)
            gain -= float(max(view.relative[source], view.relative[goal]))
            yield Migration(found, source, goal, gain, reason="join: the new broker's share")

    def _pick(self, view: WhatIf, source: int, target: int, mean: float) -> int | None:
        for us in view.ranks.chunks(source, CHOICE):
            added, released = view.added_to(us, target), view.releases(us)
            fits = (added > 0) & (view.relative[target] + added / view.capacity[target] <= mean)
            if fits.any():
                return int(us[np.argmax(np.where(fits, released, 0.0) / np.where(fits, added, 1.0))])
        return None


def join(share: float = 0.5) -> StagedStrategy:
    return composed(StageParts(MAIN, LOAD, use("newcomer", share=share), use("join", share=share)))
