"""The values of an attribute as an ordered set: every value has an ordinal, and every bound of a comparison is one.

Ordinals of numbers, dates, times and booleans are integers without gaps, so that ``severity > 3`` and
``severity >= 4`` are the same range; the ordinal of a text is the text. Literals compare as in Spark SQL: a decimal
literal with an integer exactly, everything with a double as doubles.
"""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

from msgspec import Struct

from tocsin.sql import scalars
from tocsin.sql.scalars import InvalidValue

Family = Literal["number", "text", "boolean", "date", "timestamp", "opaque"]
#: A literal of a condition.
Value = int | float | Decimal | str | bool | dt.date | dt.datetime
#: A value's place in the order of its attribute.
Ordinal = int | str
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_EXACT_DOUBLE = 1 << 53
_DOUBLE, _BITS64 = struct.Struct("<d"), struct.Struct("<q")
_MAGNITUDE = (1 << 63) - 1
_DIGITS = 38


class Domain(Struct, frozen=True):
    """``type`` is Spark's name of it; ``top`` is the first ordinal after all values, None for text."""

    type: str
    family: Family
    bottom: Ordinal = 0
    top: int | None = None
    scale: int = 0

    def value(self, literal: Any) -> Value:
        """A literal in the type that it is compared in; InvalidValue for one that cannot be."""
        if self.family == "number":
            if isinstance(literal, bool) or not isinstance(literal, int | float | Decimal):
                raise scalars.wrong(literal, "a number")
            if isinstance(literal, float):
                return scalars.double(literal)
            exact = Decimal(literal)
            if len(exact.as_tuple().digits) > _DIGITS or not -_DIGITS <= exact.as_tuple().exponent <= _DIGITS:  # type: ignore[operator]
                raise InvalidValue("out_of_range", f"{scalars.shown(literal)} has more than {_DIGITS} digits")
            return literal
        if self.family == "opaque":
            raise InvalidValue("wrong_type", f"values of type {self.type} cannot be compared")
        checked: Value = _CHECKS[self.type](literal)
        return checked

    def ordinal(self, value: Any) -> Ordinal:
        """Of a JSON value of a publication; InvalidValue for one that does not fit."""
        if self.family == "opaque":
            return 0
        return self._encode(_check(self)(value))

    def _encode(self, value: Any) -> Ordinal:
        if self.type in ("float", "double"):
            return of_double(value)
        if self.family == "number":
            return int(value.scaleb(self.scale)) if self.scale or isinstance(value, Decimal) else int(value)
        if self.family == "date":
            return int(value.toordinal())
        if self.family == "timestamp":
            instant = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
            return int((instant - _EPOCH) // _MICROSECOND)
        return value if self.family == "text" else int(value)

    def number(self, ordinal: Ordinal) -> float:
        """The number with this ordinal."""
        assert isinstance(ordinal, int)
        if self.type in ("float", "double"):
            return to_double(ordinal)
        return float(Decimal(ordinal).scaleb(-self.scale)) if self.scale else float(ordinal)

    def bounds(self, value: Value) -> tuple[Ordinal, Ordinal]:
        """The first ordinal that is not below the literal, and the first above it."""
        if isinstance(value, str):
            return value, value + "\0"
        if self.type in ("float", "double") or self.family != "number":
            ordinal = self._encode(float(value) if self.family == "number" else value)  # type: ignore[arg-type]
            assert isinstance(ordinal, int)
            return ordinal, ordinal + 1
        assert isinstance(value, int | float | Decimal)
        if isinstance(value, float) and not (self.scale == 0 and abs(value) < _EXACT_DOUBLE):
            return self._first(lambda o: self.number(o) >= value), self._first(lambda o: self.number(o) > value)
        scaled = Decimal(value).scaleb(self.scale)
        return math.ceil(scaled), math.floor(scaled) + 1

    def _first(self, holds: Callable[[int], bool]) -> int:
        """The first ordinal for which a monotone test holds."""
        assert isinstance(self.bottom, int) and self.top is not None
        low, high = self.bottom, self.top
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle + 1, high)
        return low


def of_double(value: float) -> int:
    """Doubles in their order as integers without gaps; 0.0 and -0.0 are one."""
    bits: int = _BITS64.unpack(_DOUBLE.pack(value))[0]
    return bits if bits >= 0 else -(bits & _MAGNITUDE)


def to_double(ordinal: int) -> float:
    number: float = _DOUBLE.unpack(_BITS64.pack(abs(ordinal)))[0]
    return number if ordinal >= 0 else -number


def number(text: str) -> int | float | Decimal:
    """A literal as Spark reads it: an integer, an exact decimal, or a double if it has an exponent."""
    return float(text) if "e" in text.lower() else Decimal(text) if "." in text else int(text)


def written_number(value: int | float | Decimal) -> str:
    if isinstance(value, float):
        text = repr(value)
        return text if "e" in text else f"{text}e0"
    if isinstance(value, int):
        return str(value)
    text = format(value, "f")
    return text if "." in text else f"{text}.0"


def domain_of(type_name: str) -> Domain:
    """Of a type in Spark's canonical spelling; a type that cannot be compared has presence only."""
    found = _DOMAINS.get(type_name)
    if found is not None:
        return found
    if type_name.startswith("decimal("):
        precision, scale = (int(part) for part in type_name[8:-1].split(","))
        return Domain(type_name, "number", 1 - 10**precision, 10**precision, scale)
    return Domain(type_name, "opaque", 0, 1)


def _check(domain: Domain) -> Callable[[Any], Any]:
    found = _CHECKS.get(domain.type)
    if found is None:  # decimals
        found = _CHECKS[domain.type] = scalars.decimal(len(str(domain.top)) - 1, domain.scale)
    return found


_INFINITY = of_double(math.inf)
_YEARS = (dt.date(1, 1, 1).toordinal(), dt.date(9999, 12, 31).toordinal() + 1)
_TIMES = tuple((day - _EPOCH.toordinal()) * 86_400_000_000 for day in _YEARS)
_DOMAINS = {
    **{name: Domain(name, "number", -(1 << (bits - 1)), 1 << (bits - 1)) for name, bits in _BITS.items()},
    **{name: Domain(name, "number", 1 - _INFINITY, _INFINITY) for name in ("float", "double")},
    **{name: Domain(name, "timestamp", *_TIMES) for name in ("timestamp", "timestamp_ntz")},
    "string": Domain("string", "text", ""),
    "boolean": Domain("boolean", "boolean", 0, 2),
    "date": Domain("date", "date", *_YEARS),
}
_CHECKS: dict[str, Callable[[Any], Any]] = {
    **{name: scalars.integer(bits) for name, bits in _BITS.items()},
    "float": scalars.single,
    "double": scalars.double,
    "string": scalars.string,
    "boolean": scalars.boolean,
    "date": scalars.date,
    "timestamp": scalars.timestamp,
    "timestamp_ntz": scalars.timestamp_ntz,
}
