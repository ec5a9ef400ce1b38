"""Drains brokers that are to be stopped: suggests a target for each of their subscribers.

Its objective is not balance but an empty broker, so its migrations are mandatory. The target is the broker with the
lowest relative load afterwards, which favours brokers that already hold the subscriber's subscriptions.
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
            view.migrate(u, target)
            yield Migration(
                u, source, target, gain=float(view.u[u]), mandatory=True, reason="drain: its broker is draining"
            )

    def objective(self, view: WhatIf) -> float:
        """How many subscribers are left there."""
        return float(view.count[view.status == Status.DRAINING].sum())
