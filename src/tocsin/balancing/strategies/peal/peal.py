"""Peal, our own strategy: as balanced as a shuffle with close to the fewest migrations, and grouped where that pays.

The shuffle's weakness is its cost: it migrates nine of ten subscribers and spreads every interest over every broker, so
that all of them fetch everything. Peal has two modes:

*Repair* (repair.py) brings every broker down to the maximum that a shuffle would reach, by shedding only from brokers
above it. *Regroup* (groups.py, group_assignment.py, refinement.py, regroup.py) also lowers the total that is fetched:
it assigns brokers to groups of subscribers, lets each subscriber choose the best of them, then repairs. The automatic
mode regroups when that ends no higher than repair and its savings pay for the additional migrations, in several
evaluations in a row (regroup_gate.py).

a) criteria: the load relative to capacity.
b) load state estimation: the maximum exceeds what a shuffle would reach by more than the trigger (repair); regrouping
   would save more than it costs (regroup).
c) decision: with each evaluation of the coordinator; regrouping after several that agree.
d) method: subscribers migrate.
e) load moved: the fewest of the brokers above the reachable maximum; in regrouping those that are not with their group.
f) target: the broker that a subscriber adds least to, of those that stay below the maximum.
g), h) exchange and recipients: brokers report to the coordinator.

The finished plan is ordered (migration_order.py): the maximum falls from the first migration on, and any prefix is a
valid plan.
"""

from __future__ import annotations

from tocsin.balancing.catalogue.blueprint import MAIN, StageParts
from tocsin.balancing.catalogue.use import Use, use
from tocsin.balancing.model.what_if import LOAD
from tocsin.balancing.strategies.strategy import StagedStrategy, composed
from tocsin.errors import UserError

MODES = ("auto", "repair", "regroup")
TRIGGER = 0.05


def peal(
    mode: str = "auto",
    trigger: float = TRIGGER,
    price: float = 0.01,
    least: float = 0.01,
    goal: float = 0.01,
    evaluations: float = 3,
    rest: float = 600.0,
) -> StagedStrategy:
    """``trigger``: how far the maximum may exceed the reachable one before Peal acts.

    ``price``: what a regrouping migration has to save, as a share of a subscriber's mean load. ``least``: what
    regrouping has to save in total, as a share of the whole load. ``goal``: how close to the lower bound it tries to
    come. ``evaluations``: how many in a row must find that regrouping pays. ``rest``: seconds of rest after it.
    """
    if mode not in MODES:
        raise UserError(f"peal has no mode {mode!r}", hint=f"use {', '.join(MODES)}")
    if mode == "repair":
        return composed(StageParts(MAIN, LOAD, use("reachable", trigger=trigger), use("repair")))
    given = {"trigger": trigger, "price": price, "least": least, "goal": goal, "evaluations": evaluations, "rest": rest}
    regroup = Use("regroup-always" if mode == "regroup" else "regroup", given)
    return composed(StageParts(MAIN, LOAD, use("populated"), regroup))
