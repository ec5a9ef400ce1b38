"""LDM, load-based dynamic migration (DEBS 2019): the destination is the least loaded broker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.balancing.model.arrays import Flags, Longs
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.debs2019.dynamic_migration import DynamicMigration


@dataclass
class LDM(DynamicMigration):
    _reason = "LDM: heaviest of the most loaded to the least loaded"

    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        return np.array([np.where(open_, view.relative, np.inf).argmin()]) if open_.any() else np.empty(0, np.int64)
