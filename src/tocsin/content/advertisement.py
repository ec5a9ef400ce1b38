"""An advertisement: the publications that a publisher announces before it sends the first one.

Its attributes are closed: what it does not declare, its publications do not have. So a subscription to another
attribute does not intersect it, and an advertisement covers another if it announces all of the other's publications.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.content.condition import Condition, check_types, covers, intersects
from tocsin.content.language import padres_notation
from tocsin.content.space.conjunction import Conjunction
from tocsin.content.space.normal_form import Terms
from tocsin.content.space.values import anything
from tocsin.errors import UserError


class Advertisement:
    """``condition`` holds for all publications; ``attributes`` are all that they may have."""

    __slots__ = ("attributes", "condition", "terms")

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        self.attributes = condition.attributes
        self.terms: Terms = tuple(self._closed(term) for term in condition.terms)

    @classmethod
    def of_padres(cls, text: str) -> Advertisement:
        """``[class,eq,'STOCK'],[open,isPresent,0]``: declares its attributes and their types itself."""
        expression, attributes = padres_notation.read_advertisement(text)
        return cls(Condition(expression, attributes))

    def __repr__(self) -> str:
        return f"Advertisement({self.condition.to_sql()!r})"

    @property
    def key(self) -> frozenset[Conjunction]:
        """Equal for advertisements with the same normal form."""
        return frozenset(self.terms)

    def _closed(self, term: Conjunction) -> Conjunction:
        every = {each.name: anything(each.domain, each.nullable) for each in self.attributes}
        values = tuple(sorted((every | dict(term.values)).items()))
        return Conjunction(values, term.inside, term.outside, closed=True)

    def intersects(self, subscription: Condition) -> bool:
        """False only if surely none of its publications matches."""
        check_types(self.attributes, subscription.attributes)
        return intersects(self.terms, subscription.terms)

    def covers(self, other: Advertisement) -> bool:
        check_types(self.attributes, other.attributes)
        return covers(self.terms, other.terms)

    def check(self, publication: Mapping[str, Any]) -> None:
        """Raises UserError or TypeMismatch for a publication that was not announced."""
        if not self.condition.matches(publication):
            hint = f"it announced {self.condition.to_sql()}"
            raise UserError("the publication is not one that its publisher advertised", hint=hint)
