"""Figure 13: the large simulation under nearest placement, without balancing, with LDM, with GSH."""

from __future__ import annotations

import numpy as np

from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.debs2019.charts import broker_loads, metrics
from tocsin.experiments.debs2019.claims import ANY_BROKER, LIGHTEST, lowers, thrifty
from tocsin.experiments.debs2019.figure import Figure
from tocsin.experiments.debs2019.summary import maximum, shuffled, spread
from tocsin.experiments.debs2019.variants import ALPHA, Runs, Variant
from tocsin.experiments.outcome import Check
from tocsin.simulation.flow import Run

NONE, LDM, GSH, PEAL = (Variant("sim", "NR", how) for how in ("no LB", "LDM", "GSH", "peal"))
ADDED = (PEAL, Variant("sim", "LL", "no LB"), Variant("sim", "two choices", "no LB"))
VARIANTS = (NONE, LDM, GSH, *ADDED)
#: LDM with one of its rules broken.
BROKEN = tuple(Variant("sim", "NR", how) for how in (ANY_BROKER, LIGHTEST))
#: "Roughly half": within ten points.
HALF = (0.4, 0.6)


def checks(runs: Runs) -> list[Check]:
    return [
        skewed(runs),
        *lowers(runs, NONE, LDM),
        *lowers(runs, NONE, GSH),
        by_half(runs, LDM),
        by_half(runs, GSH),
        at_once(runs),
        later(runs),
        *thrifty(runs, NONE, LDM),
    ]


def skewed(runs: Runs) -> Check:
    """The paper's more than 2,000 and fewer than 500 of 10,000 subscribers."""
    shares = [run.samples.subscribers[-1] / run.samples.subscribers[-1].sum() for run in runs.of(NONE)]
    text = ", ".join(f"{each.max():.1%} and {each.min():.1%}" for each in shares)
    holds = tuple(bool(each.max() > 0.2 and each.min() < 0.05) for each in shares)
    says = "one broker has more than a fifth of the subscribers, others less than a twentieth"
    return Check(says, text, holds, setup=True)


def by_half(runs: Runs, variant: Variant) -> Check:
    before, after = spread(runs.of(NONE), maximum), spread(runs.of(variant), maximum)
    less = [1 - y / x for x, y in zip(before.values, after.values, strict=True)]
    holds = tuple(HALF[0] <= each <= HALF[1] for each in less)
    text = ", ".join(f"{each:.0%}" for each in less)
    return Check(f"{variant.balancing} lowers the maximum by roughly half", f"by {text}", holds, direction=False)


def settled(run: Run) -> float:
    """Minutes from the first migration until cov stays at or below α."""
    if not run.migrations:
        return float(run.samples.time[-1]) / 60
    above = run.samples.time[run.samples.cov > ALPHA]
    above = above[above >= run.migrations[0].time]
    return max(0.0, (float(above[-1]) - run.migrations[0].time) / 60) if len(above) else 0.0


def at_once(runs: Runs) -> Check:
    times = [sorted({round(each.time, 1) for each in run.migrations}) for run in runs.of(GSH)]
    found = spread(runs.of(GSH), shuffled)
    text = (
        f"{found} migrated in one plan, none after it" if all(len(each) == 1 for each in times) else f"plans: {times}"
    )
    return Check(
        "GSH repairs it at once and needs no migration afterwards", text, tuple(len(each) == 1 for each in times)
    )


def later(runs: Runs) -> Check:
    slow, quick = (spread(runs.of(variant), settled) for variant in (LDM, GSH))
    holds = tuple(a > b for a, b in zip(slow.values, quick.values, strict=True))
    return Check("LDM reaches the balanced state later", f"LDM {slow} min after it began, GSH {quick} min", holds)


def people(runs: Runs) -> Chart:
    """How many subscribers each broker has in the end."""
    found = [(variant, runs.one(variant, runs.seeds[0]).samples.subscribers[-1]) for variant in (NONE, LDM, GSH, PEAL)]
    count = len(found[0][1])
    order = np.argsort(-found[0][1], kind="stable")
    panel = Panel(
        "Subscribers of each broker in the end",
        "broker, from the most to the least crowded without balancing",
        "subscribers",
        [
            Series(variant.name, np.arange(count, dtype=np.float64) + 0.5, values[order].astype(np.float64), tone=tone)
            for (variant, values), tone in zip(found, (0, 1, 6, 3), strict=True)
        ],
        kind="bars",
        labels=[str(j + 1) for j in order],
    )
    return Chart("D-13-people", "Where the subscribers are", [panel], columns=1)


FIGURE = Figure(
    "D-13",
    "broker load distribution in the simulation",
    "LDM (α .15) and GSH lower the maximum load by about half; GSH at once and for good, LDM later",
    (*VARIANTS, *BROKEN),
    checks,
    (
        broker_loads("D-13", "10 brokers, 10,000 subscribers: load of every broker", VARIANTS),
        metrics("D-13-metrics", "10 brokers, 10,000 subscribers: maximum load, cov, migrations", VARIANTS),
        people,
    ),
    (
        "Within one sample both plans are carried out at once here, so LDM is below α with its first plan as well; "
        "it is overtaken by new subscriptions and changing rates and has to act again, which is what takes it longer.",
    ),
    depends="depends on θ = 300 MB/s, which the paper does not give; it gives β",
)
