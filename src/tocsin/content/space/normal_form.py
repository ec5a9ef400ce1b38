"""The normal form of a condition: conjunctions of which one has to accept a publication.

SQL has three truth values. A condition selects what makes it true, and its negation what makes it false: so the form
is built of both sides of each comparison, and NOT changes sides on the way down.
"""

from __future__ import annotations

from functools import reduce

from tocsin.content.language import expressions as ex
from tocsin.content.language.attributes import Attributes
from tocsin.content.language.domains import Domain, Value, of_double
from tocsin.content.space import ranges as sets
from tocsin.content.space.circles import Circle
from tocsin.content.space.conjunction import EVERYTHING, Conjunction, joined
from tocsin.content.space.ranges import EMPTY, Ranges
from tocsin.content.space.values import Values, anything, like, unlike
from tocsin.errors import LimitExceeded

#: Conjunctions of one condition.
MOST_TERMS = 64
#: Conjunctions that are tried on the way to the normal form.
MOST_TRIED = 2_000
Terms = tuple[Conjunction, ...]
_HINT = "split it into several subscriptions"


def terms_of(expression: ex.Expression, attributes: Attributes) -> Terms:
    """Empty for a condition that is never true; LimitExceeded for one with too many combinations of OR and AND."""
    return tuple(_NormalForm(attributes).terms(expression, True))


class _NormalForm:
    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self.tried = 0

    def terms(self, item: ex.Expression, truth: bool) -> list[Conjunction]:
        """The publications for which an expression is true, or false."""
        if isinstance(item, ex.Not):
            return self.terms(item.operand, not truth)
        if isinstance(item, ex.And | ex.Or):
            parts = [self.terms(operand, truth) for operand in item.operands]
            return self._product(parts) if isinstance(item, ex.And) == truth else self._union(parts)
        if isinstance(item, ex.Constant):
            return [EVERYTHING] if item.value is truth else []
        found = self._within(item, truth) if isinstance(item, ex.Within) else self._leaf(item, truth)
        return [] if found.is_empty else [found]

    def _union(self, parts: list[list[Conjunction]]) -> list[Conjunction]:
        out: list[Conjunction] = []
        for part in parts:
            for term in part:
                self._add(out, term)
        return out

    def _product(self, parts: list[list[Conjunction]]) -> list[Conjunction]:
        if not all(parts):
            return []
        # Single terms first: they make the others smaller.
        first = joined([part[0] for part in parts if len(part) == 1])
        out = [] if first.is_empty else [first]
        for part in sorted((part for part in parts if len(part) > 1), key=len):
            step: list[Conjunction] = []
            for one in out:
                for other in part:
                    both = one.intersection(other)
                    if not both.is_empty:
                        self._add(step, both)
            out = step
        return out

    def _add(self, out: list[Conjunction], term: Conjunction) -> None:
        """Joins what can be one conjunction, and leaves out what others cover."""
        self.tried += 1
        if self.tried > MOST_TRIED:
            message = f"the condition has more than {MOST_TRIED:,} combinations of AND and OR"
            raise LimitExceeded(message, hint=_HINT, limit=MOST_TRIED)
        index = 0
        while index < len(out):
            if out[index].covers(term):
                return
            joined = out[index].union(term)
            if joined is not None or term.covers(out[index]):
                term = self._open(joined) if joined is not None else term
                del out[index]
                index = 0
                continue
            index += 1
        out.append(term)
        if len(out) > MOST_TERMS:
            message = f"the condition is a disjunction of more than {MOST_TERMS} conjunctions"
            raise LimitExceeded(message, hint=_HINT, limit=MOST_TERMS)

    def _open(self, term: Conjunction) -> Conjunction:
        """Without attributes that may have any value."""
        kept = tuple((name, values) for name, values in term.values if values != self._anything(name))
        return Conjunction(kept, term.inside, term.outside)

    def _anything(self, name: str) -> Values:
        attribute = self.attributes[name]
        return anything(attribute.domain, attribute.nullable)

    def _leaf(self, item: ex.Expression, truth: bool) -> Conjunction:
        assert not isinstance(item, ex.Not | ex.And | ex.Or | ex.Constant | ex.Within)
        attribute = self.attributes[item.attribute]
        values = _values(item, truth, attribute.domain)
        if values.null and not attribute.nullable:
            values = Values(values.ranges, False, values.like, values.unlike)
        return self._open(Conjunction(((attribute.name, values),)))

    def _within(self, item: ex.Within, truth: bool) -> Conjunction:
        """With the places that the distance is known from; a circle also has a range of latitudes."""
        circle = Circle(item.latitude, item.longitude, item.lat, item.lon, item.metres)
        names = {circle.latitude: (-90.0, 90.0), circle.longitude: (-360.0, 360.0)}
        if not circle.is_known or (truth and circle.is_empty):
            return Conjunction(((circle.latitude, Values(EMPTY)),))
        if truth and circle.latitude != circle.longitude:
            names[circle.latitude] = circle.latitudes()
        values = []
        for name, (low, high) in sorted(names.items()):
            domain = self.attributes[name].domain
            values.append((name, Values(_span(domain, _bound(domain, low, 0), _bound(domain, high, 1)))))
        inside, outside = frozenset([circle] if truth else ()), frozenset(() if truth else [circle])
        return Conjunction(tuple(values), inside, outside)


def _bound(domain: Domain, number: float, side: int) -> int:
    """The first ordinal of a number that is not below (side 0) or above (side 1) another."""
    if domain.type in ("float", "double"):
        return of_double(number) + side
    found = domain.bounds(number)[side]
    assert isinstance(found, int)
    return found


def _values(item: ex.Expression, truth: bool, domain: Domain) -> Values:
    if isinstance(item, ex.Present):
        return Values((domain.bottom,)) if truth else Values(EMPTY, True)
    if isinstance(item, ex.Like):
        if item.pattern is None:
            return Values(EMPTY)
        return like(item.pattern) if truth else unlike(item.pattern)
    if isinstance(item, ex.Comparison):
        return Values(_compared(domain, item.operator, item.value, truth))
    if isinstance(item, ex.Between):
        low, high = (_compared(domain, op, value, truth) for op, value in ((">=", item.low), ("<=", item.high)))
        return Values(sets.intersection(low, high) if truth else sets.union(low, high))
    assert isinstance(item, ex.Membership)
    each = [_compared(domain, "=", value, True) for value in item.values]
    found = reduce(sets.union, each)
    if truth:
        return Values(found)
    # With a null in the list, IN is never false: the value might be the unknown one.
    return Values(EMPTY if None in item.values else sets.complement(found, domain.bottom))


def _compared(domain: Domain, operator: str, value: Value | None, truth: bool) -> Ranges:
    if value is None:
        return EMPTY
    first, after = domain.bounds(value)
    bottom = domain.bottom
    found = {
        "=": (first, after),
        "<>": (first, after),
        "<": (bottom, first),
        "<=": (bottom, after),
        ">": (after, None),
        ">=": (first, None),
    }[operator]
    ranges = _span(domain, *found)
    return ranges if truth == (operator != "<>") else sets.complement(ranges, bottom)


def _span(domain: Domain, low: int | str, high: int | str | None) -> Ranges:
    return sets.span(low, high, domain.bottom, domain.top)
