"""The description of a figure, and how its outcome is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.outcome import Check, Outcome, number
from tocsin.experiments.tao2013.runs import Runs
from tocsin.simulation.deadlines.results import Results

COLUMNS = ["variant", "misses, table VI", "misses", "of them shed", "tables with misses", "migrations", "needless"]
#: Migrations are counted from here: what comes before is placement.
BURST = 30


@dataclass(frozen=True)
class Figure:
    """``variants``: names of runs, the first of which is drawn."""

    id: str
    title: str
    claim: str
    variants: tuple[str, ...]
    checks: Callable[[Runs], list[Check]]
    charts: Callable[[Runs], list[Chart]]
    remarks: tuple[str, ...] = ()
    depends: str = ""

    def outcome(self, runs: Runs) -> Outcome:
        return Outcome(
            self.id,
            self.title,
            self.claim,
            self.checks(runs),
            COLUMNS,
            [row(name, runs) for name in self.variants],
            self.charts(runs),
            list(self.remarks),
            samples(self.variants, runs),
            self.depends,
        )


def row(name: str, runs: Runs) -> list[str]:
    """Sums over the random tables."""
    found = runs.of(name)
    migrations = [each for run in found for each in run.since(BURST)]
    return [
        name,
        f"{runs.paper(name).missed:,.0f}",
        f"{sum(run.missed for run in found):,.0f}",
        f"{sum(sum(run.shed.values()) for run in found):,.0f}",
        f"{sum(run.missed > 0 for run in found)} of {len(found)}",
        str(len(migrations)),
        str(sum(each.needless for each in migrations)),
    ]


def uplinks(id: str, title: str, results: Results) -> Chart:
    """As the paper's figures 3 and 5."""
    x = np.array(results.times, dtype=np.float64)
    series = [
        Series(edge, x, 100 * np.array(values), tone=tone) for tone, (edge, values) in enumerate(results.uplink.items())
    ]
    panel = Panel("", "time, s", "uplink utilisation, %", series, level=100.0, level_name="100%")
    return Chart(id, title, [panel], columns=1)


def samples(variants: Sequence[str], runs: Runs) -> dict[str, list[Any]]:
    """On the paper's table: each uplink at each second, to be written as Parquet."""
    out: dict[str, list[Any]] = {"variant": [], "second": [], "edge": [], "uplink": [], "waiting": []}
    for name in variants:
        found = runs.paper(name)
        for edge, values in found.uplink.items():
            for second, used in zip(found.times, values, strict=True):
                waiting = sum(series[found.at(second)] for (at, _), series in found.depth.items() if at == edge)
                for column, value in zip(out.values(), (name, second, edge, used, waiting), strict=True):
                    column.append(value)
    return out


def once(says: str, found: str, holds: bool, *, direction: bool = True, setup: bool = False) -> Check:
    """A sentence about the paper's own table."""
    return Check(says, found, (holds,), direction, setup)


def counted(values: Sequence[float]) -> str:
    return ", ".join(number(value) for value in values)
