"""A conjunction: for each attribute the values it may have, and circles that the place is in or out of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from tocsin.content.language.domains import Ordinal
from tocsin.content.space.circles import Circle
from tocsin.content.space.values import Values


class Conjunction(Struct, frozen=True):
    """``values`` are sorted by name. ``closed``: attributes without values are null, as in an advertisement."""

    values: tuple[tuple[str, Values], ...] = ()
    inside: frozenset[Circle] = frozenset()
    outside: frozenset[Circle] = frozenset()
    closed: bool = False

    @property
    def is_empty(self) -> bool:
        if any(values.is_empty for _, values in self.values):
            return True
        return bool(self.inside) and (
            any(near.is_disjoint(other) for near in self.inside for other in self.inside)
            or any(far.covers(near) for near in self.inside for far in self.outside)
        )

    def accepts(self, publication: Mapping[str, Ordinal], number: Callable[[str, Ordinal], float]) -> bool:
        """``number`` gives the number with an ordinal of an attribute."""
        if not all(values.accepts(publication.get(name)) for name, values in self.values):
            return False
        if self.closed and not publication.keys() <= {name for name, _ in self.values}:
            return False
        for circles, near in ((self.inside, True), (self.outside, False)):
            for circle in circles:
                lat, lon = publication.get(circle.latitude), publication.get(circle.longitude)
                if lat is None or lon is None:
                    return False
                metres = circle.distance(number(circle.latitude, lat), number(circle.longitude, lon))
                if metres is None or (metres <= circle.metres) != near:
                    return False
        return True

    def intersection(self, other: Conjunction) -> Conjunction:
        mine, theirs = dict(self.values), dict(other.values)
        joined: dict[str, Values] = {}
        for name in sorted(mine.keys() | theirs.keys()):
            one, two = mine.get(name), theirs.get(name)
            if one is None or two is None:
                given, absent_is_null = (two, self.closed) if one is None else (one, other.closed)
                assert given is not None
                joined[name] = Values((), given.null) if absent_is_null else given
            else:
                joined[name] = one.intersection(two)
        closed = self.closed or other.closed
        return Conjunction(tuple(joined.items()), self.inside | other.inside, self.outside | other.outside, closed)

    def covers(self, other: Conjunction) -> bool:
        """Whether surely every publication that the other accepts is accepted; exact without patterns and circles."""
        if self.closed and not other.closed:
            return False
        theirs = dict(other.values)
        for name, values in self.values:
            found = theirs.pop(name, None)
            if found is None:
                if not (other.closed and values.null):
                    return False
            elif not values.covers(found):
                return False
        if self.closed and any(values.ranges for values in theirs.values()):
            return False
        return all(any(circle.covers(near) for near in other.inside) for circle in self.inside) and all(
            any(far.covers(circle) for far in other.outside) or any(circle.is_disjoint(near) for near in other.inside)
            for circle in self.outside
        )

    def is_disjoint(self, other: Conjunction) -> bool:
        """Whether surely no publication is accepted by both."""
        return self.intersection(other).is_empty

    def union(self, other: Conjunction) -> Conjunction | None:
        """One conjunction for both, if they differ in one attribute only."""
        if (self.inside, self.outside, self.closed) != (other.inside, other.outside, other.closed):
            return None
        if len(self.values) != len(other.values):
            return None
        different = [(a, b) for a, b in zip(self.values, other.values, strict=True) if a != b]
        if len(different) != 1 or different[0][0][0] != different[0][1][0]:
            return None
        (name, one), (_, two) = different[0]
        values = one.union(two)
        if values is None:
            return None
        kept = tuple((each, values if each == name else given) for each, given in self.values)
        return Conjunction(kept, self.inside, self.outside, self.closed)


EVERYTHING = Conjunction()


def joined(terms: Iterable[Conjunction]) -> Conjunction:
    """The intersection of many that are not closed."""
    values: dict[str, Values] = {}
    inside: set[Circle] = set()
    outside: set[Circle] = set()
    for term in terms:
        for name, given in term.values:
            known = values.get(name)
            values[name] = given if known is None else known.intersection(given)
        inside |= term.inside
        outside |= term.outside
    return Conjunction(tuple(sorted(values.items())), frozenset(inside), frozenset(outside))
