"""Reads a feed's records, which are JSON objects, as publications."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from tocsin.content.language.attributes import Attributes


def record_reader(attributes: Attributes) -> Callable[[bytes], dict[str, Any]]:
    """Numbers keep all their digits where an attribute needs them."""
    exact = any(attribute.domain.type.startswith("decimal") for attribute in attributes)
    return msgspec.json.Decoder(dict[str, Any], float_hook=exact_number if exact else None).decode


def exact_number(text: str) -> Decimal | float:
    """With all its digits; as a double if its exponent is beyond those of a Decimal."""
    try:
        return Decimal(text)
    except InvalidOperation:
        return float(text)
