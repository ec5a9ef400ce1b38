"""The runs that figures share: each is made once for each seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from typing import Any, Protocol

from tocsin.experiments.antoine2014 import arena, network
from tocsin.experiments.antoine2014.network import PAPER, SMALL, Result, Size
from tocsin.experiments.outcome import Spread

#: Called with the name of a run, its seed, and whether it has ended.
Progress = Callable[[str, int, bool], None]


def quiet(name: str, seed: int, ended: bool) -> None:
    """No progress is shown."""


ABSOLUTE, RELATIVE = "eventcloud-absolute", "eventcloud-relative"
INSERTED = "while inserted"
#: Of the strategies side by side.
PEERS, FEW_PEERS = arena.Size(32, 3_200), arena.Size(8, 240, 60.0)


class Job(Protocol):
    """What another process can make: it has to be pickled. ``str`` names it."""

    def __call__(self, runs: Runs, seed: int) -> Any: ...


@dataclass(frozen=True)
class Variant:
    """One of ``MAKERS``."""

    name: str

    def __str__(self) -> str:
        return self.name

    def __call__(self, runs: Runs, seed: int) -> Result:
        return MAKERS[self.name](runs.size, seed)


@dataclass
class Runs:
    """``progress`` is called for each run that has to be made."""

    seeds: tuple[int, ...]
    small: bool = False
    progress: Progress = quiet
    arena: arena.Size = PEERS
    _made: dict[tuple[Job, int], Any] = field(default_factory=dict)

    @property
    def size(self) -> Size:
        return SMALL if self.small else PAPER

    def of(self, name: str) -> list[Result]:
        return [self.one(Variant(name), seed) for seed in self.seeds]

    def one(self, job: Job, seed: int) -> Any:
        if (job, seed) not in self._made:
            self.progress(str(job), seed, False)
            self._made[job, seed] = job(self, seed)
            self.progress(str(job), seed, True)
        return self._made[job, seed]

    def keep(self, name: str, seed: int, result: Result) -> None:
        """Adds a run that was made elsewhere."""
        self._made[Variant(name), seed] = result

    def make(self, jobs: Iterable[Job], processes: int) -> None:
        """Makes all of these in parallel."""
        alone = Runs(self.seeds, self.small, arena=self.arena)  # without the progress, which stays in this process
        wanted = [(job, seed) for seed in self.seeds for job in jobs if (job, seed) not in self._made]
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            under_way = {pool.submit(job, alone, seed): (job, seed) for job, seed in wanted}
            for future in as_completed(under_way):
                job, seed = under_way[future]
                self._made[job, seed] = future.result()
                self.progress(str(job), seed, True)

    def deviation(self, name: str) -> Spread:
        return Spread(tuple(each.deviation for each in self.of(name)))


def absolute(size: Size, seed: int, seconds: float) -> Result:
    return network.by_themselves(size, seed, ABSOLUTE, seconds, threshold=size.ideal)


def relative(size: Size, seed: int, seconds: float, k1: float = 1.1) -> Result:
    return network.by_themselves(size, seed, RELATIVE, seconds, k1=k1)


MAKERS: dict[str, Callable[[Size, int], Result]] = {
    "oracle, middle": lambda size, seed: network.oracle(size, seed, "middle"),
    "oracle, centroid": lambda size, seed: network.oracle(size, seed, "centroid"),
    "absolute": partial(absolute, seconds=0.0),
    "relative": partial(relative, seconds=0.0),
    "relative, k1 = 1": partial(relative, seconds=0.0, k1=1.0),
    f"absolute, {INSERTED}": partial(absolute, seconds=network.INSERTION),
    f"relative, {INSERTED}": partial(relative, seconds=network.INSERTION),
}
