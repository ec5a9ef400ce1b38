"""The few numbers that summarise a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tocsin.experiments.outcome import Spread
from tocsin.simulation.flow import Run

#: The last third, ten minutes of thirty: all subscribers have subscribed, and the strategies have done their work.
STEADY = 1 / 3


def steady(run: Run) -> slice:
    time = run.samples.time
    return slice(int(np.searchsorted(time, time[-1] * (1 - STEADY))), None)


def maximum(run: Run) -> float:
    """Mean over the last third of the highest load of a broker."""
    return float(run.samples.maximum[steady(run)].mean())


def cov(run: Run) -> float:
    return float(run.samples.cov[steady(run)].mean())


def mean(run: Run) -> float:
    return float(run.samples.mean[steady(run)].mean())


def fetched(run: Run) -> float:
    """What all brokers together fetch."""
    return float(run.samples.incoming[steady(run)].sum(axis=1).mean())


def migrations(run: Run) -> float:
    return float(len(run.migrations))


def shuffled(run: Run) -> float:
    """Migrations that a shuffle made."""
    return float(sum(each.reason.startswith("GSH") for each in run.migrations))


def migrated(run: Run) -> float:
    """Migrations that were not part of a shuffle."""
    return migrations(run) - shuffled(run)


def first(run: Run) -> float:
    """Minutes until the first migration; the whole run if there is none."""
    return float(run.migrations[0].time if run.migrations else run.samples.time[-1]) / 60


def last(run: Run) -> float:
    """Minutes until the last migration."""
    return run.migrations[-1].time / 60 if run.migrations else 0.0


def spread(runs: Sequence[Run], figure: Callable[[Run], float]) -> Spread:
    return Spread(tuple(figure(run) for run in runs))


COLUMNS = ["variant", "maximum load", "mean load", "cov", "migrations", "of a shuffle", "last after, min"]


def row(name: str, runs: Sequence[Run]) -> list[str]:
    loads = (volume(spread(runs, figure)) for figure in (maximum, mean))
    return [name, *loads, *(str(spread(runs, figure)) for figure in (cov, migrations, shuffled, last))]


def volume(found: Spread) -> str:
    """Bytes a second, in a suitable unit."""
    unit, name = scale(found.mean)
    return f"{Spread(tuple(value / unit for value in found.values))} {name}"


def scale(size: float) -> tuple[float, str]:
    return next(
        (unit, name)
        for unit, name in ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s"))
        if size >= unit or unit == 1.0
    )
