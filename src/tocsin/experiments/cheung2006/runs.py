"""The runs that figures share: each is made once for each seed, in this process or in several."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from tocsin.balancing.strategies.cheung2006.composition import Composition
from tocsin.balancing.strategies.cheung2006.parameters import parameters
from tocsin.experiments.cheung2006.controls import SABOTAGES
from tocsin.simulation.edges import topology
from tocsin.simulation.edges.records import Records
from tocsin.simulation.edges.topology import Topology
from tocsin.simulation.edges.workload import Size, generate
from tocsin.simulation.edges.world import Settings, simulate

#: Called with the name of a run, its seed, and whether it has ended.
Progress = Callable[[str, int, bool], None]


@dataclass(frozen=True)
class Variant:
    """One set-up. ``small``: what a quick check runs instead."""

    name: str
    topology: Callable[[], Topology]
    size: Size
    settings: tuple[tuple[str, float], ...] = ()
    small: Size | None = None


def run(variant: Variant, seed: int, small: bool, sabotage: str | None) -> Records:
    size = variant.small if small and variant.small is not None else variant.size
    composition = Composition() if sabotage is None else SABOTAGES[sabotage]
    settings = Settings(variant.topology(), parameters(dict(variant.settings)), composition)
    return simulate(settings, generate(size, seed), seed)


@dataclass
class Runs:
    """``sabotage``: the name of a broken component that runs instead of the thesis' own."""

    seeds: tuple[int, ...]
    small: bool = False
    sabotage: str | None = None
    progress: Progress = lambda name, seed, ended: None
    _made: dict[tuple[str, int], Records] = field(default_factory=dict)

    def of(self, variant: Variant) -> list[Records]:
        return [self.one(variant, seed) for seed in self.seeds]

    def one(self, variant: Variant, seed: int) -> Records:
        key = self._key(variant, seed)
        if key not in self._made:
            self.progress(variant.name, seed, False)
            self._made[key] = run(variant, seed, self.small, self.sabotage)
            self.progress(variant.name, seed, True)
        return self._made[key]

    def _key(self, variant: Variant, seed: int) -> tuple[str, int]:
        return variant.name, seed

    def make(self, variants: list[Variant], jobs: int) -> None:
        """In several processes."""
        missing = [(each, seed) for each in variants for seed in self.seeds if self._key(each, seed) not in self._made]
        with ProcessPoolExecutor(jobs) as pool:
            futures = {key: pool.submit(run, *key, self.small, self.sabotage) for key in missing}
            for (variant, seed), future in futures.items():
                self.progress(variant.name, seed, False)
                self._made[self._key(variant, seed)] = future.result()
                self.progress(variant.name, seed, True)


#: Fewer subscribers and publishers would not overload B1; a shorter time after each change is what a check saves.
LOCAL = Variant("local", topology.local, Size(), small=Size(seconds=2_600.0, change_at=1_900.0))
