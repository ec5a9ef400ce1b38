"""Chooses the broker of a new subscriber, before it has subscribed, so its load is unknown (DEBS 2019, section 5.1).

All placements consider only brokers that accept subscribers, and prefer strong brokers where they compare load. Random
numbers come from the caller. ``None``: no broker accepts subscribers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tocsin.errors import NotFound

if TYPE_CHECKING:
    from random import Random

#: Kilometres.
EARTH_RADIUS = 6371.0


@dataclass(frozen=True)
class Candidate:
    """A broker as placement sees it: its last reported load, and the subscribers placed there since."""

    broker: str
    load: float = 0.0
    capacity: float = 1.0
    subscribers: int = 0
    max_subscribers: int | None = None
    open: bool = True
    at: tuple[float, float] | None = None  # latitude, longitude

    @property
    def accepts(self) -> bool:
        return self.open and (self.max_subscribers is None or self.subscribers < self.max_subscribers)

    @property
    def rank(self) -> tuple[float, float]:
        """By load, and among equals by subscribers: before the first notification all loads are 0."""
        return self.load / self.capacity, self.subscribers / self.capacity


@dataclass(frozen=True)
class NewSubscriber:
    """``distances``: measured round trips in milliseconds by broker; they are preferred to coordinates."""

    at: tuple[float, float] | None = None
    distances: Mapping[str, float] = field(default_factory=dict)


class Placement(ABC):
    def place(self, who: NewSubscriber, candidates: Sequence[Candidate], random: Random) -> str | None:
        accepting = [each for each in candidates if each.accepts]
        return self.choose(who, accepting, random) if accepting else None

    @abstractmethod
    def choose(self, who: NewSubscriber, accepting: Sequence[Candidate], random: Random) -> str:
        """One of these, of which there is at least one."""


class Nearest(Placement):
    """NR: the shortest round trip, or else the shortest distance on the earth; random if neither is known."""

    def choose(self, who: NewSubscriber, accepting: Sequence[Candidate], random: Random) -> str:
        measured = [each for each in accepting if each.broker in who.distances]
        if measured:
            return min(measured, key=lambda each: (who.distances[each.broker], each.broker)).broker
        if who.at is not None:
            here = who.at
            located = [(kilometres(here, each.at), each.broker) for each in accepting if each.at is not None]
            if located:
                return min(located)[1]
        return RandomBroker().choose(who, accepting, random)


class RoundRobin(Placement):
    """RR: one after the other, by name, so that brokers may come and go between two turns."""

    def __init__(self) -> None:
        self._last = ""

    def choose(self, who: NewSubscriber, accepting: Sequence[Candidate], random: Random) -> str:
        names = sorted(each.broker for each in accepting)
        self._last = next((name for name in names if name > self._last), names[0])
        return self._last


class RandomBroker(Placement):
    """RND: random, in proportion to capacity."""

    def choose(self, who: NewSubscriber, accepting: Sequence[Candidate], random: Random) -> str:
        return random.choices(accepting, [each.capacity for each in accepting])[0].broker


class LeastLoaded(Placement):
    """LL: the lowest reported load. Between two reports all go to the same broker: the paper's herd."""

    def choose(self, who: NewSubscriber, accepting: Sequence[Candidate], random: Random) -> str:
        return min(accepting, key=lambda each: (each.rank, each.broker)).broker


class TwoChoices(Placement):
    """The less loaded of two random brokers: nearly as even as LL, and without a herd however old the reports are."""

    def choose(self, who: NewSubscriber, accepting: Sequence[Candidate], random: Random) -> str:
        two = random.choices(accepting, [each.capacity for each in accepting], k=2)
        return min(two, key=lambda each: each.rank).broker


PLACEMENTS: dict[str, type[Placement]] = {
    "nearest": Nearest,
    "round-robin": RoundRobin,
    "random": RandomBroker,
    "least-loaded": LeastLoaded,
    "two-choices": TwoChoices,
}


def make(name: str) -> Placement:
    if name not in PLACEMENTS:
        raise NotFound("placement", name, hint=f"there are: {', '.join(PLACEMENTS)}")
    return PLACEMENTS[name]()


def kilometres(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Distance between two points on the earth (haversine)."""
    (lat1, lon1), (lat2, lon2) = a, b
    p, q = math.radians(lat1), math.radians(lat2)
    half = math.sin((q - p) / 2) ** 2 + math.cos(p) * math.cos(q) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * EARTH_RADIUS * math.asin(min(1.0, math.sqrt(half)))
