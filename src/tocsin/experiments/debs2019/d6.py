"""Figure 6: maximum load, cov and migrations under random placement."""

from __future__ import annotations

from tocsin.experiments.debs2019.charts import metrics
from tocsin.experiments.debs2019.claims import acted, few, lowers, no_shuffle
from tocsin.experiments.debs2019.d5 import ADDED, LDM, NONE, SDM
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.variants import Runs, Variant
from tocsin.experiments.outcome import Check

#: The shuffle is available, but the imbalance is too small to invoke it.
READY = tuple(Variant("proto", "RND", how) for how in ("LDM + GSH", "SDM + GSH"))


def checks(runs: Runs) -> list[Check]:
    found = [*lowers(runs, NONE, LDM, strictly=False), *lowers(runs, NONE, SDM, strictly=False)]
    return [*found, few(runs, LDM), few(runs, SDM), no_shuffle(runs, READY), acted(runs, LDM)]


FIGURE = Figure(
    "D-6",
    "performance metrics for RND placement",
    "under random placement LDM and SDM lower maximum load and cov with few migrations; the shuffle is not invoked",
    (NONE, LDM, SDM, *READY, *ADDED),
    checks,
    (metrics("D-6", "Random placement: maximum load, cov, migrations", (NONE, LDM, SDM, *ADDED)),),
)
