"""The choice of the access: the test that a conjunction is found by, so that few publications lead to it in vain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tocsin.content.index.buckets import Buckets, Table
from tocsin.content.index.column import Column
from tocsin.content.index.columns import Columns
from tocsin.content.index.tests import HIGHEST, LOWEST, NULL, Part, Test, Tests

#: An access that more publications than this pass is compared with ranges.
_SELECTIVE = 0.1
#: Combinations of equalities that a column may be made for, and how many conjunctions, of all, have to use it.
_SHAPES, _USES, _OF_ALL = 4_096, 64, 0.02
#: Ranges are found by cells of the next power of this many bits: more would be more tables to look up.
_BITS = 4


class Place(NamedTuple):
    """A bucket to be in: by ``key``, or by the values of ``tests`` in a column."""

    table: Table
    key: Any = 0
    column: Column | None = None
    tests: tuple[Test, ...] = ()


class Access(NamedTuple):
    """``share``: of publications that pass. ``covered``: tests that it makes; ``part``: all tests of one attribute."""

    share: float
    places: list[Place]
    covered: tuple[Test, ...] = ()
    part: Part | None = None


class Accesses:
    def __init__(self, columns: Columns, buckets: Buckets) -> None:
        self._columns = columns
        self._buckets = buckets
        self._shapes: dict[tuple[int, ...], int] = {}
        self._seen = 0

    def choose(self, tests: Tests) -> Access:
        found = list(self._selective(tests))
        best = min(found, key=_share, default=None)
        if best is None or best.share > _SELECTIVE:
            wide = [access for part in tests.parts for test in part.tests for access in self._ranges(test)]
            best = min([*([best] if best else []), *wide], key=_share, default=None)
        return best or Access(1.0, [Place(self._columns.everything)])

    def _selective(self, tests: Tests) -> Iterable[Access]:
        """By a value, several values together, one of a few values, some characters, or a cell of the earth."""
        equal: list[tuple[Column, Test]] = []
        for part in tests.parts:
            for test in part.tests:
                column = self._columns.of(test)
                if test.is_point:
                    equal.append((column, test))
                    yield Access(column.share(test), [Place(column.equal, 0, column, (test,))], (test,))
            if part.points:
                column = self._columns.of(part.points[0])
                places = [Place(column.equal, 0, column, (test,)) for test in part.points]
                yield Access(sum(map(column.share, part.points)), places, part.tests, part)
            if part.gram is not None:
                grams = self._columns.grams(part.gram.attribute)
                share = (1 + self._buckets.members(grams, part.gram.text)) / (1 + len(grams))
                yield Access(max(0.01, min(1.0, share)), [Place(grams, part.gram.text)])
        self._seen += 1
        if len(equal) > 1:
            yield from self._together(equal)
        if tests.circle is not None:
            cells = self._columns.grid(tests.circle.latitude, tests.circle.longitude).cells(tests.circle)
            if cells:
                yield Access(0.001, [Place(table, cell) for table, cell in cells])

    def _together(self, equal: list[tuple[Column, Test]]) -> Iterable[Access]:
        equal.sort(key=lambda each: each[0].index)
        shape = tuple(column.index for column, _ in equal)
        if shape not in self._columns.together and (shape in self._shapes or len(self._shapes) < _SHAPES):
            self._shapes[shape] = self._shapes.get(shape, 0) + 1
            if self._shapes[shape] >= max(_USES, _OF_ALL * self._seen):
                self._columns.make_together(tuple(column for column, _ in equal))
        by_index = {column.index: test for column, test in equal}
        for indexes, column in self._columns.together.items():
            if all(index in by_index for index in indexes):
                tests = tuple(by_index[index] for index in indexes)
                # At most as many publications as pass one of them, and fewer tests are left.
                share = min(each.share(test) for each, test in zip(column.together, tests, strict=True)) / 2
                yield Access(share, [Place(column.equal, 0, column, tests)], tests)

    def _ranges(self, test: Test) -> Iterable[Access]:
        """By a range of about the same size, or by having any value."""
        column = self._columns.of(test)
        if test.kind in ("prefix", "suffix") or test.high == NULL:
            return
        if test.kind == "number" and LOWEST < test.low < test.high < HIGHEST:
            shift = -(-(test.high - test.low).bit_length() // _BITS) * _BITS
            if shift < 64:
                table = self._columns.level(column, shift)
                places = [Place(table, cell) for cell in range(test.low >> shift, (test.high >> shift) + 1)]
                # Publications are as often in one cell of a level as in another.
                yield Access(min(0.9, len(places) / (len(table) + 1)), places)
        covered = (test,) if (test.low, test.high) == (LOWEST, HIGHEST) else ()
        yield Access(1.0, [Place(column.any_value)], covered)


def _share(access: Access) -> float:
    return access.share
