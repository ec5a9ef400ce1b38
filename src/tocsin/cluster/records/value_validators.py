"""Checks JSON values against types, and converts them to canonical Python values.

- boolean: true, false. Integers: a JSON integer in range (not 5.0, not true).
- float, double: a JSON number in range. decimal: a number, or a string with one, that needs no rounding.
- string: valid Unicode. binary: padded base64. date: 2026-11-16.
- timestamp: 2026-11-16T00:02:54.123Z; the time, its last parts and the zone may be omitted (no zone means UTC); a
  fraction of up to nine digits is cut to microseconds. timestamp_ntz: the same without a zone.
- array: an array. map, struct: an object. A missing field of a struct is null.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import re
import struct
from collections.abc import Callable, Sequence
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

Check = Callable[[Any], Any]

_TIMESTAMP = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?)?([Zz]|[+-]\d\d(?::?\d\d)?)?)?",
    re.ASCII,
)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_DECIMAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d{1,6})?", re.ASCII)
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,38})", re.ASCII)
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


def json_value(value: Any) -> Any:
    """The JSON form of a canonical value; ``coerce`` converts it back."""
    if isinstance(value, list):
        return [json_value(item) for item in value]
    if isinstance(value, dict):
        return {_json_key(name): json_value(item) for name, item in value.items()}
    return msgspec.to_builtins(value)


def _json_key(key: Any) -> str:
    plain = msgspec.to_builtins(key)
    return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()


def _wrong(value: Any, expected: str) -> InvalidValue:
    return InvalidValue("wrong_type", f"{expected} expected, got {shown(value)}")


def _boolean(value: Any) -> bool:
    if value is True or value is False:
        return bool(value)
    raise _wrong(value, "true or false")


def _integer(bits: int) -> Check:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1

    def check(value: Any) -> int:
        if type(value) is int:
            if low <= value <= high:
                return value
        elif not (isinstance(value, Decimal) and value == value.to_integral_value() and value.copy_abs() > high):
            raise _wrong(value, "an integer")
        raise InvalidValue("out_of_range", f"{shown(value)} is not between {low} and {high}")

    return check


def _double(value: Any) -> float:
    if type(value) is not float:
        if type(value) is not int and not isinstance(value, Decimal):
            raise _wrong(value, "a number")
        try:
            value = float(value)
        except (OverflowError, ValueError):
            value = math.inf
    if math.isfinite(value):
        return float(value)
    raise InvalidValue("out_of_range", "the number is not a finite double")


def _float(value: Any) -> float:
    try:
        return float(_FLOAT.unpack(_FLOAT.pack(_double(value)))[0])
    except OverflowError:
        raise InvalidValue("out_of_range", f"{shown(value)} is too large for a float") from None


def _decimal(kind: pa.DataType) -> Check:
    scale, unit = kind.scale, Decimal(1).scaleb(-kind.scale)
    limit = Decimal(10) ** (kind.precision - scale)

    def check(value: Any) -> Decimal:
        if type(value) is int:
            if value.bit_length() > 140:
                raise InvalidValue("out_of_range", f"{shown(value)} does not fit decimal({kind.precision},{scale})")
            number = Decimal(value)
        elif isinstance(value, Decimal):
            number = value
        elif type(value) is float:
            number = Decimal(repr(value))  # repr gives the shortest text for this float, which is what the sender wrote
        elif isinstance(value, str) and len(value) <= 100 and _DECIMAL.fullmatch(value):
            number = Decimal(value)
        else:
            raise _wrong(value, "a number or the text of one")
        if not number.is_finite() or number.copy_abs() >= limit:
            raise InvalidValue("out_of_range", f"{shown(value)} does not fit decimal({kind.precision},{scale})")
        try:
            rounded = number.quantize(unit, context=_EXACT)
        except InvalidOperation:
            rounded = None
        if rounded is None or rounded != number:
            raise InvalidValue("out_of_range", f"{shown(value)} has more than {scale} digits after the point")
        return rounded if rounded else rounded.copy_abs()  # -0.00 is 0.00

    return check


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _wrong(value, "a text")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise InvalidValue("not_utf8", f"the string has half a surrogate pair at {error.start}") from None
    return value


def _binary(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray)):
        return bytes(value)
    if not isinstance(value, str):
        raise _wrong(value, "base64 text")
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidValue("wrong_type", f"base64 text expected, got {shown(value)}") from None


def _date(value: Any) -> dt.date:
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return value
    found = _DATE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _wrong(value, "a date as ISO text (2026-11-16)")
    try:
        return dt.date(int(found[1]), int(found[2]), int(found[3]))
    except ValueError as error:
        raise InvalidValue("out_of_range", f"{shown(value)} is not a date: {error}") from None


def _timestamp(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
    local, zone = _instant(value)
    try:
        return (local - _offset(zone)).replace(tzinfo=dt.UTC)
    except OverflowError:
        raise InvalidValue("out_of_range", f"{shown(value)} is not between the years 1 and 9999 in UTC") from None


def _timestamp_ntz(value: Any) -> dt.datetime:
    if isinstance(value, dt.datetime) and value.tzinfo is None:
        return value
    local, zone = _instant(value)
    if zone:
        raise InvalidValue("wrong_type", f"a timestamp without zone expected, got {shown(value)}")
    return local


def _instant(value: Any) -> tuple[dt.datetime, str | None]:
    found = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _wrong(value, "a timestamp as ISO text (2026-11-16T00:02:54Z)")
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


def _array(kind: pa.DataType, extra: bool) -> Check:
    element = checker(kind.value_type, extra)

    def check(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise _wrong(value, "an array")
        out = []
        for i, item in enumerate(value):
            try:
                out.append(None if item is None else element(item))
            except InvalidValue as invalid:
                raise invalid.under(f"[{i}]") from None
        return out

    return check


def _map(kind: pa.DataType, extra: bool) -> Check:
    key, item = checker(kind.key_type, extra), checker(kind.item_type, extra)
    whole, number, truth = (
        pa.types.is_integer(kind.key_type),
        pa.types.is_floating(kind.key_type),
        kind.key_type == pa.bool_(),
    )

    def read_key(name: Any) -> Any:
        """Keys of JSON objects are strings, so numbers are parsed."""
        if isinstance(name, str):
            if whole and _INTEGER.fullmatch(name):
                name = int(name)
            elif number and len(name) <= 100 and _DECIMAL.fullmatch(name):
                name = float(name)
            elif truth and name in ("true", "false"):
                name = name == "true"
        return key(name)

    def check(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        out = {}
        for name, content in value.items():
            try:
                out[read_key(name)] = None if content is None else item(content)
            except InvalidValue as invalid:
                raise invalid.under(str(name)[:40]) from None
        if len(out) != len(value):
            raise InvalidValue("duplicate_field", "two keys of the map are equal")
        return out

    return check


def _struct(kind: pa.DataType, extra: bool) -> Check:
    fields = ObjectFields(list(kind), extra)

    def check(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _wrong(value, "an object")
        return dict(zip(fields.names, fields.values(value), strict=True))

    return check


class ObjectFields:
    """Checks the fields of an object. ``extra``: unknown fields are ignored instead of refused."""

    def __init__(self, fields: Sequence[pa.Field], extra: bool) -> None:
        self.names = [field.name for field in fields]
        self._checks = [(field.name, field.nullable, checker(field.type, extra)) for field in fields]
        self._exact = {name: name for name in self.names}
        self._folded = {name.lower(): name for name in self.names}
        self._extra = extra

    def values(self, value: dict[str, Any]) -> list[Any]:
        """The canonical values in the order of the fields."""
        named = value if value.keys() <= self._exact.keys() else self._matched(value)
        out: list[Any] = []
        for name, nullable, check in self._checks:
            item = named.get(name)
            if item is None:
                if not nullable:
                    raise InvalidValue("null" if name in named else "missing", "a value is required", name)
                out.append(None)
                continue
            try:
                out.append(check(item))
            except InvalidValue as invalid:
                raise invalid.under(name) from None
        return out

    def _matched(self, value: dict[str, Any]) -> dict[str, Any]:
        """By their declared names: same spelling first, then without regard to case."""
        out: dict[str, Any] = {}
        for name, item in value.items():
            target = self._exact.get(name) or self._folded.get(name.lower())
            if target is None:
                if self._extra:
                    continue
                raise InvalidValue("unknown_field", "there is no such field", shown_name(name))
            if target in out:
                raise InvalidValue("duplicate_field", "the field appears twice", target)
            out[target] = item
        return out


def shown_name(name: str) -> str:
    return (name if len(name) <= 60 else name[:60] + "…").encode(errors="replace").decode()


@lru_cache(maxsize=8192)
def checker(kind: pa.DataType, extra: bool = False) -> Check:
    """The validator of a type: converts a JSON value other than null to the canonical value, or raises InvalidValue."""
    is_ = pa.types
    if is_.is_signed_integer(kind):
        return _integer(kind.bit_width)
    if is_.is_decimal(kind):
        return _decimal(kind)
    if is_.is_timestamp(kind):
        return _timestamp if kind.tz else _timestamp_ntz
    if is_.is_map(kind):
        return _map(kind, extra)
    if is_.is_list(kind):
        return _array(kind, extra)
    if is_.is_struct(kind):
        return _struct(kind, extra)
    return _PLAIN[kind]


_PLAIN: dict[pa.DataType, Check] = {
    pa.bool_(): _boolean,
    pa.float32(): _float,
    pa.float64(): _double,
    pa.string(): _string,
    pa.binary(): _binary,
    pa.date32(): _date,
}
