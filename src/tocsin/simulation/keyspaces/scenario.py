"""What a seed becomes: a key space with a few peers, small settings, and items to store."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import Struct

from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.can.can import Can
from tocsin.overlay.keyspace.can.terms import QUADRUPLES, point, span
from tocsin.overlay.keyspace.chord.chord import Chord, hashed
from tocsin.overlay.keyspace.mercury.attribute import Attribute
from tocsin.overlay.keyspace.mercury.mercury import Hub
from tocsin.overlay.keyspace.model.contact import Point
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.overlay import Overlay


class Scenario(Struct, frozen=True):
    """``rings``: their overlays by name; ``members`` of each that a peer has. ``point`` gives the key of item n."""

    kind: str
    rings: dict[str, Overlay]
    members: dict[str, int]
    peers: int
    spare: int
    items: int
    settings: Settings
    point: Callable[[Random, int], Point]

    def subscription(self, rng: Random, number: int, host: str) -> Item | None:
        """Only quadruples have wildcards."""
        if self.kind != "event cloud":
            return None
        pattern = tuple(rng.choice((*TERMS, None, None, None)) for _ in range(3))
        where = span((*pattern, None))
        return Item(f"s{number}", tuple(low for low, _ in where), host, 1, where)

    def item(self, rng: Random, number: int) -> Item:
        return Item(f"i{number}", self.point(rng, number), f"value {number}")


def draw(kind: str, rng: Random) -> Scenario:
    peers, copies = rng.randint(3, 7), rng.choice((2, 3, 3))
    settings = Settings(copies=copies, successors=copies + 2)
    rings, members, point = KINDS[kind](rng)
    return Scenario(kind, rings, members, peers, rng.randint(0, 2), rng.randint(5, 25), settings, point)


Kind = tuple[dict[str, Overlay], dict[str, int], Callable[[Random, int], Point]]


def chord(rng: Random) -> Kind:
    """Virtual servers: several members on each peer."""
    return {"chord": Chord()}, {"chord": rng.choice((1, 1, 2, 2, 3))}, lambda rng, number: (hashed(f"i{number}"),)


def can(rng: Random) -> Kind:
    """Hashed keys in two or three dimensions."""
    dimensions = rng.choice((2, 3))
    place = lambda rng, number: tuple(hashed(f"i{number}", function, 32) for function in range(dimensions))  # noqa: E731
    return {"can": Can(Space(dimensions, 1 << 32))}, {"can": 1}, place


def event_cloud(rng: Random) -> Kind:
    """Quadruples in lexicographic order."""
    return {"quadruples": Can(QUADRUPLES, rng.choice(("middle", "centroid")))}, {"quadruples": 1}, _quadruple


TERMS = ("http://a", "http://ab", "http://b/1", "http://b/2", "x", "", "Ω")


def _quadruple(rng: Random, number: int) -> Point:
    return point((*(rng.choice(TERMS) for _ in range(3)), f"object {number}"))


def mercury(rng: Random) -> Kind:
    """Two hubs; most values are close together."""
    return {"price": Hub(3), "volume": Hub(3)}, {"price": 1, "volume": 1}, _value


def _value(rng: Random, number: int) -> Point:
    return (Attribute("", 0.0, 1.0).place(rng.random() ** 4),)


KINDS: dict[str, Callable[[Random], Kind]] = {
    "mercury": mercury,
    "chord": chord,
    "can": can,
    "event cloud": event_cloud,
}
