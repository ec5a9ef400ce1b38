"""What is compared: a set-up, a placement and a way of balancing. Runs are made once and kept for every figure.

The paper's strategies run as the paper's system does, a whole plan at once. Ours runs within the coordinator's limits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from typing import Any

from tocsin.config import CoordinatorConfig, CoordinatorLimits
from tocsin.experiments.debs2019.proto import prototype
from tocsin.simulation.flow import PAPER, Run, Workload, settings, simulate
from tocsin.simulation.flow.debs import Size, debs_simulation

ALPHA, GAMMA = 0.15, 0.5
#: Mean load of a broker, bytes a second, below which a strategy does nothing (β) or does not shuffle (θ).
FLOORS = {"proto": 30e3, "sim": 300e6}
#: Ours runs with the default settings of a coordinator.
OURS = CoordinatorLimits()

PLACEMENTS = {
    "RND": "random",
    "RR": "round-robin",
    "NR": "nearest",
    "LL": "least-loaded",
    "two choices": "two-choices",
}


@dataclass(frozen=True)
class Variant:
    setup: str
    placement: str
    balancing: str
    alpha: float = ALPHA

    @property
    def name(self) -> str:
        alpha = "" if self.alpha == ALPHA else f" (α {self.alpha:g})"
        return f"{self.placement} + {self.balancing}{alpha}"

    @property
    def settings(self) -> CoordinatorConfig:
        strategy, parameters = self._strategy()
        limits = OURS if self.balancing == "peal" else PAPER
        return settings(strategy, PLACEMENTS[self.placement], limits=limits, **parameters)

    def _strategy(self) -> tuple[str, dict[str, Any]]:
        floor = FLOORS[self.setup]
        migration = {"alpha": self.alpha, "beta": floor}
        match self.balancing:
            case "no LB":
                return "", {}
            case "LDM" | "SDM":
                return self.balancing.lower(), migration
            case "GSH":
                return "gsh", {"gamma": GAMMA, "theta": floor}
            case "LDM + GSH" | "SDM + GSH":
                scheme = self.balancing[:3].lower()
                return "multistage", {"scheme": scheme, **migration, "gamma": GAMMA, "theta": floor}
            case "peal":
                return "peal", {"mode": "repair"}
            case _:
                raise ValueError(self.balancing)


@dataclass
class Runs:
    """``progress`` is called for each run that has to be made; ``small`` makes a smaller network, for tests."""

    seeds: tuple[int, ...]
    small: bool = False
    progress: Callable[[Variant, int, float], None] = lambda variant, seed, share: None
    _kept: dict[tuple[Variant, int], Run] = field(default_factory=dict)

    def of(self, variant: Variant) -> list[Run]:
        return [self.one(variant, seed) for seed in self.seeds]

    def one(self, variant: Variant, seed: int) -> Run:
        if (variant, seed) not in self._kept:
            self.progress(variant, seed, 0.0)
            self._kept[variant, seed] = made(
                variant, seed, self.small, lambda share: self.progress(variant, seed, share)
            )
            self.progress(variant, seed, 1.0)
        return self._kept[variant, seed]

    def keep(self, variant: Variant, seed: int, run: Run) -> None:
        """Adds a run that was made elsewhere."""
        self._kept[variant, seed] = run

    def make(self, variants: Iterable[Variant], jobs: int) -> None:
        """Makes all these runs in parallel, ordered by seed, so that a process can reuse the workload of a seed."""
        wanted = [(variant, seed) for seed in self.seeds for variant in variants]
        wanted.sort(key=lambda each: (each[1], each[0].setup))
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            under_way = {pool.submit(made, *each, self.small): each for each in wanted if each not in self._kept}
            for future in as_completed(under_way):
                variant, seed = under_way[future]
                self._kept[variant, seed] = future.result()
                self.progress(variant, seed, 1.0)


def made(variant: Variant, seed: int, small: bool, progress: Callable[[float], None] = lambda share: None) -> Run:
    work = workload(variant.setup, seed, small)
    return simulate(work, variant.settings, seed=seed, progress=lambda at: progress(at / work.seconds))


#: A fiftieth of the people with fifty times the rates make the same load.
SMALL = Size(
    subscribers=200, backs=50, channels=5, seconds=600.0, fewest=5, most=15, subscribed_by=160.0, rate=(2.5e6, 0.6e6)
)


@cache
def workload(setup: str, seed: int, small: bool) -> Workload:
    if setup == "proto":
        return prototype(seed, people=60, reports=24_000, seconds=600) if small else prototype(seed)
    return debs_simulation(seed, SMALL if small else Size())
