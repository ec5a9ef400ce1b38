"""The two kinds of chart that the paper has: the load of every broker, and maximum, cov and migrations over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tocsin.balancing.model.arrays import Floats
from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.debs2019.summary import scale
from tocsin.experiments.debs2019.variants import ALPHA, Runs, Variant
from tocsin.simulation.flow.results import Samples

MINUTES = "minutes"
#: A strategy has the same colour in all charts.
TONES = {"no LB": 0, "LDM": 1, "SDM": 2, "peal": 3, "LDM + GSH": 4, "SDM + GSH": 5, "GSH": 6}

#: Placements that the paper does not have; dashed.
ADDED = {"LL": 7, "two choices": 8}

#: Makes a chart of the runs of its variants.
Drawing = Callable[[Runs], Chart]


def broker_loads(name: str, title: str, variants: Sequence[Variant]) -> Drawing:
    """One panel per variant, one line per broker; the first seed only."""

    def draw(runs: Runs) -> Chart:
        found = [(variant, runs.one(variant, runs.seeds[0]).samples) for variant in variants]
        unit, label = scale(max(float(samples.load.max()) for _, samples in found))
        panels = []
        for variant, samples in found:
            lines = [
                Series(f"broker {j + 1}", samples.time / 60, load / unit, tone=j + 1)
                for j, load in enumerate(samples.load.T)
            ]
            panels.append(Panel(variant.name, MINUTES, f"load, {label}", lines))
        return Chart(name, title, panels, shared=True)

    return draw


def metrics(name: str, title: str, variants: Sequence[Variant], hardly: float = 0.0) -> Drawing:
    """Maximum load, cov and migrations over time: the mean and the range of all seeds.

    ``hardly``: while the mean load is below this share of its highest value, cov is drawn as 0.
    """

    def cov(samples: Samples) -> Floats:
        return np.where(samples.mean > hardly * samples.mean.max(), samples.cov, 0.0)

    def draw(runs: Runs) -> Chart:
        unit, label = scale(max(float(run.samples.maximum.max()) for each in variants for run in runs.of(each)))

        def lines(read: Callable[[Samples], Floats]) -> list[Series]:
            return [series(variant, runs, read) for variant in variants]

        highest = Panel("Maximum broker load", MINUTES, label, lines(lambda samples: samples.maximum / unit))
        balance = Panel("Imbalance", MINUTES, "cov", lines(cov), level=ALPHA, level_name=f"α = {ALPHA:g}")
        migrations = lines(lambda samples: samples.migrations.astype(np.float64))
        return Chart(name, title, [highest, balance, Panel("Migrations so far", MINUTES, "subscribers", migrations)])

    return draw


def series(variant: Variant, runs: Runs, read: Callable[[Samples], Floats]) -> Series:
    found = [run.samples for run in runs.of(variant)]
    tone = ADDED.get(variant.placement, TONES[variant.balancing])
    return over_seeds(variant.name, found[0].time / 60, list(map(read, found)), tone, variant.placement in ADDED)


def over_seeds(name: str, x: Floats, values: Sequence[Floats], tone: int, dashed: bool = False) -> Series:
    """The mean of all seeds, and their range if there are several."""
    stacked = np.stack(values)
    low, high = (stacked.min(axis=0), stacked.max(axis=0)) if len(stacked) > 1 else (None, None)
    return Series(name, x, stacked.mean(axis=0), low, high, tone, dashed)


def bars(title: str, y_label: str, labels: list[str], groups: dict[str, list[list[float]]], tones: list[int]) -> Panel:
    """For each name and label the values of all seeds."""
    x = np.arange(len(labels), dtype=np.float64) + 0.5
    found = [
        over_seeds(name, x, list(np.array(values).T), tone)
        for (name, values), tone in zip(groups.items(), tones, strict=True)
    ]
    return Panel(title, "", y_label, found, kind="bars", labels=labels)
