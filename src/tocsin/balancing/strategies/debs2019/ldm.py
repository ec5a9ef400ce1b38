"""LDM, load-based dynamic migration (DEBS 2019): the destination is the least loaded broker.

a) criteria: the load relative to capacity.
b) load state estimation: cov > α and μ > β.
c) decision: with each evaluation of the coordinator.
d) method: subscribers migrate.
e) load moved: the heaviest subscriber of the most loaded broker that has a valid migration.
f) target: the least loaded broker.
g), h) exchange and recipients: brokers report to the coordinator.
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
class LDM(DynamicMigration):
    """The heaviest subscriber of the most loaded broker that has a valid migration goes to the least loaded broker."""

    _reason = "LDM: heaviest of the most loaded to the least loaded"

    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        return np.array([np.where(open_, view.relative, np.inf).argmin()]) if open_.any() else np.empty(0, np.int64)


def ldm(alpha: float = 0.15, beta: float = 0.0) -> StagedStrategy:
    """``alpha`` bounds cov, ``beta`` is the mean load below which imbalance does no harm."""
    return composed(StageParts(MAIN, LOAD, use("cov", alpha=alpha, beta=beta), use("ldm")))
