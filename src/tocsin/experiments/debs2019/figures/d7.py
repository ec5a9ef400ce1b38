"""Figure 7: the load of every broker under round robin placement."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import broker_loads, metrics
from tocsin.experiments.debs2019.claims import no_shuffle, slightly
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures.d5 import REMARKS
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

NONE, LDM, SDM, PEAL = (Variant("proto", "RR", how) for how in ("no LB", "LDM", "SDM", "peal"))
READY = tuple(Variant("proto", "RR", how) for how in ("LDM + GSH", "SDM + GSH"))
ADDED = (PEAL, Variant("proto", "LL", "no LB"), Variant("proto", "two choices", "no LB"))


def checks(runs: Runs) -> list[Check]:
    return [*slightly(runs, NONE, (LDM, SDM)), no_shuffle(runs, READY)]


FIGURE = Figure(
    "D-7",
    "broker load distribution in RR placement",
    "under round robin placement, as under random: LDM and SDM lower maximum load and cov with few migrations",
    (NONE, LDM, SDM, *READY, *ADDED),
    checks,
    (
        broker_loads("D-7", "Broker load, round robin placement", (NONE, LDM, SDM, *ADDED)),
        metrics("D-7-metrics", "Round robin: maximum load, cov, migrations", (NONE, LDM, SDM, *ADDED)),
    ),
    REMARKS,
    depends="depends on β = 30 kB/s, which the paper does not give",
)
