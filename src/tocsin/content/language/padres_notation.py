"""The notation of PADRES: subscriptions ``[class,eq,'STOCK'],[volume,>,300000]``, publications ``[class,'STOCK']``.

PADRES has conjunctions of predicates only, one for each attribute; here an attribute may have several. A name that is
not a plain word is in backquotes, and a quote within a text is doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from tocsin.content.language import patterns
from tocsin.content.language.attributes import Attribute, Attributes
from tocsin.content.language.domains import Value, domain_of, number, written_number
from tocsin.content.language.expressions import (
    And,
    Between,
    Comparison,
    Expression,
    Like,
    Operator,
    Present,
    conjunction,
)
from tocsin.content.language.reader import Reader
from tocsin.errors import ParseError, UserError
from tocsin.sql.scalars import DECIMAL

_EQUAL: dict[str, Operator] = {"eq": "=", "=": "=", "neq": "<>", "<>": "<>"}
_ORDER: dict[str, Operator] = {">": ">", ">=": ">=", "<": "<", "<=": "<="}
_TEXT_ORDER: dict[str, Operator] = {"str-gt": ">", "str-ge": ">=", "str-lt": "<", "str-le": "<="}
_PATTERNS: dict[str, Callable[[str], str]] = {
    "str-prefix": lambda text: f"{text}%",
    "str-suffix": lambda text: f"%{text}",
    "str-postfix": lambda text: f"%{text}",
    "str-contains": lambda text: f"%{text}%",
}
_OPERATORS = ", ".join([*_EQUAL, *_ORDER, *_TEXT_ORDER, *_PATTERNS, "isPresent"])
_FORM = "[class,eq,'STOCK'],[volume,>,300000]"
_ENDS = frozenset(",[]'`")


class _Star:
    """The value ``*``: any."""


_ANY = _Star()


class _Field(NamedTuple):
    """A part between brackets: its text or value, and where it begins."""

    value: Any
    start: int


def read(text: str, attributes: Attributes) -> Expression:
    """A subscription; raises ParseError, TypeMismatch or LimitExceeded, each with line and column."""
    reader = _PadresReader(text, attributes)
    return conjunction([reader.predicate(*fields) for fields in reader.brackets(3)])


def read_advertisement(text: str) -> tuple[Expression, Attributes]:
    """An advertisement that declares its attributes: numbers are doubles, everything else is text."""
    scanner = _PadresReader(text, Attributes([]))
    rows = scanner.brackets(3)
    kinds: dict[str, Attribute] = {}
    for name, _, value in rows:
        domain = domain_of("double" if isinstance(value.value, int | float | Decimal) else "string")
        known = kinds.setdefault(name.value.lower(), Attribute(name.value, domain))
        if known.domain != domain and value.value is not _ANY:
            raise scanner.type_error(value.start, f"{name.value!r} has a number and a text")
    reader = _PadresReader(text, Attributes(kinds.values()))
    return conjunction([reader.predicate(*fields) for fields in rows]), reader.attributes


def read_publication(text: str) -> dict[str, Value]:
    """``[class,'STOCK'],[open,30.25]`` as JSON values."""
    reader = _PadresReader(text, Attributes([]))
    found: dict[str, Value] = {}
    for name, value in reader.brackets(2):
        if value.value is _ANY:
            raise reader.error(value.start, "a publication has values", "[open,30.25]")
        if name.value in found:
            raise reader.error(name.start, f"the attribute {name.value!r} appears twice")
        found[name.value] = float(value.value) if isinstance(value.value, Decimal) else value.value
    return found


class _PadresReader(Reader):
    """Scans ``[…],[…]`` in one pass."""

    def __init__(self, text: str, attributes: Attributes) -> None:
        super().__init__(text, attributes)
        self.text = text
        self.at = 0

    def brackets(self, size: int) -> list[list[_Field]]:
        rows: list[list[_Field]] = []
        while True:
            self._expect("[")
            row = [self._name()]
            for index in range(1, size):
                self._expect(",")
                row.append(self._word("an operator") if index < size - 1 else self._value_field())
            self._expect("]")
            rows.append(row)
            self.count(row[0].start)
            self._space()
            if self.at == len(self.text):
                return rows
            self._expect(",")

    def predicate(self, name: _Field, operator: _Field, value: _Field) -> Expression:
        attribute = self.attribute(name.value, name.start)
        word, text = operator.value, attribute.domain.family == "text"
        if word.lower() == "ispresent":
            self._dummy(attribute, value)
            return Present(attribute.name)
        if value.value is _ANY:
            if _EQUAL.get(word) != "=":
                raise self.error(value.start, f"* is any value, which {word!r} cannot compare with", "[class,eq,*]")
            return Present(attribute.name)
        found = _EQUAL.get(word) or (_TEXT_ORDER if text else _ORDER).get(word)
        if found is not None:
            return Comparison(attribute.name, found, self.value(attribute, value.value, value.start))
        if word in _PATTERNS and text:
            checked = self.value(attribute, value.value, value.start)
            return Like(attribute.name, patterns.normal(_PATTERNS[word](patterns.literal(str(checked)))))
        if word in _ORDER or word in _TEXT_ORDER or word in _PATTERNS:
            kind = attribute.domain.type
            hint = f"for texts use {', '.join(_TEXT_ORDER)}" if text else f"for other types use {', '.join(_ORDER)}"
            raise self.type_error(operator.start, f"{attribute.name} is of type {kind}, not for {word!r}", hint)
        raise self.error(operator.start, f"there is no operator {word!r}", f"the operators are {_OPERATORS}")

    def _dummy(self, attribute: Attribute, value: _Field) -> None:
        """The value of isPresent says the type only."""
        numeric = isinstance(value.value, int | float | Decimal) and not isinstance(value.value, bool)
        if value.value is not _ANY and numeric != (attribute.domain.family == "number"):
            message = f"{attribute.name} is of type {attribute.domain.type}"
            raise self.type_error(value.start, message, "isPresent takes 0 for a number, '' for other types")

    def _space(self) -> None:
        while self.at < len(self.text) and self.text[self.at].isspace():
            self.at += 1

    def _expect(self, symbol: str) -> None:
        self._space()
        if not self.text.startswith(symbol, self.at):
            raise self._expected(repr(symbol))
        self.at += 1
        self._space()

    def _expected(self, what: str) -> ParseError:
        found = repr(self.text[self.at]) if self.at < len(self.text) else "the end"
        return self.error(self.at, f"expected {what}, found {found}", f"for instance {_FORM}")

    def _word(self, what: str) -> _Field:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] not in _ENDS:
            self.at += 1
        word = self.text[start : self.at].strip()
        if not word:
            raise self._expected(what)
        return _Field(word, start)

    def _name(self) -> _Field:
        if self.text.startswith("`", self.at):
            return self._quoted("`")
        return self._word("the name of an attribute")

    def _quoted(self, mark: str) -> _Field:
        start, end = self.at, self.at + 1
        while True:
            end = self.text.find(mark, end)
            if end < 0:
                raise self.error(start, f"the closing {mark} is missing")
            if not self.text.startswith(mark, end + 1):
                break
            end += 2
        self.at = end + 1
        return _Field(self.text[start + 1 : end].replace(mark * 2, mark), start)

    def _value_field(self) -> _Field:
        if self.text.startswith("'", self.at):
            return self._quoted("'")
        field = self._word("a value")
        word = field.value
        if word == "*":
            return _Field(_ANY, field.start)
        if word.lower() in ("true", "false"):
            return _Field(word.lower() == "true", field.start)
        if len(word) > 60 or not DECIMAL.fullmatch(word):
            raise self.error(field.start, f"{word[:40]!r} is not a value", "texts are in quotes: 'STOCK'")
        return _Field(number(word), field.start)


def write(expression: Expression, attributes: Attributes) -> str:
    """A conjunction; UserError for what PADRES has no notation for."""
    operands = expression.operands if isinstance(expression, And) else (expression,)
    return ",".join(text for operand in operands for text in _predicates(operand, attributes))


def _predicates(item: Expression, attributes: Attributes) -> list[str]:
    if isinstance(item, Comparison) and item.value is not None:
        return [_comparison(attributes[item.attribute], item.operator, item.value)]
    if isinstance(item, Between) and item.low is not None and item.high is not None:
        attribute = attributes[item.attribute]
        return [_comparison(attribute, ">=", item.low), _comparison(attribute, "<=", item.high)]
    if isinstance(item, Present):
        numeric = attributes[item.attribute].domain.family == "number"
        return [f"[{_name(item.attribute)},isPresent,{0 if numeric else _constant('')}]"]
    if isinstance(item, Like) and item.pattern is not None:
        found = [patterns.text_of(part) for part in patterns.parts(item.pattern)]
        operator, text = _simple(found)
        if operator is not None:
            return [f"[{_name(item.attribute)},{operator},{_constant(text)}]"]
    raise UserError("PADRES has no notation for this condition", hint="write it in SQL: OR, NOT, IN and within are SQL")


def _simple(found: list[str | None]) -> tuple[str | None, str]:
    if None in found:
        return None, ""
    texts = [text or "" for text in found]
    if len(texts) == 1:
        return "eq", texts[0]
    if len(texts) == 2 and not texts[1]:
        return "str-prefix", texts[0]
    if len(texts) == 2 and not texts[0]:
        return "str-suffix", texts[1]
    if len(texts) == 3 and not texts[0] and not texts[2]:
        return "str-contains", texts[1]
    return None, ""


def _comparison(attribute: Attribute, operator: Operator, value: Value) -> str:
    family = attribute.domain.family
    if family == "text":
        words = {"=": "eq", "<>": "neq", **{found: word for word, found in _TEXT_ORDER.items()}}
    else:
        words = {found: word for word, found in {**_ORDER, "=": "=", "<>": "<>"}.items()}
    return f"[{_name(attribute.name)},{words[operator]},{_constant(value)}]"


def write_publication(values: Mapping[str, Any]) -> str:
    """Attributes that are null are left out."""
    return ",".join(f"[{_name(name)},{_constant(value)}]" for name, value in values.items() if value is not None)


def _name(name: str) -> str:
    plain = name.strip() == name and name and not _ENDS & set(name)
    return name if plain else "`" + name.replace("`", "``") + "`"


def _constant(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | Decimal):
        return written_number(value)
    return "'" + str(value).replace("'", "''") + "'"
