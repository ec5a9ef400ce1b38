"""SDM, similarity-based dynamic migration (DEBS 2019): of the brokers below μ, the one that shares most with it.

a) criteria: the load relative to capacity.
b) load state estimation: cov > α and μ > β.
c) decision: with each evaluation of the coordinator.
d) method: subscribers migrate.
e) load moved: the heaviest subscriber of the most loaded broker that has a valid migration.
f) target: of the brokers below the mean the one that shares most with it.
g), h) exchange and recipients: brokers report to the coordinator.

The paper restricts destinations to brokers below a threshold, "maybe the average load": line 15 says μ, so μ it is.
Only the most similar broker is tried for each subscriber, as printed, even if the second best would have been valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.balancing.catalogue.blueprint import MAIN, StageParts
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.model.arrays import Flags, Longs
from tocsin.balancing.model.what_if import LOAD, WhatIf
from tocsin.balancing.strategies.debs2019.dynamic_migration import DynamicMigration
from tocsin.balancing.strategies.strategy import StagedStrategy, composed


@dataclass
class SDM(DynamicMigration):
    """The heaviest subscriber of the most loaded broker goes to the broker below the mean that shares most with it."""

    _reason = "SDM: heaviest of the most loaded to the most similar below the mean"

    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        below = np.flatnonzero(open_ & (view.relative < view.relative[view.live].mean()))
        # In order of load, so that of equally similar ones the first is the least loaded.
        return below[np.argsort(view.relative[below], kind="stable")]


def sdm(alpha: float = 0.15, beta: float = 0.0) -> StagedStrategy:
    """``alpha`` bounds cov, ``beta`` is the mean load below which imbalance does no harm."""
    return composed(StageParts(MAIN, LOAD, use("cov", alpha=alpha, beta=beta), use("sdm")))
