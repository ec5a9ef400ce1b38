"""Emptying brokers that are to be stopped is a strategy like any other: it suggests a place for each of their people.

Its objective is not balance but that nobody is left there, so its moves are musts. Among the places it takes the one
whose relative load is the lowest afterwards: one that holds the subscriber's subscriptions already is lower.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tocsin.balancing.model.load import Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf


@dataclass
class Drain:
    def suggest(self, view: WhatIf) -> Iterator[Migration]:
        leaving = np.flatnonzero((view.at >= 0) & (view.status == Status.DRAINING)[view.at])
        for u in leaving[np.argsort(-view.u[leaving], kind="stable")].tolist():
            accepts = view.accepts
            if not accepts.any():
                return
            source = int(view.at[u])
            after = np.where(accepts, view.relative + view.added(u) / view.capacity, np.inf)
            target = int(np.argmin(after))
            view.move(u, target)
            yield Migration(
                u, source, target, worth=float(view.u[u]), must=True, why="drain: its broker is to be stopped"
            )

    def objective(self, view: WhatIf) -> float:
        """How many are left."""
        return float(view.count[view.status == Status.DRAINING].sum())
