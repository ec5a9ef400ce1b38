"""Terms in lexicographic order as numbers, so that there is a middle between two of them.

A term is a number in base 2^21 with one digit for each character: its code point plus one. A term that ends has the
digit 0 there and comes before its continuations. Only the first LENGTH characters count: longer terms that begin alike
have the same coordinate, which keeps the order and only means that no cut separates them.
"""

from __future__ import annotations

from functools import lru_cache

from tocsin.overlay.keyspace.can.boxes import Space
from tocsin.overlay.keyspace.model.contact import Box, Point

BITS = 21
LENGTH = 96
#: The number of code points, and the end of a term.
DIGITS = 0x110000 + 1
SIZE = DIGITS << (BITS * (LENGTH - 1))
#: Graph, subject, predicate, object.
QUADRUPLES = Space(4, SIZE, torus=False)
WILDCARD = None


@lru_cache(maxsize=200_000)
def coordinate(term: str) -> int:
    number = 0
    for character in term[:LENGTH]:
        number = number << BITS | (ord(character) + 1)
    return number << (BITS * (LENGTH - min(len(term), LENGTH)))


def point(quadruple: tuple[str, ...]) -> Point:
    return tuple(map(coordinate, quadruple))


def span(pattern: tuple[str | None, ...]) -> Box:
    """The keys that a subscription selects: fixed terms, and everything where there is a wildcard."""
    return tuple((0, SIZE) if term is WILDCARD else (coordinate(term), coordinate(term) + 1) for term in pattern)
