"""SDM, similarity-based dynamic migration (DEBS 2019): of the brokers below μ, the one that shares most with it.

The paper restricts destinations to brokers below a threshold, "maybe the average load": line 15 says μ, so μ it is.
Only the most similar broker is tried for each subscriber, as printed, even if the second best would have been valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.balancing.model.arrays import Flags, Longs
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.debs2019.dynamic_migration import DynamicMigration


@dataclass
class SDM(DynamicMigration):
    _reason = "SDM: heaviest of the most loaded to the most similar below the mean"

    def _goals(self, view: WhatIf, open_: Flags) -> Longs:
        below = np.flatnonzero(open_ & (view.relative < view.relative[view.live].mean()))
        # In order of load, so that of equally similar ones the first is the least loaded.
        return below[np.argsort(view.relative[below], kind="stable")]
