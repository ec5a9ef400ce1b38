"""Dynamic migration, what LDM and SDM have in common: Algorithm 1 of the DEBS paper, lines 5 to 25.

While cov > α and μ > β, the heaviest subscriber of the most loaded broker that has a valid migration migrates. The two
schemes differ only in the brokers that may be the destination b'. One iteration makes one migration.

What the printed pseudocode leaves open, and what we do:

- Line 17 compares the present loads. The text says that the destination *after* the migration may not exceed the
  original load of the source: the text is followed.
- A destination that ends exactly at the source's original load would exchange the two brokers' roles, and the loop
  would not end (two brokers, one subscriber). It has to end below.
- If the most loaded broker has no valid migration, the printed loop never ends. We stop, because the maximum cannot be
  lowered. The text agrees ("until no further subscriber migration can be performed").
- A subscriber without load could migrate endlessly too; it stays.
- Equal brokers: the lower number. Equal subscribers: the lower number. Equal similarity: the less loaded broker.
- A subscriber that migrates twice goes straight to the last destination.
- Loads are relative to capacity. Brokers that are full, draining or gone are not destinations; draining and gone ones
  do not count in cov and μ either, because another strategy empties them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.model.arrays import Flags, Longs
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.strategy import MIGRATES, View

#: A load counts as lower below this share of another; otherwise rounding could swap two loads endlessly.
LESS = 1 - 1e-9


class Route(NamedTuple):
    """From the most loaded broker to one of these, the first ones preferred among equals."""

    source: int
    goals: Longs


class DynamicMigration(ABC):
    model: ClassVar[str] = "subscribers"
    actions: ClassVar[frozenset[ActionKind]] = MIGRATES
    repeats: ClassVar[bool] = True
    revises: ClassVar[bool] = True

    def select_target(self, scope: View, criterion: str, state: LoadState) -> Route | None:
        view = scope.model
        if not view.m:
            return None
        relative = view.relative if view.all_live else np.where(view.live, view.relative, -np.inf)
        source = int(relative.argmax())
        if not view.live[source]:
            return None
        open_ = view.accepts
        open_[source] = False
        goals = self._goals(view, open_)
        return Route(source, goals) if len(goals) else None

    def select_load_to_move(
        self, scope: View, criterion: str, state: LoadState, target: Route
    ) -> tuple[int, int] | None:
        """The subscriber, and its destination."""
        view, (b, goals) = scope.model, target
        limit = float(view.relative[b]) * LESS
        for us in view.ranks.chunks(b):
            if len(us) == 1:
                u = int(us[0])
                best, added = most_similar(view, u, goals)
                goal = int(goals[best])
                if added > 0 and float(view.relative[goal]) + added / float(view.capacity[goal]) < limit:
                    return u, goal
                continue
            added_each = view.added_to(us, int(goals[0]))[:, None] if len(goals) == 1 else view.added_all(us)[:, goals]
            first = np.argmin(added_each, axis=1)
            targets, least = goals[first], added_each[np.arange(len(us)), first]
            after = view.relative[targets] + least / view.capacity[targets]
            valid = np.flatnonzero((least > 0) & (after < limit))
            if len(valid):
                return int(us[valid[0]]), int(targets[valid[0]])
        return None

    def rebalance(
        self, scope: View, criterion: str, state: LoadState, target: Route, load: tuple[int, int] | None
    ) -> Iterator[Migration]:
        if load is None:
            return
        view, b, (u, goal) = scope.model, target.source, load
        gain = float(view.relative[b])
        view.migrate(u, goal)
        gain -= max(float(view.relative[b]), float(view.relative[goal]))
        yield Migration(u, b, goal, gain, reason=self._reason)

    _reason = ""

    @abstractmethod
    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        """The brokers that may be b', the least loaded first; a subscriber goes to the one that shares most with it."""


def most_similar(view: WhatIf, u: int, goals: Longs) -> tuple[int, float]:
    """Which of these brokers u adds least to, the first of equals, and how much that is."""
    at_first = view.added_at(u, int(goals[0]))
    # It can add no less than what is delivered to it.
    if len(goals) == 1 or at_first == view.u[u]:
        return 0, at_first
    added = view.added(u)[goals]
    best = int(added.argmin())
    return best, float(added[best])
