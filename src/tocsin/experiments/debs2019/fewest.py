"""How few migrations would have been enough, known only afterwards."""

from __future__ import annotations

import numpy as np

from tocsin.balancing.model.load import NOWHERE, Load
from tocsin.balancing.model.rows import Rows
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.peal.repair import repair
from tocsin.experiments.debs2019.summary import STEADY
from tocsin.simulation.flow import Run, Workload


def fewest(work: Workload, unbalanced: Run, target: float) -> int:
    """Migrations with which no broker would have exceeded ``target`` in the last third: peal's repair of the state in
    which a run without balancing ends, with the mean rates of that time."""
    view = WhatIf(final(work, unbalanced))
    return len({migration.subscriber for migration in repair(view, target)})


def final(work: Workload, run: Run) -> Load:
    begin = work.seconds * (1 - STEADY)
    volume = np.zeros(work.backs)
    for execution in work.executions:
        if execution.time >= begin:
            volume[execution.subscriptions] += execution.sizes
    stays = np.ones(len(work.wanted), dtype=bool) if work.ended is None else work.ended > work.seconds
    stays &= run.at[work.owner] != NOWHERE
    rows = Rows.packed(np.bincount(work.owner[stays], minlength=work.subscribers), work.wanted[stays])
    return Load.of(rows, volume / (work.seconds - begin), run.at.astype(np.int32), work.capacity)
