"""The runs that figures share: each is made once for each seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tocsin.experiments.antoine2014 import arena, network
from tocsin.experiments.antoine2014.network import PAPER, SMALL, Result, Size
from tocsin.experiments.outcome import Spread

#: Called with the name of a run, its seed, and whether it has ended.
Progress = Callable[[str, int, bool], None]
ABSOLUTE, RELATIVE = "eventcloud-absolute", "eventcloud-relative"
INSERTED = "while inserted"
#: Of the strategies side by side.
PEERS, FEW_PEERS = arena.Size(32, 3_200), arena.Size(8, 240, 60.0)


@dataclass
class Runs:
    seeds: tuple[int, ...]
    small: bool = False
    progress: Progress = lambda name, seed, ended: None
    arena: arena.Size = PEERS
    _made: dict[tuple[str, int], Result] = field(default_factory=dict)

    @property
    def size(self) -> Size:
        return SMALL if self.small else PAPER

    def of(self, name: str) -> list[Result]:
        return [self.one(name, seed) for seed in self.seeds]

    def one(self, name: str, seed: int) -> Result:
        if (name, seed) not in self._made:
            self.progress(name, seed, False)
            self._made[name, seed] = MAKERS[name](self.size, seed)
            self.progress(name, seed, True)
        return self._made[name, seed]

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
