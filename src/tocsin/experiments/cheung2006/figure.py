"""The description of a figure, and how its outcome is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.balancing.model.arrays import Floats
from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.cheung2006.runs import Runs, Variant
from tocsin.experiments.outcome import Check, Outcome
from tocsin.simulation.edges.records import SERIES, Records


@dataclass(frozen=True)
class Figure:
    """``variants``: the runs that it needs; none for a worked example."""

    id: str
    title: str
    claim: str
    variants: tuple[Variant, ...]
    checks: Callable[[Runs], list[Check]]
    table: Callable[[Runs], tuple[list[str], list[list[str]]]]
    charts: Callable[[Runs], list[Chart]] = lambda runs: []
    remarks: tuple[str, ...] = ()
    depends: str = ""

    def outcome(self, runs: Runs) -> Outcome:
        columns, rows = self.table(runs)
        return Outcome(
            self.id,
            self.title,
            self.claim,
            self.checks(runs),
            columns,
            rows,
            self.charts(runs),
            list(self.remarks),
            samples(self.variants, runs),
            self.depends,
        )


def samples(variants: Sequence[Variant], runs: Runs) -> dict[str, list[Any]]:
    """Every value of every series, to be written as Parquet."""
    out: dict[str, list[Any]] = {"variant": [], "seed": [], "edge": [], "time": [], **{name: [] for name in SERIES}}
    for variant in variants:
        for seed, records in zip(runs.seeds, runs.of(variant), strict=True):
            for edge in records.edges:
                count = len(records.times)
                out["variant"] += [variant.name] * count
                out["seed"] += [seed] * count
                out["edge"] += [edge] * count
                out["time"] += records.times
                for name in SERIES:
                    out[name] += records.series[name][edge]
    return out


def over_time(
    title: str, label: str, lines: Sequence[tuple[str, Sequence[Floats]]], time: Floats, **more: Any
) -> Panel:
    """A line for each name: the mean over all seeds, with the smallest and the largest value."""
    series = []
    for tone, (name, values) in enumerate(lines, 1):
        table = np.array(values)
        low, high = (table.min(axis=0), table.max(axis=0)) if len(table) > 1 else (None, None)
        series.append(Series(name, time, table.mean(axis=0), low, high, tone=tone))
    return Panel(title, "simulated time (s)", label, series, **more)


def by_edge(
    found: Sequence[Records], name: str, transform: Callable[[Floats], Floats]
) -> list[tuple[str, list[Floats]]]:
    return [(edge, [transform(records.of(name, edge)) for records in found]) for edge in found[0].edges]
