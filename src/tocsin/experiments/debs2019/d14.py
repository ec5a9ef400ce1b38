"""Figure 14: how α changes cov and the number of migrations in the large simulation."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tocsin.experiments.chart import Chart, Panel
from tocsin.experiments.debs2019 import d13
from tocsin.experiments.debs2019.charts import MINUTES, bars, series
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.summary import cov, migrations, spread
from tocsin.experiments.debs2019.variants import ALPHA, Runs, Variant
from tocsin.experiments.outcome import Check

ALPHAS = (0.05, 0.1, ALPHA, 0.25)
LDMS = tuple(Variant("sim", "NR", "LDM", alpha) for alpha in ALPHAS)
#: "As good as": cov within a fiftieth of the mean load.
AS_GOOD = 0.02


def checks(runs: Runs) -> list[Check]:
    covs = [spread(runs.of(variant), cov) for variant in LDMS]
    counts = [spread(runs.of(variant), migrations) for variant in LDMS]
    shuffled = spread(runs.of(d13.GSH), cov)
    names = "α " + ", ".join(f"{alpha:g}" for alpha in ALPHAS)
    rising = tuple(all(a < b for a, b in pairwise(each)) for each in zip(*(c.values for c in covs), strict=True))
    falling = tuple(all(a > b for a, b in pairwise(each)) for each in zip(*(m.values for m in counts), strict=True))
    close = tuple(a - b <= AS_GOOD for a, b in zip(covs[0].values, shuffled.values, strict=True))
    return [
        Check("the smaller α, the lower cov", f"{names}: {'; '.join(map(str, covs))}", rising),
        Check("the smaller α, the more migrations", f"{names}: {'; '.join(map(str, counts))}", falling),
        Check("at α .05 LDM ends as balanced as GSH", f"cov {covs[0]}, GSH {shuffled}", close, direction=False),
    ]


def chart(runs: Runs) -> Chart:
    variants = (*LDMS, d13.GSH, d13.PEAL)
    labels = [f"α {variant.alpha:g}" if variant.balancing == "LDM" else variant.balancing for variant in variants]
    lines = []
    for tone, (variant, label) in enumerate(zip(variants, labels, strict=True), 1):
        name = f"LDM, {label}" if variant.balancing == "LDM" else label
        lines.append(replace(series(variant, runs, lambda samples: samples.cov), name=name, tone=tone))
    counts = {"migrations": [[migrations(run) for run in runs.of(variant)] for variant in variants]}
    panels = [
        Panel("Imbalance", MINUTES, "cov", lines),
        bars("Migrations in all", "subscribers", labels, counts, [1]),
    ]
    return Chart("D-14", "The threshold α of LDM", panels, columns=2)


FIGURE = Figure(
    "D-14",
    "effect of α",
    "the smaller α, the lower cov and the more migrations; at α = .05 LDM ends as balanced as GSH",
    (*LDMS, d13.GSH, *d13.ADDED),
    checks,
    (chart,),
    (
        "LDM stops as soon as cov is below α, and ends there; the shuffle is not bound by α and ends far below it. The "
        "maximum load of the two is within a few percent.",
    ),
)
