"""What readers of both notations share: the attributes, the limit of predicates, and errors that point at a place."""

from __future__ import annotations

from tocsin.content.language.attributes import Attribute, Attributes
from tocsin.content.language.domains import Value
from tocsin.errors import LimitExceeded, ParseError, TypeMismatch
from tocsin.sql.scalars import InvalidValue
from tocsin.sql.script import Script

#: Comparisons of one condition; every value of IN (…) counts.
MOST_PREDICATES = 1_000
LONGEST = 64 * 1024


class Reader:
    def __init__(self, text: str, attributes: Attributes) -> None:
        if len(text) > LONGEST:
            message = f"the condition has {len(text):,} characters, at most {LONGEST:,} are allowed"
            raise LimitExceeded(message, limit=LONGEST)
        self.script = Script(text)
        self.attributes = attributes
        self._predicates = 0

    def error(self, offset: int, message: str, hint: str = "") -> ParseError:
        return self.script.error(offset, message, hint=hint)

    def type_error(self, offset: int, message: str, hint: str = "") -> TypeMismatch:
        line, column = self.script.locate(offset)
        return TypeMismatch(message, hint=hint, line=line, column=column)

    def count(self, offset: int) -> None:
        self._predicates += 1
        if self._predicates > MOST_PREDICATES:
            line, column = self.script.locate(offset)
            raise LimitExceeded(
                f"the condition has more than {MOST_PREDICATES:,} comparisons",
                hint="split it into several subscriptions",
                limit=MOST_PREDICATES,
                line=line,
                column=column,
            )

    def attribute(self, name: str, offset: int) -> Attribute:
        found = self.attributes.find(name)
        if found is None:
            raise self.error(offset, *self.attributes.unknown(name))
        return found

    def value(self, attribute: Attribute, literal: object, offset: int) -> Value:
        try:
            return attribute.domain.value(literal)
        except InvalidValue as invalid:
            message = f"{attribute.name} is of type {attribute.domain.type}: {invalid}"
            raise self.type_error(offset, message) from None
