"""What is compared: a set-up, a placement and a way of balancing. Runs are made once and kept for every figure.

The paper's strategies run as the paper's system does, a whole plan at once. Ours runs within the coordinator's limits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cache, partial
from multiprocessing import get_context
from typing import Any

from tocsin.config import CoordinatorConfig, CoordinatorLimits
from tocsin.experiments.debs2019.controls import BESIDE, Controls
from tocsin.experiments.debs2019.proto import prototype
from tocsin.simulation.flow import PAPER, Run, Workload, settings, simulate
from tocsin.simulation.flow.debs import Size, debs_simulation
from tocsin.simulation.flow.decision_makers import Parts

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
    beta: float | None = None  # None: that of the set-up

    @property
    def name(self) -> str:
        alpha = "" if self.alpha == ALPHA else f" (α {self.alpha:g})"
        beta = "" if self.beta is None else f" (β {self.beta / 1e6:g} MB/s)"
        return f"{self.placement} + {self.balancing}{alpha}{beta}"

    @property
    def settings(self) -> CoordinatorConfig:
        strategy, parameters = self.strategy
        limits = OURS if self.balancing == "peal" else PAPER
        return settings(strategy, PLACEMENTS[self.placement], limits=limits, **parameters)

    @property
    def strategy(self) -> tuple[str, dict[str, Any]]:
        """Its name and parameters."""
        floor = FLOORS[self.setup]
        migration = {"alpha": self.alpha, "beta": floor if self.beta is None else self.beta}
        match self.balancing:
            case "no LB":
                return "", {}
            case "LDM" | "SDM":
                return self.balancing.lower(), migration
            case "LDM to any broker" | "LDM lightest first":
                return self.balancing.lower().replace(" to ", "-").replace(" ", "-"), migration
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
    """``progress`` is called for each run that has to be made; ``small`` makes a smaller network, for tests.

    ``controls`` replace strategies by broken ones, to see whether the verdicts notice it.
    """

    seeds: tuple[int, ...]
    small: bool = False
    progress: Callable[[Variant, int, float], None] = lambda variant, seed, share: None
    controls: Controls = field(default_factory=dict)
    _kept: dict[tuple[Variant, int], Run] = field(default_factory=dict)
    _derived: dict[Hashable, float] = field(default_factory=dict)

    def of(self, variant: Variant) -> list[Run]:
        return [self.one(variant, seed) for seed in self.seeds]

    def one(self, variant: Variant, seed: int) -> Run:
        if (variant, seed) not in self._kept:
            self.progress(variant, seed, 0.0)
            self._kept[variant, seed] = made(
                variant, seed, self.small, self.controls, lambda share: self.progress(variant, seed, share)
            )
            self.progress(variant, seed, 1.0)
        return self._kept[variant, seed]

    def broken(self, controls: Controls) -> Runs:
        """With broken strategies; runs that none of them takes part in are kept."""
        kept = {key: run for key, run in self._kept.items() if key[0].strategy[0] not in controls}
        return Runs(self.seeds, self.small, controls=controls, _kept=kept)

    def once(self, key: Hashable, derive: Callable[[], float]) -> float:
        """What several figures derive from the same runs."""
        if key not in self._derived:
            self._derived[key] = derive()
        return self._derived[key]

    def work(self, variant: Variant, seed: int) -> Workload:
        return workload(variant.setup, seed, self.small)

    def keep(self, variant: Variant, seed: int, run: Run) -> None:
        """Adds a run that was made elsewhere."""
        self._kept[variant, seed] = run

    def make(self, variants: Iterable[Variant], jobs: int) -> None:
        """Makes all these runs in parallel, ordered by seed, so that a process can reuse the workload of a seed."""
        wanted = [(variant, seed) for seed in self.seeds for variant in variants]
        wanted.sort(key=lambda each: (each[1], each[0].setup))
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            under_way = {
                pool.submit(made, *each, self.small, self.controls): each for each in wanted if each not in self._kept
            }
            for future in as_completed(under_way):
                variant, seed = under_way[future]
                self._kept[variant, seed] = future.result()
                self.progress(variant, seed, 1.0)


def made(
    variant: Variant,
    seed: int,
    small: bool,
    controls: Controls,
    progress: Callable[[float], None] = lambda share: None,
) -> Run:
    work = workload(variant.setup, seed, small)
    name, parameters = variant.strategy
    broken = {**BESIDE, **controls}
    decide = partial(Parts, strategy=broken[name](**parameters)) if name in broken else Parts
    return simulate(work, variant.settings, seed=seed, progress=lambda at: progress(at / work.seconds), decide=decide)


#: A tenth of the people with half as many subscriptions and twenty times the rates make the same load.
SMALL = Size(
    subscribers=1_000, backs=200, channels=5, seconds=600.0, fewest=5, most=15, subscribed_by=160.0, rate=(5e5, 1.2e5)
)


@cache
def workload(setup: str, seed: int, small: bool) -> Workload:
    if setup == "proto":
        return prototype(seed, people=200, reports=6_700, seconds=600) if small else prototype(seed)
    return debs_simulation(seed, SMALL if small else Size())
