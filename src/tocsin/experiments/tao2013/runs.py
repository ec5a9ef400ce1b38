"""The runs that figures share: on the paper's table VI, and on random tables; each is made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache

from tocsin.balancing.deadlines.strategies import make, strategy
from tocsin.balancing.strategies.tao2013.distribution import Distribution
from tocsin.simulation.deadlines.output_queues import Discipline
from tocsin.simulation.deadlines.results import Results
from tocsin.simulation.deadlines.setup import Setup, paper, random_setup
from tocsin.simulation.deadlines.world import Options, World

NONE, PEER, TAO = "no balancing", "PEER", "Tao"
TAO_EDF, SLACK, SHED = "Tao, earliest deadline first", "slack", "slack, sheds"
#: Random tables before this one were used to choose the horizon of our strategy; no figure has them.
DEVELOPED = 100

Maker = Callable[[Setup], Options]
#: Called with the name of a run, its table (0: the paper's), and whether it has ended.
Progress = Callable[[str, int, bool], None]


def unbalanced(setup: Setup) -> Options:
    return Options(strategy("tao"), None, Distribution(setup.correlated))


def balanced(name: str, setup: Setup) -> Options:
    return Options(strategy(name), lambda: make(name), Distribution(setup.correlated))


def earliest(options: Options, *, sheds: bool = False) -> Options:
    return replace(options, discipline=Discipline.EARLIEST, sheds=sheds)


MAKERS: Mapping[str, Maker] = {
    NONE: unbalanced,
    PEER: lambda setup: balanced("peer", setup),
    TAO: lambda setup: balanced("tao", setup),
    TAO_EDF: lambda setup: earliest(balanced("tao", setup)),
    SLACK: lambda setup: earliest(balanced("slack", setup)),
    SHED: lambda setup: earliest(balanced("slack", setup), sheds=True),
}


@cache
def table(seed: int) -> tuple[Setup, int]:
    """The random table of a seed, and how many were left out before it."""
    return random_setup(DEVELOPED + seed)


@dataclass
class Runs:
    """``makers``: of the variants, by name."""

    seeds: tuple[int, ...]
    progress: Progress = lambda name, seed, ended: None
    makers: Mapping[str, Maker] = field(default_factory=lambda: MAKERS)
    _made: dict[tuple[str, int], Results] = field(default_factory=dict)

    def paper(self, name: str) -> Results:
        return self._one(name, 0)

    def of(self, name: str) -> list[Results]:
        """On the random tables."""
        return [self._one(name, seed) for seed in self.seeds]

    def _one(self, name: str, seed: int) -> Results:
        if (name, seed) not in self._made:
            self.progress(name, seed, False)
            setup = table(seed)[0] if seed else paper()
            self._made[name, seed] = World(setup, self.makers[name](setup), seed).run()
            self.progress(name, seed, True)
        return self._made[name, seed]

    def broken(self, makers: Mapping[str, Maker]) -> Runs:
        """With these variants replaced; the runs of the others are not made again."""
        made = {key: run for key, run in self._made.items() if key[0] not in makers}
        return replace(self, makers={**self.makers, **makers}, _made=made)
