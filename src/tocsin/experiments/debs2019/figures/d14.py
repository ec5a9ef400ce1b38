"""Figure 14: how α and β change cov and the number of migrations in the large simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from tocsin.experiments.chart import Chart, Panel
from tocsin.experiments.debs2019.charts import MINUTES, bars, series
from tocsin.experiments.debs2019.claims import thrifty
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.figures import d13
from tocsin.experiments.debs2019.summary import cov, first, migrations, spread
from tocsin.experiments.debs2019.variants import ALPHA, FLOORS, Runs, Variant
from tocsin.experiments.outcome import Check
from tocsin.simulation.flow import Run

ALPHAS = (0.05, 0.1, ALPHA, 0.25)
#: Bytes a second; the paper's is the second.
BETAS = (150e6, FLOORS["sim"], 600e6, 900e6)
LDMS = tuple(Variant("sim", "NR", "LDM", alpha) for alpha in ALPHAS)
LATER = tuple(Variant("sim", "NR", "LDM", beta=None if beta == FLOORS["sim"] else beta) for beta in BETAS)
#: "As good as": cov within a fiftieth of the mean load.
AS_GOOD = 0.02


def checks(runs: Runs) -> list[Check]:
    alphas = "α " + ", ".join(f"{alpha:g}" for alpha in ALPHAS)
    betas = "β " + ", ".join(f"{beta / 1e6:g}" for beta in BETAS) + " MB/s"
    return [
        ordered(runs, "the smaller α, the lower cov", alphas, LDMS, cov, 1),
        ordered(runs, "the smaller α, the more migrations", alphas, LDMS, migrations, -1),
        ordered(runs, "the higher β, the later balancing starts", f"{betas}: minute", LATER, first, 1),
        ordered(runs, "the higher β, the fewer migrations", betas, LATER, migrations, -1),
        *as_balanced(runs),
        *thrifty(runs, d13.NONE, d13.LDM),
    ]


def ordered(
    runs: Runs, says: str, names: str, variants: Sequence[Variant], figure: Callable[[Run], float], sign: int
) -> Check:
    """From each variant to the next the figure grows, or with ``sign`` -1 falls."""
    found = [spread(runs.of(variant), figure) for variant in variants]
    holds = tuple(
        all(a * sign < b * sign for a, b in pairwise(each)) for each in zip(*(s.values for s in found), strict=True)
    )
    return Check(says, f"{names}: {'; '.join(map(str, found))}", holds)


def as_balanced(runs: Runs) -> list[Check]:
    mine, theirs = (spread(runs.of(variant), cov) for variant in (LDMS[0], d13.GSH))
    text = f"cov {mine}, GSH {theirs}"
    pairs = list(zip(mine.values, theirs.values, strict=True))
    return [
        Check("GSH ends at least as balanced as LDM", text, tuple(b <= a for a, b in pairs)),
        Check("at α .05 LDM ends as balanced as GSH", text, tuple(abs(a - b) <= AS_GOOD for a, b in pairs), False),
    ]


def chart(runs: Runs) -> Chart:
    variants = (*LDMS, d13.GSH, d13.PEAL)
    labels = [f"α {variant.alpha:g}" if variant.balancing == "LDM" else variant.balancing for variant in variants]
    lines = []
    for tone, (variant, label) in enumerate(zip(variants, labels, strict=True), 1):
        name = f"LDM, {label}" if variant.balancing == "LDM" else label
        lines.append(replace(series(variant, runs, lambda samples: samples.cov), name=name, tone=tone))
    counts = {"migrations": [[migrations(run) for run in runs.of(variant)] for variant in variants]}
    later = {"with α .15": [[migrations(run) for run in runs.of(variant)] for variant in LATER]}
    panels = [
        Panel("Imbalance", MINUTES, "cov", lines),
        bars("Migrations in all", "subscribers", labels, counts, [1]),
        bars("Migrations in all, by β", "subscribers", [f"β {beta / 1e6:g}" for beta in BETAS], later, [2]),
    ]
    return Chart("D-14", "The thresholds α and β of LDM", panels)


FIGURE = Figure(
    "D-14",
    "effect of α and β",
    "the smaller α and β, the lower cov and the more migrations; at α = .05 LDM ends as balanced as GSH",
    (*dict.fromkeys((*LDMS, *LATER)), d13.NONE, d13.GSH, *d13.ADDED, *d13.BROKEN),
    checks,
    (chart,),
    (
        "LDM stops as soon as cov is below α, and ends there; the shuffle is not bound by α and ends far below it. The "
        "maximum load of the two is within a few percent.",
    ),
    depends="depends on the values of β beside 300 MB/s, which the paper does not give",
)
