"""Which of many announcements may intersect one: those with the same single value of an attribute, or without one.

Stock quotes have a class and a symbol, alarms a kind: most pairs differ there, and need not be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from tocsin.content import Advertisement, Condition
from tocsin.content.language.domains import Ordinal
from tocsin.content.space import ranges as sets
from tocsin.content.space.conjunction import Conjunction

What = TypeVar("What", Advertisement, Condition)
Name = TypeVar("Name")
Keys = dict[Name, None]


class OverlapIndex(Generic[Name, What]):
    def __init__(self) -> None:
        self.items: dict[Name, What] = {}
        #: By attribute and value, and by attribute: those that have several values for it in one of their terms.
        self._single: dict[str, dict[Ordinal, Keys[Name]]] = {}
        self._several: dict[str, Keys[Name]] = {}

    def add(self, name: Name, what: What) -> None:
        terms = [_points(term) for term in what.terms]
        for attribute in {attribute: None for points in terms for attribute in points}:
            if attribute not in self._single:
                self._single[attribute] = {}
                self._several[attribute] = dict.fromkeys(self.items)
        self.items[name] = what
        for attribute, values in self._single.items():
            for points in terms:
                keys = values.setdefault(points[attribute], {}) if attribute in points else self._several[attribute]
                keys[name] = None

    def remove(self, name: Name) -> None:
        terms = [_points(term) for term in self.items.pop(name).terms]
        for attribute, values in list(self._single.items()):
            self._several[attribute].pop(name, None)
            for points in terms:
                keys = values.get(points[attribute]) if attribute in points else None
                if keys is not None:
                    keys.pop(name, None)
                    if not keys:
                        del values[points[attribute]]
            if not values:
                del self._single[attribute], self._several[attribute]

    def candidates(self, what: Advertisement | Condition) -> Iterator[tuple[Name, What]]:
        """All that intersect it, and a few others."""
        found: Keys[Name] = {}
        for term in what.terms:
            found |= self._of_term(_points(term))
        for name in found:
            yield name, self.items[name]

    def _of_term(self, points: dict[str, Ordinal]) -> Keys[Name]:
        known = [attribute for attribute in points if attribute in self._single]
        if not known:
            return dict.fromkeys(self.items)

        def size(attribute: str) -> int:
            same = self._single[attribute].get(points[attribute], {})
            return len(same) + len(self._several[attribute])

        best = min(known, key=size)
        return self._single[best].get(points[best], {}) | self._several[best]


def _points(term: Conjunction) -> dict[str, Ordinal]:
    """The attributes for which a conjunction accepts one value only."""
    found: dict[str, Ordinal] = {}
    for name, values in term.values:
        one = None if values.null else sets.points(values.ranges, 1)
        if one:
            found[name] = one[0]
    return found
