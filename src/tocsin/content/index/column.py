"""What publications are looked up by: the values of an attribute, parts of its texts, or several values together.

A column gives each publication a whole number, its *value*, and has tables of buckets by value. Texts and
combinations have numbers while a test compares with them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal

from tocsin.content.index.buckets import Table
from tocsin.content.index.tests import NULL, Test

Kind = Literal["number", "text", "prefix", "suffix", "together"]
#: The value of what no test compares with.
UNKNOWN = -1
#: Equal values that are counted, to estimate how often one occurs.
_COUNTED = 10_000


class Column:
    """``index``: its place in the vector of a publication. ``together``: the columns that it combines.

    ``wide``: ordinals may need more than 64 bits.
    """

    __slots__ = (
        "_counts",
        "_free",
        "_spelled",
        "_total",
        "any_value",
        "equal",
        "index",
        "kind",
        "length",
        "levels",
        "numbers",
        "together",
        "wide",
    )

    def __init__(self, index: int, kind: Kind, length: int = 0, together: tuple[Column, ...] = ()) -> None:
        self.index = index
        self.kind = kind
        self.length = length
        self.together = together
        self.wide = False
        #: Buckets by value.
        self.equal: Table = {}
        #: By value without its last bits, for ranges of about that size.
        self.levels: dict[int, Table] = {}
        #: Of what needs any value.
        self.any_value: Table = {}
        #: The number of each text or combination, and the other way.
        self.numbers: dict[Hashable, int] = {}
        self._spelled: list[Hashable] = []
        self._free: list[int] = []
        self._counts: dict[int, int] = {}
        self._total = 0

    def acquire(self, test: Test) -> tuple[int, int]:
        """The bounds of a test, to be released; a text gets a number."""
        low, high = test.low, test.high
        if test.text is not None:
            low = high = self._number(test.text)
        if low == high:
            self._count(low)
        return low, high

    def acquire_together(self, tests: tuple[Test, ...]) -> int:
        """The number of a combination of values, each of which is acquired too."""
        values = tuple(column.acquire(test)[0] for column, test in zip(self.together, tests, strict=True))
        number = self._number(values)
        self._count(number)
        return number

    def _number(self, spelled: Hashable) -> int:
        number = self.numbers.get(spelled)
        if number is None:
            if not self._free:
                self._free.append(len(self._spelled))
                self._spelled.append(None)
            number = self.numbers[spelled] = self._free.pop()
            self._spelled[number] = spelled
        return number

    def _count(self, value: int) -> None:
        self._total += 1
        # Uses of numbers are counted to the last, because unused ones are given away.
        if self._is_numbered(value) or value in self._counts or len(self._counts) < _COUNTED:
            self._counts[value] = self._counts.get(value, 0) + 1

    def _is_numbered(self, value: int) -> bool:
        return self.kind != "number" and value != NULL

    def release(self, low: int, high: int) -> None:
        if low != high:
            return
        spelled = self._spelled[low] if self._is_numbered(low) else None
        if self.together:
            assert isinstance(spelled, tuple)
            for column, value in zip(self.together, spelled, strict=True):
                column.release(value, value)
        self._total -= 1
        left = self._counts.get(low, 0) - 1
        if left > 0:
            self._counts[low] = left
            return
        self._counts.pop(low, None)
        if spelled is not None:
            del self.numbers[spelled]
            self._free.append(low)

    def share(self, test: Test) -> float:
        """Which part of the publications passes an equality, if they have what subscriptions ask for."""
        value = test.low if test.text is None else self.numbers.get(test.text, UNKNOWN)
        return (self._counts.get(value, 0) + 1) / (self._total + len(self._counts) + 1)
