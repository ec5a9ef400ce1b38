"""ISO-8601 durations of fixed length: ``PT10S``, ``PT0.5S``, ``PT1M30S``, ``P1DT2H``, ``P2W``."""

from __future__ import annotations

import re
from decimal import Decimal

from tocsin.errors import ParseError

_HINT = 'write it like "PT10S", "PT1M30S", "PT12H" or "P7D"'
_NUMBER = r"[0-9]+(?:[.,][0-9]+)?"
_DURATION = re.compile(
    rf"(?P<sign>[+-])?P(?:(?P<W>{_NUMBER})W|(?:(?P<Y>{_NUMBER})Y)?(?:(?P<MONTH>{_NUMBER})M)?(?:(?P<D>{_NUMBER})D)?"
    rf"(?P<time>T(?:(?P<H>{_NUMBER})H)?(?:(?P<M>{_NUMBER})M)?(?:(?P<S>{_NUMBER})S)?)?)",
    re.IGNORECASE,
)
_UNITS = {"W": 604_800, "D": 86_400, "H": 3_600, "M": 60, "S": 1}
# A century.
_LONGEST = 36_525 * 86_400


def parse_duration(text: str) -> float:
    """The seconds of an ISO-8601 duration; they may be zero or negative."""
    match = _DURATION.fullmatch(text.strip())
    if match is None or (match["time"] or "").upper() == "T":
        raise ParseError(f"{text[:60]!r} is not an ISO-8601 duration", hint=_HINT)
    for unit, word in (("Y", "years"), ("MONTH", "months")):
        if match[unit] is not None:
            raise ParseError(f"{text[:60]!r} has {word}, which have no fixed length", hint="use days or weeks")
    parts = [(unit, match[unit].replace(",", ".")) for unit in _UNITS if match[unit] is not None]
    if not parts:
        raise ParseError(f"{text[:60]!r} is not an ISO-8601 duration: it has no part", hint=_HINT)
    if any("." in number for _, number in parts[:-1]):
        raise ParseError(
            f"{text[:60]!r} is not an ISO-8601 duration: only its last part may have a fraction", hint=_HINT
        )
    total = sum((Decimal(number) * _UNITS[unit] for unit, number in parts), Decimal(0))
    if total > _LONGEST:
        raise ParseError(f"{text[:60]!r} is longer than a hundred years", hint=_HINT)
    return float(-total if match["sign"] == "-" else total)
