"""Simulates every candidate with the same people and says which one suffices."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tocsin.balancing.strategies import registry
from tocsin.experiments.chart import Chart, Panel, Series
from tocsin.experiments.whatif.scenario import Scenario
from tocsin.simulation.flow import Run, Workload, settings, simulate
from tocsin.simulation.flow.debs import Size, debs_simulation

PERCENT = "% of capacity"
#: Every subscriber has subscribed after this share of the time; sampling starts at the next.
SUBSCRIBED, LOOKED = 0.25, 0.5


@dataclass(frozen=True)
class Candidate:
    brokers: int
    placement: str
    strategy: str
    alpha: float | None  # None: it has no such threshold

    @property
    def balancing(self) -> str:
        return self.strategy if self.alpha is None else f"{self.strategy}, α {self.alpha:g}"


@dataclass(frozen=True)
class Found:
    """``busiest``: the highest load of any broker at any sample, as a share of its capacity."""

    candidate: Candidate
    busiest: float
    cov: float
    migrations: int
    run: Run


def candidates(scenario: Scenario) -> list[Candidate]:
    found = []
    for brokers in sorted(set(scenario.brokers.count)):
        for placement in dict.fromkeys(scenario.compare.placements):
            for strategy in dict.fromkeys(scenario.compare.strategies):
                has = strategy != "none" and "alpha" in registry.parameters(strategy)
                alphas = list(dict.fromkeys(scenario.compare.alpha)) if has else [None]
                found += [Candidate(brokers, placement, strategy, alpha) for alpha in alphas]
    return found


def workload(scenario: Scenario, brokers: int) -> Workload:
    people, wants, rates = scenario.population, scenario.interests, scenario.rates
    seconds = scenario.minutes * 60
    size = Size(
        brokers=brokers,
        subscribers=people.subscribers,
        channels=wants.channels,
        backs=wants.subscriptions,
        seconds=seconds,
        fewest=wants.each[0],
        most=wants.each[1],
        subscribed_by=seconds * SUBSCRIBED,
        skew=people.skew,
        rate=(rates.bytes_per_second, rates.deviation),
        averages=(1.0, 1.0),
        raised=rates.raised,
        again=False,
        periods=tuple(rates.periods),
        spots=people.spots,
        zipf=wants.zipf,
        capacity=scenario.brokers.bytes_per_second,
    )
    return debs_simulation(scenario.seed, size)


def attempt(scenario: Scenario, candidate: Candidate, work: Workload, progress: Callable[[float], None]) -> Found:
    strategy = "" if candidate.strategy == "none" else candidate.strategy
    parameters: dict[str, Any] = {} if candidate.alpha is None else {"alpha": candidate.alpha}
    how = settings(strategy, candidate.placement, **parameters)
    run = simulate(work, how, seed=scenario.seed, progress=lambda at: progress(at / work.seconds))
    steady = slice(int(np.searchsorted(run.samples.time, work.seconds * LOOKED)), None)
    return Found(
        candidate,
        float(run.samples.maximum[steady].max()),
        float(run.samples.cov[steady].mean()),
        len(run.migrations),
        run,
    )


def enough(scenario: Scenario, found: list[Found]) -> Found | None:
    """The candidate with the fewest brokers that stay within the permitted load; of equals, the fewest migrations."""
    fits = [each for each in found if each.busiest <= scenario.brokers.at_most]
    return min(fits, key=lambda each: (each.candidate.brokers, each.migrations, each.busiest), default=None)


def calmer(scenario: Scenario, found: list[Found], best: Found) -> Found | None:
    """A candidate with more brokers but far fewer migrations."""
    fits = [
        each for each in found if each.busiest <= scenario.brokers.at_most and each.migrations < best.migrations / 2
    ]
    return min(fits, key=lambda each: (each.candidate.brokers, each.migrations), default=None)


def growth(found: Found) -> float:
    """By which share the load of the busiest broker grew in the last quarter of the time."""
    time, most = found.run.samples.time, found.run.samples.maximum
    half, last = (int(np.searchsorted(time, time[-1] * share)) for share in (0.5, 0.75))
    before = float(most[half:last].mean())
    return float(most[last:].mean()) / before - 1 if before else 0.0


def chart(scenario: Scenario, found: list[Found]) -> Chart:
    """The load of the busiest broker by the number of brokers, and over time for the chosen number."""
    ways = list(dict.fromkeys((each.candidate.placement, each.candidate.balancing) for each in found))
    chosen = enough(scenario, found)
    count = chosen.candidate.brokers if chosen else max(each.candidate.brokers for each in found)
    by_count, over_time = [], []
    for tone, (placement, balancing) in enumerate(ways):
        mine = [e for e in found if (e.candidate.placement, e.candidate.balancing) == (placement, balancing)]
        name = f"{balancing}, {placement}"
        x = np.arange(len(mine), dtype=np.float64) + 0.5
        by_count.append(Series(name, x, np.array([100 * each.busiest for each in mine]), tone=tone))
        run = next(each.run for each in mine if each.candidate.brokers == count)
        over_time.append(Series(name, run.samples.time / 60, 100 * run.samples.maximum, tone=tone))
    level, called = 100 * scenario.brokers.at_most, f"at most {scenario.brokers.at_most:.0%}"
    counts = [str(brokers) for brokers in sorted({each.candidate.brokers for each in found})]
    by_count_panel = Panel(
        "Busiest broker, by the number of brokers", "brokers", PERCENT, by_count, "bars", counts, level, called
    )
    over_time_panel = Panel(
        f"Busiest broker of {count}, over time", "minutes", PERCENT, over_time, level=level, level_name=called
    )
    return Chart("what-if", scenario.name, [by_count_panel, over_time_panel], columns=2)
