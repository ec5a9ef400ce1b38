"""What the index tests for a conjunction: comparisons of whole numbers where that is possible, the rest by itself.

A test is on a *column*: the ordinals of an attribute, its whole text, or the first or last characters of its text.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from tocsin.content.language import patterns
from tocsin.content.language.attributes import Attribute, Attributes
from tocsin.content.space import ranges as sets
from tocsin.content.space.circles import Circle
from tocsin.content.space.conjunction import Conjunction
from tocsin.content.space.values import Values, prefix_range

Kind = Literal["number", "text", "prefix", "suffix"]
#: Of a publication without the attribute; below all ordinals.
NULL = -(1 << 63)
LOWEST, HIGHEST = NULL + 1, (1 << 63) - 1
#: A set of at most so many values may be found by each of them.
FEW = 16
#: Characters of the parts of a text that a pattern is found by.
GRAM = 3


class Test(Struct, frozen=True):
    """``low`` and ``high`` are included. A text is equal to ``text``, or null, or any."""

    kind: Kind
    attribute: str
    low: int = LOWEST
    high: int = HIGHEST
    text: str | None = None

    @property
    def is_point(self) -> bool:
        return self.text is not None or self.low == self.high


class Part(Struct, frozen=True):
    """The tests of one attribute. ``exact``: they say everything. ``points``: one of these says everything too."""

    tests: tuple[Test, ...]
    exact: bool = True
    points: tuple[Test, ...] = ()
    gram: Test | None = None


class Tests(Struct, frozen=True):
    parts: tuple[Part, ...]
    circle: Circle | None
    exact: bool


def tests_of(term: Conjunction, attributes: Attributes) -> Tests:
    parts = tuple(_part(attributes[name], values) for name, values in term.values)
    circle = min(term.inside, key=lambda each: each.metres, default=None)
    return Tests(parts, circle, not term.inside and not term.outside and not term.closed)


def _part(attribute: Attribute, values: Values) -> Part:
    name = attribute.name
    family = attribute.domain.family
    kind: Kind = "text" if family == "text" else "number"
    if not values.ranges:
        return Part((Test(kind, name, NULL, NULL),))
    if values.null:
        return Part((), exact=False)
    if family == "text":
        return _text(name, values)
    if (attribute.domain.top or 0) - 1 > HIGHEST:  # decimals of more than 18 digits
        return Part((Test(kind, name),), exact=False)
    several = _points(kind, name, values.ranges)
    low, last = values.ranges[0], (attribute.domain.top or 0) - 1
    high = values.ranges[-1] - 1 if len(values.ranges) % 2 == 0 else last
    # The lowest value of a bigint has no ordinal of its own here, because that one is null.
    exact = len(values.ranges) <= 2 and high > LOWEST and (low <= NULL or low > LOWEST)
    if low < high:  # without a bound where all values are on that side
        low = LOWEST if low == attribute.domain.bottom else low
        high = HIGHEST if high == last else high
    return Part((Test(kind, name, max(low, LOWEST), max(high, LOWEST)),), exact, several if low > LOWEST else ())


def _points(kind: Kind, name: str, ranges: sets.Ranges) -> tuple[Test, ...]:
    found = sets.points(ranges, FEW)
    if found is None or len(found) < 2:
        return ()
    if kind == "text":
        return tuple(Test("text", name, text=text) for text in found)
    return tuple(Test(kind, name, each, each) for each in found)


def _text(name: str, values: Values) -> Part:
    ranges = values.ranges
    one = sets.points(ranges, 1)
    if one:
        return Part((Test("text", name, text=one[0]),))
    tests: list[Test] = []
    prefix = _prefix(ranges)
    exact = not values.unlike
    if prefix:
        tests.append(Test("prefix", name, text=prefix))
    elif ranges != ("",):
        exact = False
    gram = None
    for pattern in sorted(values.like):
        found = _suffix(pattern)
        if found is not None:
            tests.append(Test("suffix", name, text=found))
        else:
            exact = False
            gram = gram or _gram(name, pattern)
    return Part(tuple(tests) or (Test("text", name),), exact, _points("text", name, ranges), gram)


def _prefix(ranges: sets.Ranges) -> str:
    """The text that the texts of the ranges begin with, if they are all of these."""
    return str(ranges[0]) if len(ranges) == 2 and prefix_range(ranges[0]) == ranges else ""


def _suffix(pattern: str) -> str | None:
    parts = patterns.parts(pattern)
    text = patterns.text_of(parts[-1])
    return text if len(parts) == 2 and not parts[0] and text else None


def _gram(name: str, pattern: str) -> Test | None:
    """Some characters in a row that every text has."""
    runs = [run for part in patterns.parts(pattern) for run in _runs(part)]
    longest = max(runs, key=len, default="")
    # From the middle: texts have beginnings and ends in common.
    start = (len(longest) - GRAM) // 2
    return Test("text", name, text=longest[start : start + GRAM]) if len(longest) >= GRAM else None


def _runs(part: tuple[str, ...]) -> list[str]:
    return "".join("\0" if token == patterns.ONE else token for token in part).split("\0")


def clamp(ordinal: Any) -> int:
    """An ordinal of a publication as a whole number of 64 bits; one beyond them is tested by itself."""
    return min(max(int(ordinal), LOWEST), HIGHEST)
