"""Figure 5: the load of every broker under random placement, without balancing, with LDM, with SDM."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import broker_loads
from tocsin.experiments.debs2019.claims import slightly
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

NONE, LDM, SDM, PEAL = (Variant("proto", "RND", how) for how in ("no LB", "LDM", "SDM", "peal"))
ADDED = (PEAL, Variant("proto", "LL", "no LB"), Variant("proto", "two choices", "no LB"))
VARIANTS = (NONE, LDM, SDM, *ADDED)
TITLE = "Broker load, random placement: without balancing, LDM, SDM, and ours"


#: Why so few seeds count.
REMARKS = (
    "A seed has an effect to show if cov is above α in the last third without balancing. Where it is not, there is "
    "nothing to repair, and nothing is said for or against the strategy.",
)


def checks(runs: Runs) -> list[Check]:
    return slightly(runs, NONE, (LDM, SDM))


FIGURE = Figure(
    "D-5",
    "broker load distribution in RND placement",
    "under random placement LDM and SDM lower the load of the most loaded broker with a few migrations",
    VARIANTS,
    checks,
    (broker_loads("D-5", TITLE, VARIANTS),),
    REMARKS,
    depends="depends on β = 30 kB/s, which the paper does not give",
)
