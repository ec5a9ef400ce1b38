"""Checks JSON values against types, nested ones included, and converts them to canonical Python values.

- array: an array. map, struct: an object. A missing field of a struct is null. The rest: ``tocsin.sql.scalars``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec
import pyarrow as pa

from tocsin.sql import scalars
from tocsin.sql.scalars import DECIMAL, INTEGER, Check, InvalidValue, wrong


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


def _array(kind: pa.DataType, extra: bool) -> Check:
    element = checker(kind.value_type, extra)

    def check(value: Any) -> list[Any]:
        if not isinstance(value, (list, tuple)):
            raise wrong(value, "an array")
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
            if whole and INTEGER.fullmatch(name):
                name = int(name)
            elif number and len(name) <= 100 and DECIMAL.fullmatch(name):
                name = float(name)
            elif truth and name in ("true", "false"):
                name = name == "true"
        return key(name)

    def check(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise wrong(value, "an object")
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
            raise wrong(value, "an object")
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
        return scalars.integer(kind.bit_width)
    if is_.is_decimal(kind):
        return scalars.decimal(kind.precision, kind.scale)
    if is_.is_timestamp(kind):
        return scalars.timestamp if kind.tz else scalars.timestamp_ntz
    if is_.is_map(kind):
        return _map(kind, extra)
    if is_.is_list(kind):
        return _array(kind, extra)
    if is_.is_struct(kind):
        return _struct(kind, extra)
    return _PLAIN[kind]


_PLAIN: dict[pa.DataType, Check] = {
    pa.bool_(): scalars.boolean,
    pa.float32(): scalars.single,
    pa.float64(): scalars.double,
    pa.string(): scalars.string,
    pa.binary(): scalars.binary,
    pa.date32(): scalars.date,
}
