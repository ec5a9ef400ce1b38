"""Figure 6: maximum load, cov and migrations under random placement."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import metrics
from tocsin.experiments.debs2019.claims import no_shuffle, slightly
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures.d5 import ADDED, LDM, NONE, REMARKS, SDM
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

#: The shuffle is available, but the imbalance is too small to invoke it.
READY = tuple(Variant("proto", "RND", how) for how in ("LDM + GSH", "SDM + GSH"))


def checks(runs: Runs) -> list[Check]:
    return [*slightly(runs, NONE, (LDM, SDM)), no_shuffle(runs, READY)]


FIGURE = Figure(
    "D-6",
    "performance metrics for RND placement",
    "under random placement LDM and SDM lower maximum load and cov with few migrations; the shuffle is not invoked",
    (NONE, LDM, SDM, *READY, *ADDED),
    checks,
    (metrics("D-6", "Random placement: maximum load, cov, migrations", (NONE, LDM, SDM, *ADDED)),),
    REMARKS,
    depends="depends on β = 30 kB/s, which the paper does not give",
)
