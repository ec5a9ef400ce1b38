"""A condition on the attributes of a publication: its tree, its normal form, and how it relates to others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tocsin.content.language import padres_notation, sql_notation
from tocsin.content.language.attributes import Attributes
from tocsin.content.language.domains import Ordinal
from tocsin.content.language.expressions import Expression
from tocsin.content.language.reader import LONGEST
from tocsin.content.space.conjunction import Conjunction
from tocsin.content.space.normal_form import Terms, terms_of
from tocsin.errors import Conflict, LimitExceeded

NEVER = "this condition is never true: no publication can match it"


class Condition:
    """``terms``: conjunctions of which one has to accept. ``warnings`` are for the subscriber."""

    __slots__ = ("attributes", "expression", "key", "terms", "warnings")

    def __init__(self, expression: Expression, attributes: Attributes) -> None:
        self.expression = expression
        self.attributes = attributes
        self.terms: Terms = terms_of(expression, attributes)
        self.warnings: tuple[str, ...] = () if self.terms else (NEVER,)
        #: Equal for conditions with the same normal form.
        self.key = frozenset(self.terms)

    @classmethod
    def of_sql(cls, text: str, attributes: Attributes) -> Condition:
        return cls(sql_notation.read(text, attributes), attributes)

    @classmethod
    def of_padres(cls, text: str, attributes: Attributes) -> Condition:
        return cls(padres_notation.read(text, attributes), attributes)

    @classmethod
    def parse(cls, text: str, attributes: Attributes) -> Condition:
        """In either notation: PADRES' begins with a bracket, SQL never does."""
        found = (cls.of_padres if text.lstrip().startswith("[") else cls.of_sql)(text, attributes)
        # In SQL it is stored and sent; writing makes no part eight times as long.
        if len(text) > LONGEST // 8 and (size := len(found.to_sql())) > LONGEST:
            message = f"the condition has {size:,} characters in SQL, at most {LONGEST:,} are allowed"
            raise LimitExceeded(message, hint="split it into several subscriptions", limit=LONGEST)
        return found

    def to_sql(self) -> str:
        return sql_notation.write(self.expression)

    def to_padres(self) -> str:
        """Raises UserError for what PADRES has no notation for."""
        return padres_notation.write(self.expression, self.attributes)

    def __repr__(self) -> str:
        return f"Condition({self.to_sql()!r})"

    def matches(self, publication: Mapping[str, Any]) -> bool:
        """Of a publication as JSON values, checked against the attributes."""
        return self.accepts(self.attributes.publication(publication))

    def accepts(self, publication: Mapping[str, Ordinal]) -> bool:
        """Of the ordinals of a publication that was checked."""
        return any(term.accepts(publication, self._number) for term in self.terms)

    def _number(self, name: str, ordinal: Ordinal) -> float:
        return self.attributes[name].domain.number(ordinal)

    def covers(self, other: Condition) -> bool:
        """Whether surely all publications of the other are accepted: exact for conjunctions of comparisons."""
        self._check(other)
        return covers(self.terms, other.terms)

    def intersects(self, other: Condition) -> bool:
        """False only if surely no publication is accepted by both."""
        self._check(other)
        return intersects(self.terms, other.terms)

    def _check(self, other: Condition) -> None:
        check_types(self.attributes, other.attributes)


def covers(ours: Terms, theirs: Terms) -> bool:
    return all(any(mine.covers(other) for mine in ours) for other in theirs)


def intersects(ours: Terms, theirs: Terms) -> bool:
    return any(not mine.is_disjoint(other) for mine in ours for other in theirs)


def check_types(one: Attributes, other: Attributes) -> None:
    """Ordinals compare only within one type."""
    if one is other:
        return
    for attribute in one:
        same = other.find(attribute.name)
        if same is not None and same.domain != attribute.domain:
            message = f"{attribute.name} is of type {attribute.domain.type} in one and {same.domain.type} in the other"
            raise Conflict(message, hint="declare the attribute with one type")


__all__ = ["NEVER", "Condition", "Conjunction", "check_types", "covers", "intersects"]
