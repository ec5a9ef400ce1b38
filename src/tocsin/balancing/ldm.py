"""LDM, load-based dynamic migration (DEBS 2019): the destination is the least loaded broker."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tocsin.balancing.arrays import Flags, Floats, Longs
from tocsin.balancing.migration import Migration
from tocsin.balancing.trial import Trial


@dataclass
class LDM(Migration):
    _why = "LDM: heaviest of the most loaded to the least loaded"

    def _targets(self, view: Trial, us: Longs, open_: Flags) -> tuple[Longs, Floats]:
        target = int(np.argmin(np.where(open_, view.relative, np.inf)))
        return np.full(len(us), target), view.added_to(us, target)
