"""The description of a figure or table, and how its outcome is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.experiments.antoine2014.network import mean_loads
from tocsin.experiments.antoine2014.runs import Job, Runs, Variant
from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.outcome import Check, Outcome, Spread

COLUMNS = ["variant", "relative standard deviation, %", "peers with data", "largest load", "close to the ideal", "s"]


@dataclass(frozen=True)
class Figure:
    """``variants``: names of runs. Figures without any make their outcome from ``others`` by themselves (``whole``)."""

    id: str
    title: str
    claim: str
    variants: tuple[str, ...] = ()
    checks: Callable[[Runs], list[Check]] = lambda runs: []
    remarks: tuple[str, ...] = ()
    whole: Callable[[Runs, Figure], Outcome] | None = None
    others: tuple[Job, ...] = ()

    @property
    def jobs(self) -> list[Job]:
        """What its outcome is made from, for each seed."""
        return [*map(Variant, self.variants), *self.others]

    def outcome(self, runs: Runs) -> Outcome:
        if self.whole is not None:
            return self.whole(runs, self)
        return Outcome(
            self.id,
            self.title,
            self.claim,
            self.checks(runs),
            COLUMNS,
            [row(name, runs) for name in self.variants],
            [bars(self, runs)],
            list(self.remarks),
            samples(self.variants, runs),
        )


def row(name: str, runs: Runs) -> list[str]:
    found = runs.of(name)

    def spread(values: Sequence[float]) -> str:
        return str(Spread(tuple(values)))

    return [
        name,
        str(runs.deviation(name)),
        spread([each.used for each in found]),
        spread([each.loads[0] for each in found]),
        spread([100 * each.close(runs.size.ideal) for each in found]) + " %",
        spread([each.seconds for each in found]),
    ]


def bars(figure: Figure, runs: Runs) -> Chart:
    """As the paper's figure 2: the load of each peer, here from the most to the least loaded."""
    x = np.arange(runs.size.peers, dtype=np.float64) + 0.5
    panels = [
        Panel(
            name,
            "peer, from the most to the least loaded",
            "quadruples",
            [Series("mean of all seeds", x, np.array(mean_loads(runs.of(name))), tone=1)],
            kind="bars",
            labels=[str(number + 1) if number % 4 == 3 else "" for number in range(runs.size.peers)],
            level=runs.size.ideal,
            level_name="ideal",
        )
        for name in figure.variants
    ]
    return Chart(figure.id, figure.title, panels, columns=2)


def samples(variants: Sequence[str], runs: Runs) -> dict[str, list[Any]]:
    """The load of every peer in every run, to be written as Parquet."""
    out: dict[str, list[Any]] = {"variant": [], "seed": [], "rank": [], "load": []}
    for name in variants:
        for seed, result in zip(runs.seeds, runs.of(name), strict=True):
            for rank, load in enumerate(result.loads):
                for column, value in zip(out.values(), (name, seed, rank, load), strict=True):
                    column.append(value)
    return out
