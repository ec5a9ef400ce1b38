"""A strict JSON parser: refuses NaN and repeated fields, which the standard library accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from tocsin.cluster.records.value_validators import shown_name
from tocsin.sql.scalars import InvalidValue


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise InvalidValue("duplicate_field", "the field appears twice", shown_name(twice))
    return out


def _constant(name: str) -> Any:
    raise InvalidValue("not_json", f"{name} is not JSON")


def _fraction(text: str) -> Decimal | float:
    try:
        return Decimal(text)
    except InvalidOperation:
        return float(text)  # too large or too small for a decimal: infinity or zero


def _whole(text: str) -> Any:
    try:
        return int(text)
    except ValueError:
        return Decimal(text)  # more digits than Python converts to an int


def _loader(fraction: Callable[[str], Any]) -> Callable[[str], Any]:
    return json.JSONDecoder(
        object_pairs_hook=_pairs, parse_constant=_constant, parse_float=fraction, parse_int=_whole, strict=True
    ).decode


_DIGITS = _loader(_fraction)
_FLOATS = _loader(float)


def exact_json(text: bytes, digits: bool = True) -> Any:
    """Parse JSON; ``digits``: numbers with a fraction keep all digits. Raises InvalidValue."""
    try:
        return (_DIGITS if digits else _FLOATS)(text.decode())
    except UnicodeDecodeError as error:
        raise InvalidValue("not_utf8", f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise InvalidValue("not_json", f"not JSON: {error.msg.lower()} at character {error.pos}") from None
    except RecursionError:
        raise InvalidValue("too_deep", "nested too deeply") from None
