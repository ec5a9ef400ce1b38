"""Where a newcomer goes: before it has subscribed to anything, so its load is not known yet (DEBS 2019, section 5.1).

All of them look only at brokers that take subscribers, and prefer strong brokers where load is compared. Chance comes
from the caller. ``None``: no broker takes anybody.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from tocsin.errors import NotFound

if TYPE_CHECKING:
    from random import Random

#: Kilometres.
EARTH = 6371.0


@dataclass(frozen=True)
class Place:
    """A broker as placement sees it: the last report of its load, and who was sent there since."""

    broker: str
    load: float = 0.0
    capacity: float = 1.0
    subscribers: int = 0
    most: int | None = None
    open: bool = True
    at: tuple[float, float] | None = None  # latitude, longitude

    @property
    def takes(self) -> bool:
        return self.open and (self.most is None or self.subscribers < self.most)

    @property
    def relative(self) -> float:
        return self.load / self.capacity

    @property
    def rank(self) -> tuple[float, float]:
        """By load, and among equals by people: before anything flows all loads are 0."""
        return self.relative, self.subscribers / self.capacity


@dataclass(frozen=True)
class Newcomer:
    """``rtt``: measured round trips in seconds by broker; they say more than coordinates where both are known."""

    at: tuple[float, float] | None = None
    rtt: Mapping[str, float] = field(default_factory=dict)


class Placement(Protocol):
    def place(self, newcomer: Newcomer, places: Sequence[Place], random: Random) -> str | None: ...


class Nearest:
    """NR: the shortest round trip, or the shortest way; by chance if nothing is known."""

    def place(self, newcomer: Newcomer, places: Sequence[Place], random: Random) -> str | None:
        open_ = [place for place in places if place.takes]
        measured = [place for place in open_ if place.broker in newcomer.rtt]
        if measured:
            return min(measured, key=lambda place: (newcomer.rtt[place.broker], place.broker)).broker
        if newcomer.at is not None:
            here = newcomer.at
            known = [(way(here, place.at), place.broker) for place in open_ if place.at is not None]
            if known:
                return min(known)[1]
        return RandomBroker().place(newcomer, places, random)


class RoundRobin:
    """RR: one after the other, by name, so that brokers may come and go between two turns."""

    def __init__(self) -> None:
        self._last = ""

    def place(self, newcomer: Newcomer, places: Sequence[Place], random: Random) -> str | None:
        names = sorted(place.broker for place in places if place.takes)
        if not names:
            return None
        self._last = next((name for name in names if name > self._last), names[0])
        return self._last


class RandomBroker:
    """RND: any, the strong ones more often."""

    def place(self, newcomer: Newcomer, places: Sequence[Place], random: Random) -> str | None:
        open_ = [place for place in places if place.takes]
        if not open_:
            return None
        return random.choices(open_, [place.capacity for place in open_])[0].broker


class LeastLoaded:
    """LL: the lowest reported load. Between two reports everybody is sent to the same one: the paper's herd."""

    def place(self, newcomer: Newcomer, places: Sequence[Place], random: Random) -> str | None:
        open_ = [place for place in places if place.takes]
        return min(open_, key=lambda place: (place.rank, place.broker)).broker if open_ else None


class TwoChoices:
    """Two by chance, and the less loaded of them: nearly as even, and no herd however old the reports are."""

    def place(self, newcomer: Newcomer, places: Sequence[Place], random: Random) -> str | None:
        open_ = [place for place in places if place.takes]
        if not open_:
            return None
        two = random.choices(open_, [place.capacity for place in open_], k=2)
        return min(two, key=lambda place: place.rank).broker


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


def way(a: tuple[float, float], b: tuple[float, float]) -> float:
    """Kilometres between two points on the earth (haversine)."""
    (lat1, lon1), (lat2, lon2) = a, b
    p, q = math.radians(lat1), math.radians(lat2)
    half = math.sin((q - p) / 2) ** 2 + math.cos(p) * math.cos(q) * math.sin(math.radians(lon2 - lon1) / 2) ** 2
    return 2 * EARTH * math.asin(min(1.0, math.sqrt(half)))
