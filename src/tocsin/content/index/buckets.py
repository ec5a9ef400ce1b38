"""The conjunctions that one value of a publication leads to.

Those with nothing else to test are in a sorted run of ids; so are those with one comparison, as soon as there are some
with the same column: for both a slice answers. All others are rows with their first test, tested one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.content.index.arena import Arena, grown
from tocsin.content.index.slots import Row, Slots
from tocsin.content.index.sorted_run import Ids, SortedRun
from tocsin.content.index.tests import HIGHEST, LOWEST, NULL

#: Numbers of buckets, by what leads to them.
Table = dict[Any, int]
#: Column, and whether a test has a lower bound or an upper one.
Side = tuple[int, bool]
#: So many comparisons with one column get a sorted run: few if hardly any other rows remain, for which a run is
#: faster than testing; many if the others are tested anyway.
_FEW, _MANY = 16, 256
#: The first test of a row without tests: column 0 is always 0.
_ALWAYS = (0, 0, 0)
_ARRAYS = ("start", "size", "capacity")


class Runs:
    __slots__ = ("sides", "whole")

    def __init__(self) -> None:
        self.whole: SortedRun | None = None
        self.sides: dict[Side, SortedRun] = {}

    def collect(self, vector: list[int], ids: list[Ids]) -> None:
        """Adds the ids that match."""
        if self.whole is not None:
            self.whole.all(ids)
        for (column, lower), run in self.sides.items():
            value = vector[column]
            if value != NULL:
                if lower:
                    run.up_to(value, ids)
                else:
                    run.from_(value, ids)


class Buckets:
    """``rows`` of all buckets: slot, column, low, high. Arrays are replaced when they grow: do not keep them."""

    def __init__(self) -> None:
        self.slots = Slots()
        self.rows = Arena(4)
        self.start: NDArray[np.int32] = np.zeros(1024, np.int32)
        self.size: NDArray[np.int32] = np.zeros(1024, np.int32)
        self.capacity: NDArray[np.int32] = np.zeros(1024, np.int32)
        self.runs: list[Runs | None] = []
        #: How many conjunctions it has, its table and key, and the column that the key is a value of, or -1.
        self._members: list[int] = []
        self._table: list[Table] = []
        self._key: list[Any] = []
        self._column: list[int] = []
        #: By bucket: how many rows could be in a run, by column and side.
        self._waiting: dict[int, dict[Side, int]] = {}
        self._free: list[int] = []

    def members(self, table: Table, key: Any) -> int:
        number = table.get(key)
        return 0 if number is None else self._members[number]

    def find(self, table: Table, key: Any, column: int = -1) -> int:
        """The number of a bucket, which is made if there is none."""
        number = table.get(key)
        if number is None:
            if not self._free:
                self._free.append(len(self.runs))
                self.runs.append(None)
                self._members.append(0)
                self._table.append(table)
                self._key.append(key)
                self._column.append(column)
                for name in _ARRAYS:
                    setattr(self, name, grown(getattr(self, name), len(self.runs)))
            number = table[key] = self._free.pop()
            self._table[number], self._key[number], self._column[number] = table, key, column
            self.start[number] = self.size[number] = self.capacity[number] = 0
        return number

    def insert(self, number: int, slot: int, single: bool) -> None:
        """``single``: the slot is in this bucket only."""
        slots = self.slots
        owner, rows = int(slots.owner[slot]), slots.rows(slot)
        self._members[number] += 1
        runs = self.runs[number]
        if not rows and slots.exact[slot]:
            runs = self.runs[number] = runs or Runs()
            runs.whole = runs.whole or SortedRun()
            runs.whole.insert(owner, owner)
            return
        side = self._side(slot, rows)
        if side is not None and runs is not None and side in runs.sides:
            runs.sides[side].insert(_threshold(rows[0]), owner)
            return
        place = self._append(number, (slot, *(rows[0] if rows else _ALWAYS)))
        if single:
            slots.place[slot] = place
        if side is not None:
            waiting = self._waiting.setdefault(number, {})
            waiting[side] = waiting.get(side, 0) + 1
            most = waiting[side] >= _FEW and 3 * sum(waiting.values()) >= 2 * place
            if most or waiting[side] >= _MANY:
                self._make_run(number, side)

    def _make_run(self, number: int, side: Side) -> None:
        del self._waiting[number][side]
        runs = self.runs[number] = self.runs[number] or Runs()
        run = runs.sides[side] = SortedRun()
        for place in range(int(self.size[number]) - 1, -1, -1):
            slot = int(self.rows.rows[self.start[number] + place, 0])
            rows = self.slots.rows(slot)
            if self._side(slot, rows) == side:
                run.insert(_threshold(rows[0]), int(self.slots.owner[slot]))
                self._take(number, place)

    def remove(self, number: int, slot: int, single: bool) -> tuple[int, Any]:
        """The column and value that led to the bucket."""
        slots = self.slots
        owner, rows = int(slots.owner[slot]), slots.rows(slot)
        runs = self.runs[number]
        side = self._side(slot, rows)
        if not rows and slots.exact[slot]:
            assert runs is not None and runs.whole is not None
            runs.whole.remove(owner, owner)
        elif side is not None and runs is not None and side in runs.sides:
            runs.sides[side].remove(_threshold(rows[0]), owner)
        else:
            if side is not None:
                self._waiting[number][side] -= 1
            first, size = int(self.start[number]), int(self.size[number])
            place = slots.place[slot] if single else np.flatnonzero(self.rows.rows[first : first + size, 0] == slot)[0]
            self._take(number, int(place))
        led = self._column[number], self._key[number]
        self._members[number] -= 1
        if not self._members[number]:
            del self._table[number][self._key[number]]
            self.runs[number] = None
            self._waiting.pop(number, None)
            self._free.append(number)
        return led

    def _append(self, number: int, row: tuple[int, ...]) -> int:
        """The place of a new row in the bucket."""
        start, size, capacity = int(self.start[number]), int(self.size[number]), int(self.capacity[number])
        if size == capacity:
            larger = max(2, 2 * capacity)
            moved = self.rows.allocate(larger)
            self.rows.rows[moved : moved + size] = self.rows.rows[start : start + size]
            if capacity:
                self.rows.release(start, capacity)
            start, self.start[number], self.capacity[number] = moved, moved, larger
        self.rows.rows[start + size] = row
        self.size[number] = size + 1
        return size

    def _take(self, number: int, place: int) -> None:
        """Removes a row; the last one takes its place."""
        start, last = int(self.start[number]), int(self.size[number]) - 1
        if place != last:
            self.rows.rows[start + place] = self.rows.rows[start + last]
            self.slots.place[self.rows.rows[start + place, 0]] = place
        self.size[number] = last
        if not last:
            self.rows.release(start, int(self.capacity[number]))
            self.capacity[number] = 0

    def _side(self, slot: int, rows: list[Row]) -> Side | None:
        """Of the only test, if it is a comparison with one bound and says everything."""
        if len(rows) != 1 or not self.slots.exact[slot]:
            return None
        column, low, high = rows[0]
        if (low == LOWEST) == (high == HIGHEST):
            return None
        return column, high == HIGHEST

    @property
    def bytes(self) -> int:
        return self.slots.bytes + self.rows.bytes + sum(int(getattr(self, name).nbytes) for name in _ARRAYS)


def _threshold(row: Row) -> int:
    _, low, high = row
    return low if high == HIGHEST else high
