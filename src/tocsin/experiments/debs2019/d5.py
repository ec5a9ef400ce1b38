"""Figure 5: the load of every broker under random placement, without balancing, with LDM, with SDM."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import broker_loads
from tocsin.experiments.debs2019.claims import acted, few, lowers
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

NONE, LDM, SDM, PEAL = (Variant("proto", "RND", how) for how in ("no LB", "LDM", "SDM", "peal"))
ADDED = (PEAL, Variant("proto", "LL", "no LB"), Variant("proto", "two choices", "no LB"))
VARIANTS = (NONE, LDM, SDM, *ADDED)
TITLE = "Broker load, random placement: without balancing, LDM, SDM, and ours"


def checks(runs: Runs) -> list[Check]:
    found = [*lowers(runs, NONE, LDM, strictly=False), *lowers(runs, NONE, SDM, strictly=False)]
    return [*found, few(runs, LDM), few(runs, SDM), acted(runs, LDM)]


FIGURE = Figure(
    "D-5",
    "broker load distribution in RND placement",
    "under random placement LDM and SDM lower the load of the most loaded broker with a few migrations",
    VARIANTS,
    checks,
    (broker_loads("D-5", TITLE, VARIANTS),),
    (
        "Where cov never passes α after μ has passed β, there is nothing to do, and nothing is done: such a seed "
        "counts as holding for the loads, and against 'there is something to repair'.",
    ),
)
