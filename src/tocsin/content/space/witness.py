"""A publication that a conjunction accepts, at the edge of its ranges: what accepts it as well may cover it."""

from __future__ import annotations

from collections.abc import Iterable

from tocsin.content.language import patterns
from tocsin.content.language.attributes import Attributes
from tocsin.content.language.domains import Ordinal
from tocsin.content.space import ranges as sets
from tocsin.content.space.conjunction import Conjunction
from tocsin.content.space.values import Values

Witness = dict[str, Ordinal]


def witness_of(term: Conjunction, attributes: Attributes) -> Witness | None:
    """With as few attributes as possible; None if none is found, which can be with several patterns."""
    found: Witness = {}
    for name, values in term.values:
        if values.null:
            continue
        ordinal = next((each for each in _candidates(values) if values.accepts(each)), None)
        if ordinal is None:
            return None
        found[name] = ordinal
    for circle in term.inside:
        for name, degrees in ((circle.latitude, circle.lat), (circle.longitude, circle.lon)):
            first = attributes[name].domain.bounds(degrees)[0]
            found[name] = first
    return found if term.accepts(found, lambda name, ordinal: attributes[name].domain.number(ordinal)) else None


def _candidates(values: Values) -> Iterable[Ordinal]:
    for pattern in sorted(values.like):
        yield patterns.shortest(pattern)
    for low, _ in sets.pairs(values.ranges):
        yield low
    if values.unlike and values.ranges:
        # Something that no pattern is likely to have in it.
        yield f"{values.ranges[0]}\U0010fffd"
