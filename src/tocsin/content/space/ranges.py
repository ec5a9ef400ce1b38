"""Sets of ordinals as sorted tuples of the places where they begin and end: ``(3, 7, 9)`` is [3, 7) and [9, ∞).

An ordinal is in the set if an odd number of places is not above it. Equal sets are equal tuples.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from operator import and_, or_
from typing import Any

from tocsin.content.language.domains import Ordinal

Ranges = tuple[Any, ...]
EMPTY: Ranges = ()


def span(low: Ordinal, high: Ordinal | None, bottom: Ordinal, top: Ordinal | None) -> Ranges:
    """From ``low`` up to but not including ``high`` (None: to the end), of the ordinals from bottom up to top."""
    if low < bottom:  # type: ignore[operator]
        low = bottom
    if top is not None and high is not None and high >= top:  # type: ignore[operator]
        high = None
    if (high is not None and high <= low) or (top is not None and low >= top):  # type: ignore[operator]
        return EMPTY
    return (low,) if high is None else (low, high)


def contains(ranges: Ranges, ordinal: Ordinal) -> bool:
    return bisect_right(ranges, ordinal) % 2 == 1


def complement(ranges: Ranges, bottom: Ordinal) -> Ranges:
    return ranges[1:] if ranges[:1] == (bottom,) else (bottom, *ranges)


def intersection(one: Ranges, other: Ranges) -> Ranges:
    if one == other:
        return one
    return _combined(one, other, and_)


def union(one: Ranges, other: Ranges) -> Ranges:
    return _combined(one, other, or_)


def is_subset(inner: Ranges, outer: Ranges) -> bool:
    if len(outer) == 1:  # the usual case: one range without an end
        return not inner or inner[0] >= outer[0]
    if len(inner) == 2 and len(outer) == 2:
        return bool(outer[0] <= inner[0] and inner[1] <= outer[1])
    return intersection(inner, outer) == inner


def is_disjoint(one: Ranges, other: Ranges) -> bool:
    return not intersection(one, other)


def pairs(ranges: Ranges) -> list[tuple[Any, Any]]:
    """(begin, end) of each range; the end of the last may be None."""
    return [(ranges[i], ranges[i + 1] if i + 1 < len(ranges) else None) for i in range(0, len(ranges), 2)]


def points(ranges: Ranges, most: int) -> list[Any] | None:
    """The ordinals, if the set is of at most so many single ones."""
    if len(ranges) % 2 or len(ranges) > 2 * most:
        return None
    found = []
    for low, high in pairs(ranges):
        if high != (low + "\0" if isinstance(low, str) else low + 1):
            return None
        found.append(low)
    return found


def _combined(one: Ranges, other: Ranges, rule: Callable[[bool, bool], bool]) -> Ranges:
    out: list[Any] = []
    i = j = 0
    in_one = in_other = inside = False
    while i < len(one) or j < len(other):
        first = j == len(other) or (i < len(one) and one[i] <= other[j])
        place = one[i] if first else other[j]
        if i < len(one) and one[i] == place:
            in_one, i = not in_one, i + 1
        if j < len(other) and other[j] == place:
            in_other, j = not in_other, j + 1
        if rule(in_one, in_other) != inside:
            inside = not inside
            out.append(place)
    return tuple(out)
