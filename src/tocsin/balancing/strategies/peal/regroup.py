"""Peal's regrouping: brings subscribers with the same interests together, so that fewer brokers fetch the same."""

from __future__ import annotations

from collections import deque

import numpy as np

from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.peal.group_assignment import assigned
from tocsin.balancing.strategies.peal.groups import Groups
from tocsin.balancing.strategies.peal.refinement import refine
from tocsin.balancing.strategies.peal.repair import repair

#: How far above the mean the regrouped brokers may end.
TIGHT = 0.0002
#: Number of repairs: migrated subscribers may cause further fetches, which raises the mean.
REPAIRS = 2

REGROUP = "peal: joins its group"


def regrouped(view: WhatIf, groups: Groups, spread: int, price: float) -> list[Migration]:
    """Migrate in the view, and return the migrations. ``spread``: how many brokers serve a group; 0: as now."""
    home, before = view.at.astype(np.int64), view.relative.copy()
    if spread:
        view.migrate_all(*assigned(view, groups, spread))
    refine(view, groups, home=home, price=price)
    for _ in range(REPAIRS):
        deque(repair(view, view.mean * (1 + TIGHT), thrifty=True), maxlen=0)
    us = np.flatnonzero(view.at != home)
    gain = view.u[us] * (before[home[us]] / max(float(before.max()), 1e-300))
    return [
        Migration(u, source, target, saved, reason=REGROUP)
        for u, source, target, saved in zip(
            us.tolist(), home[us].tolist(), view.at[us].tolist(), gain.tolist(), strict=True
        )
    ]
