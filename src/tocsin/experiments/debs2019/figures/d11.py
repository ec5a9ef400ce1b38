"""Figure 11: maximum load, cov and migrations under nearest placement, with migration after an early shuffle."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import metrics
from tocsin.experiments.debs2019.claims import sound
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures import d8, d9
from tocsin.experiments.debs2019.variants import Runs
from tocsin.experiments.outcome import Check

DRAWN = (d8.NONE, d8.LDM, d8.SDM, d9.LDM, d9.SDM, d8.PEAL)


def checks(runs: Runs) -> list[Check]:
    return [*d9.shuffle(runs), *sound(runs, d8.NONE, d8.LDM, d8.SDM)]


FIGURE = Figure(
    "D-11",
    "performance metrics for NR placement with migration and GSH",
    "an early shuffle repairs a poor assignment and spares the migrations that would follow",
    (d8.NONE, d8.LDM, d8.SDM, d9.LDM, d9.SDM, *d8.ADDED, *d8.BROKEN),
    checks,
    (metrics("D-11", "Nearest placement, with and without an early shuffle", DRAWN),),
    depends="depends on β = θ = 30 kB/s, which the paper does not give: it holds from 20 to 60, and not with 10",
)
