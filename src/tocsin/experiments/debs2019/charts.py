"""The two kinds of chart that the paper has: the load of every broker, and maximum, cov and migrations over time."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tocsin.balancing.model.arrays import Floats
from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.debs2019.summary import scale
from tocsin.experiments.debs2019.variants import ALPHA, Runs, Variant
from tocsin.simulation.flow import Run

MINUTES = "minutes"
#: A strategy has the same colour in all charts.
TONES = {"no LB": 0, "LDM": 1, "SDM": 2, "peal": 3, "LDM + GSH": 4, "SDM + GSH": 5, "GSH": 6}


def broker_loads(name: str, title: str, runs: Runs, variants: Sequence[Variant]) -> Chart:
    """One panel per variant, one line per broker; the first seed only."""
    found = [(variant, runs.one(variant, runs.seeds[0])) for variant in variants]
    unit, label = scale(max(float(run.samples.load.max()) for _, run in found))
    panels = [
        Panel(
            variant.name,
            MINUTES,
            f"load, {label}",
            [
                Series(f"broker {j + 1}", run.samples.time / 60, run.samples.load[:, j] / unit, tone=j + 1)
                for j in range(run.samples.load.shape[1])
            ],
        )
        for variant, run in found
    ]
    return Chart(name, title, panels, shared=True)


def metrics(name: str, title: str, runs: Runs, variants: Sequence[Variant], hardly: float = 0.0) -> Chart:
    """Maximum load, cov and migrations over time: the mean and the range of all seeds.

    ``hardly``: while the mean load is below this share of its highest value, cov is drawn as 0.
    """
    found = [(variant, runs.of(variant)) for variant in variants]
    unit, label = scale(max(float(run.samples.maximum.max()) for _, all_ in found for run in all_))

    def lines(read: Callable[[Run], Floats]) -> list[Series]:
        return [series(variant, [read(run) for run in all_], all_[0]) for variant, all_ in found]

    return Chart(
        name,
        title,
        [
            Panel("Maximum broker load", MINUTES, label, lines(lambda run: run.samples.maximum / unit)),
            Panel(
                "Imbalance",
                MINUTES,
                "cov",
                lines(lambda run: np.where(run.samples.mean > hardly * run.samples.mean.max(), run.samples.cov, 0.0)),
                level=ALPHA,
                level_name=f"α = {ALPHA:g}",
            ),
            Panel(
                "Migrations so far",
                MINUTES,
                "subscribers",
                lines(lambda run: run.samples.migrations.astype(np.float64)),
            ),
        ],
    )


def series(variant: Variant, values: Sequence[Floats], run: Run) -> Series:
    stacked = np.stack(values)
    added = variant.placement in ("LL", "two choices")
    tone = (
        {"LL": 7, "two choices": 8}.get(variant.placement, TONES[variant.balancing])
        if added
        else TONES[variant.balancing]
    )
    several = len(stacked) > 1
    return Series(
        variant.name,
        run.samples.time / 60,
        stacked.mean(axis=0),
        stacked.min(axis=0) if several else None,
        stacked.max(axis=0) if several else None,
        tone,
        dashed=added,
    )


def bars(title: str, y_label: str, labels: list[str], groups: dict[str, list[list[float]]], tones: list[int]) -> Panel:
    """For each name and label the values of all seeds."""
    found = []
    for (name, values), tone in zip(groups.items(), tones, strict=True):
        y = np.array([np.mean(each) for each in values])
        low, high = (np.array([pick(each) for each in values]) for pick in (min, max))
        several = len(values[0]) > 1
        found.append(
            Series(
                name,
                np.arange(len(labels), dtype=np.float64) + 0.5,
                y,
                low if several else None,
                high if several else None,
                tone,
            )
        )
    return Panel(title, "", y_label, found, kind="bars", labels=labels)
