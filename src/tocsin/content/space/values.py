"""The values of one attribute that a condition accepts: ranges of ordinals, patterns of texts, and null."""

from __future__ import annotations

from functools import reduce

from msgspec import Struct

from tocsin.content.language import patterns
from tocsin.content.language.domains import Domain, Ordinal
from tocsin.content.space import ranges as sets
from tocsin.content.space.ranges import EMPTY, Ranges

#: Sets of at most this many texts are tested one by one.
_FEW = 1_000
Patterns = frozenset[str]
NONE: Patterns = frozenset()


class Values(Struct, frozen=True):
    """A text has to be in ``ranges``, match all of ``like`` and none of ``unlike``. ``null``: so is no value."""

    ranges: Ranges
    null: bool = False
    like: Patterns = NONE
    unlike: Patterns = NONE

    @property
    def is_empty(self) -> bool:
        return not self.null and self.ranges == EMPTY

    def accepts(self, ordinal: Ordinal | None) -> bool:
        if ordinal is None:
            return self.null
        return sets.contains(self.ranges, ordinal) and self._fits(ordinal)

    def _fits(self, ordinal: Ordinal) -> bool:
        if not self.like and not self.unlike:
            return True
        text = str(ordinal)
        return all(patterns.matches(each, text) for each in self.like) and not any(
            patterns.matches(each, text) for each in self.unlike
        )

    def intersection(self, other: Values) -> Values:
        ranges = sets.intersection(self.ranges, other.ranges)
        null = self.null and other.null
        if not (self.like or self.unlike or other.like or other.unlike):
            return Values(ranges, null)
        return _reduced(ranges, null, self.like | other.like, self.unlike | other.unlike)

    def union(self, other: Values) -> Values | None:
        """None if the union cannot be written as one."""
        if (self.like, self.unlike) == (other.like, other.unlike):
            return Values(
                sets.union(self.ranges, other.ranges), self.null or other.null, like=self.like, unlike=self.unlike
            )
        return None

    def covers(self, other: Values) -> bool:
        """Whether surely every value of the other is one of this; without patterns the answer is exact."""
        if (other.null and not self.null) or not sets.is_subset(other.ranges, self.ranges):
            return False
        if not self.like and not self.unlike:
            return True
        few = sets.points(other.ranges, _FEW)
        if few is not None:  # texts that do not fit the other's patterns were left out before
            return all(self._fits(each) for each in few)
        known = [*other.like, f"{patterns.literal(common_prefix(other.ranges))}%"]
        return all(any(patterns.covers(each, given) for given in known) for each in self.like) and all(
            any(patterns.covers(given, each) for given in other.unlike)
            or any(patterns.disjoint(each, given) for given in known)
            for each in self.unlike
        )

    def is_disjoint(self, other: Values) -> bool:
        """Whether surely no value is in both."""
        return self.intersection(other).is_empty


def anything(domain: Domain, nullable: bool = True) -> Values:
    return Values((domain.bottom,), nullable)


def like(pattern: str) -> Values:
    """The texts that match: a range where that is possible."""
    found = _as_ranges(pattern)
    if found is not None:
        return Values(found)
    return _reduced(prefix_range(patterns.prefix(pattern)), False, frozenset([pattern]), NONE)


def unlike(pattern: str) -> Values:
    found = _as_ranges(pattern)
    if found is not None:
        return Values(sets.complement(found, ""))
    return Values(("",), unlike=frozenset([pattern]))


def _as_ranges(pattern: str) -> Ranges | None:
    """The texts of ``abc`` and of ``abc%``."""
    parts = patterns.parts(pattern)
    first = patterns.text_of(parts[0])
    if first is None or len(parts) > 2 or (len(parts) == 2 and parts[1]):
        return None
    return (first, first + "\0") if len(parts) == 1 else prefix_range(first)


def prefix_range(prefix: str) -> Ranges:
    """All texts that begin so: up to the same text with a higher last character."""
    for end in range(len(prefix), 0, -1):
        code = ord(prefix[end - 1])
        if code < 0x10FFFF:
            following = chr(0xE000) if code == 0xD7FF else chr(code + 1)  # halves of surrogate pairs are no characters
            return (prefix, prefix[: end - 1] + following)
    return (prefix,)


def common_prefix(ranges: Ranges) -> str:
    """The longest text that all texts of the ranges begin with."""
    first = str(ranges[0]) if ranges else ""
    lengths = range(len(first), 0, -1)
    return next((first[:end] for end in lengths if sets.is_subset(ranges, prefix_range(first[:end]))), "")


def _reduced(ranges: Ranges, null: bool, like: Patterns, unlike: Patterns) -> Values:
    """Without patterns that say nothing more, and empty where patterns exclude each other."""
    few = sets.points(ranges, _FEW)
    if few is not None:
        tested = Values(ranges, False, like, unlike)
        kept = [(text, text + "\0") for text in few if tested.accepts(text)]
        return Values(reduce(sets.union, kept, EMPTY), null)
    if _contradict(like, unlike):
        return Values(EMPTY, null)
    like = frozenset(each for each in like if not _implied(each, like))
    return Values(ranges, null, like, unlike)


def _implied(pattern: str, like: Patterns) -> bool:
    return any(other != pattern and patterns.covers(pattern, other) for other in like)


def _contradict(like: Patterns, unlike: Patterns) -> bool:
    listed = sorted(like)
    return any(patterns.covers(denied, each) for each in listed for denied in unlike) or any(
        patterns.disjoint(one, other) for i, one in enumerate(listed) for other in listed[:i]
    )
