"""A micro experiment: the local set-up with one thing changed, and what is read off each point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.cheung2006 import measures as of
from tocsin.experiments.cheung2006.figure import Figure
from tocsin.experiments.cheung2006.runs import Runs, Variant
from tocsin.experiments.outcome import Check, Spread
from tocsin.simulation.edges.records import Records
from tocsin.simulation.edges.workload import Size

#: The rates do not change in micro experiments; the last minutes are the steady state.
SECONDS, STEADY = 3_000.0, 700.0
SMALL = Size(publishers=20, subscribers=500, seconds=700.0, change_at=700.0, join_until=300.0)


def _end(records: Records) -> float:
    return records.times[-1]


def convergence(records: Records) -> float:
    """When the input ratios are balanced for good; the end if never."""
    found = of.balanced_from(records, 0.0, _end(records))
    return _end(records) if found is None else found


def steady(name: str) -> Callable[[Records], float]:
    return lambda records: of.deviation(records, name, _end(records) - STEADY / 3, _end(records))


def sessions(records: Records) -> float:
    return float(len(of.sessions(records, 0.0, _end(records))))


def overhead(records: Records) -> float:
    return of.mean_overhead(records, _end(records) - STEADY / 3, _end(records))


def delivery(records: Records) -> float:
    within = of.between(records, _end(records) - STEADY / 3, _end(records))
    return float(np.array(records.delivery)[within].mean())


def highest(records: Records) -> float:
    """Of B1's input ratio."""
    return float(of.smooth(records.of("input", records.edges[0])).max())


def estimate_error(name: str) -> Callable[[Records], float]:
    """The mean of the absolute errors of both sides, in points of 100."""

    def measured(records: Records) -> float:
        found = np.concatenate([of.errors(records.estimates, name, offloading=side) for side in (True, False)])
        return float(np.abs(found).mean()) if len(found) else float("nan")

    return measured


MEASURES: dict[str, Callable[[Records], float]] = {
    "converged, s": convergence,
    "deviation of input": steady("input"),
    "deviation of output": steady("output"),
    "deviation of matching delay, s": steady("matching"),
    "sessions": sessions,
    "overhead": overhead,
    "delivery delay, s": delivery,
    "highest input ratio of B1": highest,
    "error of input estimates": estimate_error("input"),
    "error of output estimates": estimate_error("output"),
}


@dataclass(frozen=True)
class Sweep:
    """``points``: the values of what changes, and their runs. ``shown``: the measures of its figures, by number."""

    id: str
    title: str
    claim: str
    label: str
    points: tuple[tuple[float, Variant], ...]
    shown: tuple[tuple[str, str], ...]
    judged: Callable[[Sweep, Runs], list[Check]]

    def values(self, runs: Runs, measure: str) -> dict[float, list[float]]:
        """By value: one of each seed."""
        return {value: [MEASURES[measure](each) for each in runs.of(variant)] for value, variant in self.points}

    def figure(self) -> Figure:
        variants = tuple(variant for _, variant in self.points)
        judged = self.judged
        return Figure(
            self.id,
            self.title,
            self.claim,
            variants,
            lambda runs: judged(self, runs),
            self._table,
            self._charts,
        )

    def _table(self, runs: Runs) -> tuple[list[str], list[list[str]]]:
        found = {measure: self.values(runs, measure) for measure in MEASURES}
        rows = [[f"{value:g}", *(str(Spread(tuple(found[m][value]))) for m in MEASURES)] for value, _ in self.points]
        return [self.label, *MEASURES], rows

    def _charts(self, runs: Runs) -> list[Chart]:
        x = np.array([value for value, _ in self.points])
        panels = []
        for title, measure in self.shown:
            table = np.array(list(self.values(runs, measure).values()))
            series = Series("mean", x, table.mean(axis=1), table.min(axis=1), table.max(axis=1), tone=1)
            panels.append(Panel(f"{title} {measure}", self.label, measure, [series]))
        return [Chart(self.id, self.title, panels, columns=2)]


def shown(values: dict[float, list[float]]) -> str:
    return "; ".join(f"{value:g}: {', '.join(f'{each:.3g}' for each in row)}" for value, row in values.items())


def per_seed(values: Sequence[Sequence[float]], holds: Callable[[Sequence[float]], bool]) -> tuple[bool, ...]:
    """Whether something holds of one seed's values over all points."""
    return tuple(bool(holds(column)) for column in zip(*values, strict=True))
