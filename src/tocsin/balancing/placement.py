"""Where a newcomer goes: nearest, round robin, random, least loaded, or the better of two by chance.

Least loaded sends everybody who comes between two reports to the same broker (the herd that the DEBS paper describes);
looking at two brokers by chance does not, and ends nearly as even.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from tocsin.balancing.load import Status
from tocsin.errors import NotFound

if TYPE_CHECKING:
    import random

Point = tuple[float, float]


@dataclass(frozen=True)
class Candidate:
    """A broker as placement sees it. ``load`` is relative to its capacity, ``distance`` measured by the newcomer."""

    number: int
    load: float = 0.0
    subscribers: int = 0
    most: int = 2**31 - 1
    capacity: float = 1.0
    status: Status = Status.OPEN
    place: Point | None = None
    distance: float | None = None

    @property
    def takes(self) -> bool:
        return self.status is Status.OPEN and self.subscribers < self.most

    @property
    def fullness(self) -> tuple[float, float]:
        """By load, and among equals by subscribers for its capacity: before anything flows all loads are 0."""
        return self.load, self.subscribers / self.capacity


class Placement(Protocol):
    def choose(self, candidates: Sequence[Candidate], where: Point | None = None) -> int | None:
        """The number of a broker that takes one more; None if there is none."""


class _Open:
    """Leaves out those that are full, draining or gone."""

    def choose(self, candidates: Sequence[Candidate], where: Point | None = None) -> int | None:
        usable = [each for each in candidates if each.takes]
        return self.among(usable, where).number if usable else None

    def among(self, usable: list[Candidate], where: Point | None) -> Candidate:
        raise NotImplementedError


class RoundRobin(_Open):
    """In turns, by capacity: one with twice as much gets every second turn more."""

    def __init__(self, rng: random.Random) -> None:
        self._due: dict[int, float] = {}

    def among(self, usable: list[Candidate], where: Point | None) -> Candidate:
        first = min((self._due.get(each.number, 0.0) for each in usable), default=0.0)
        chosen = min(usable, key=lambda each: (self._due.get(each.number, first), each.number))
        self._due[chosen.number] = self._due.get(chosen.number, first) + 1.0 / chosen.capacity
        return chosen


class Random(_Open):
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def among(self, usable: list[Candidate], where: Point | None) -> Candidate:
        return self.rng.choices(usable, [each.capacity for each in usable])[0]


class LeastLoaded(_Open):
    def __init__(self, rng: random.Random) -> None:
        pass

    def among(self, usable: list[Candidate], where: Point | None) -> Candidate:
        return min(usable, key=lambda each: (each.fullness, each.number))


class TwoChoices(Random):
    """The less loaded of two brokers drawn by chance."""

    def among(self, usable: list[Candidate], where: Point | None) -> Candidate:
        if len(usable) < 3:
            pair = usable
        else:
            first = super().among(usable, where)
            pair = [first, super().among([each for each in usable if each is not first], where)]
        return min(pair, key=lambda each: each.fullness)


class Nearest(_Open):
    """By the round trips that the newcomer measured, or else by coordinates; without either, two choices."""

    def __init__(self, rng: random.Random) -> None:
        self.otherwise = TwoChoices(rng)

    def among(self, usable: list[Candidate], where: Point | None) -> Candidate:
        measured = [each for each in usable if each.distance is not None]
        if measured:
            return min(measured, key=lambda each: (each.distance or 0.0, each.fullness, each.number))
        placed = [(apart(where, each.place), each) for each in usable if each.place is not None] if where else []
        if not placed:
            return self.otherwise.among(usable, where)
        return min(placed, key=lambda pair: (pair[0], pair[1].fullness, pair[1].number))[1]


def apart(one: Point | None, other: Point | None) -> float:
    """How far two points are from each other, as an angle."""
    assert one is not None and other is not None
    (a, b), (c, d) = one, other
    p, q = math.radians(a), math.radians(c)
    h = math.sin((q - p) / 2) ** 2 + math.cos(p) * math.cos(q) * math.sin(math.radians(d - b) / 2) ** 2
    return 2 * math.asin(min(1.0, math.sqrt(h)))


PLACEMENTS: dict[str, Callable[[random.Random], Placement]] = {
    "nearest": Nearest,
    "round_robin": RoundRobin,
    "random": Random,
    "least_loaded": LeastLoaded,
    "two_choices": TwoChoices,
}


def make_placement(name: str, rng: random.Random) -> Placement:
    if name not in PLACEMENTS:
        raise NotFound("placement", name, hint=f"there are: {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name](rng)
