"""Checks JSON values against simple types, and converts them to canonical Python values.

- boolean: true, false. Integers: a JSON integer in range (not 5.0, not true).
- float, double: a JSON number in range. decimal: a number, or a string with one, that needs no rounding.
- string: valid Unicode. binary: padded base64. date: 2026-11-16.
- timestamp: 2026-11-16T00:02:54.123Z; the time, its last parts and the zone may be omitted (no zone means UTC); a
  fraction of up to nine digits is cut to microseconds. timestamp_ntz: the same without a zone.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
import struct
from collections.abc import Callable
from decimal import Context, Decimal, InvalidOperation
from typing import Any

Check = Callable[[Any], Any]

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,6})?", re.ASCII)
INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,38})", re.ASCII)
_FLOAT = struct.Struct("<f")
_EXACT = Context(prec=80)


class InvalidValue(Exception):
    """A value does not fit its type: ``code`` for programs, ``reason`` for people, ``path`` in a nested value."""

    def __init__(self, code: str, reason: str, path: str = "") -> None:
        super().__init__(code, reason, path)
        self.code = code
        self.reason = reason
        self.path = path

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}" if self.path else self.reason

    def under(self, name: str) -> InvalidValue:
        """The same error with a longer path."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return InvalidValue(self.code, self.reason, name + joint + self.path)


def shown(value: Any) -> str:
    """A value for an error message: its JSON type, and the value itself if it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        text = value if len(value) <= 40 else value[:40] + "…"
        return "the text " + repr(text)
    if isinstance(value, (int, float, Decimal)):
        return f"the number {value}" if not isinstance(value, int) or value.bit_length() < 200 else "a huge number"
    return (
        "an array" if isinstance(value, (list, tuple)) else "an object" if isinstance(value, dict) else repr(value)[:60]
    )


def wrong(value: Any, expected: str) -> InvalidValue:
    return InvalidValue("wrong_type", f"{expected} expected, got {shown(value)}")


def boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise wrong(value, "true or false")


def integer(bits: int) -> Check:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def check(value: Any) -> int:
        if type(value) is int:
            if low <= value <= high:
                return value
        elif not (isinstance(value, Decimal) and value == value.to_integral_value() and value.copy_abs() > high):
            raise wrong(value, "an integer")
        raise InvalidValue("out_of_range", f"{shown(value)} is not between {low} and {high}")

    return check


def double(value: Any) -> float:
    if type(value) is not float:
        if type(value) is not int and not isinstance(value, Decimal):
            raise wrong(value, "a number")
        try:
            value = float(value)
        except (OverflowError, ValueError):
            value = math.inf
    if math.isfinite(value):
        return float(value)
    raise InvalidValue("out_of_range", "the number is not a finite double")


def single(value: Any) -> float:
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(double(value)))[0])
    except OverflowError:
        raise InvalidValue("out_of_range", f"{shown(value)} is too large for a float") from None


def decimal(precision: int, scale: int) -> Check:
    unit = Decimal(1).scaleb(-scale)
    limit = Decimal(10) ** (precision - scale)

    def check(value: Any) -> Decimal:
        if type(value) is int:
            if value.bit_length() > 140:
                raise InvalidValue("out_of_range", f"{shown(value)} does not fit decimal({precision},{scale})")
            number = Decimal(value)
        elif isinstance(value, Decimal):
            number = value
        elif type(value) is float:
            number = Decimal(repr(value))  # repr gives the shortest text for this float, which is what the sender wrote
        elif isinstance(value, str) and len(value) <= 100 and DECIMAL.fullmatch(value):
            number = Decimal(value)
        else:
            raise wrong(value, "a number or the text of one")
        if not number.is_finite() or number.copy_abs() >= limit:
            raise InvalidValue("out_of_range", f"{shown(value)} does not fit decimal({precision},{scale})")
        try:
            rounded = number.quantize(unit, context=_EXACT)
        except InvalidOperation:
            rounded = None
        if rounded is None or rounded != number:
            raise InvalidValue("out_of_range", f"{shown(value)} has more than {scale} digits after the point")
        return rounded if rounded else rounded.copy_abs()  # -0.00 is 0.00

    return check


def string(value: Any) -> str:
    if not isinstance(value, str):
        raise wrong(value, "a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue("not_utf8", f"the string has half a surrogate pair at {error.start}") from None
    return value


def binary(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if not isinstance(value, str):
        raise wrong(value, "base64 text")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue("wrong_type", f"base64 text expected, got {shown(value)}") from None


def date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong(value, "a date as ISO text (2026-11-16)")
    try:
        return dt.date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError as error:
        raise InvalidValue("out_of_range", f"{shown(value)} is not a date: {error}") from None


def timestamp(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    local, zone = _instant(value)
    try:
        return (local - _offset(zone)).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise InvalidValue("out_of_range", f"{shown(value)} is not between the years 1 and 9999 in UTC") from None


def timestamp_ntz(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value
    local, zone = _instant(value)
    if zone:
        raise InvalidValue("wrong_type", f"a timestamp without zone expected, got {shown(value)}")
    return local


def _instant(value: Any) -> tuple[dt.datetime, str | None]:
    found = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise wrong(value, "a timestamp as ISO text (2026-11-16T00:02:54Z)")
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micros = int((fraction or "0")[:6].ljust(6, "0"))
    try:
        local = dt.datetime(int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0), micros)
    except ValueError as error:
        raise InvalidValue("out_of_range", f"{shown(value)} is not a timestamp: {error}") from None
    return local, zone


def _offset(zone: str | None) -> dt.timedelta:
    if zone is None or zone in "Zz":
        return dt.timedelta()
    hours, minutes = int(zone[1:3]), int(zone[3:].lstrip(":") or 0)
    if hours > 23 or minutes > 59:
        raise InvalidValue("out_of_range", f"unknown time zone {zone}")
    offset = dt.timedelta(hours=hours, minutes=minutes)
    return -offset if zone[0] == "-" else offset
