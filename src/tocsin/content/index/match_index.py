"""Which of many conditions match a publication.

Every conjunction is found by one of its tests, the access. A publication looks up its own values; what it finds there
is either a slice of ids that match, or rows whose other tests are made for all rows at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tocsin.content.index.access import Accesses, Place
from tocsin.content.index.buckets import Buckets
from tocsin.content.index.columns import Columns
from tocsin.content.index.sorted_run import Ids
from tocsin.content.index.tests import tests_of
from tocsin.content.language.attributes import Attributes
from tocsin.content.language.domains import Ordinal
from tocsin.content.space.conjunction import Conjunction
from tocsin.content.space.normal_form import Terms
from tocsin.errors import AlreadyExists, LimitExceeded, NotFound

#: Instead of a first slot: of what is not an id, and of a condition that is never true.
_NONE, _NEVER = -1, -2
_MOST_IDS = 1 << 31
#: Up to so many rows are tested in Python, which is faster then.
_FEW = 24
#: So many rows are tested once more by themselves before all their tests.
_MANY = 512
_NO_IDS: Ids = np.empty(0, np.int32)
Numbers = NDArray[np.int64]


class Normalised(Protocol):
    """A condition or an advertisement."""

    @property
    def terms(self) -> Terms: ...


class MatchIndex:
    """Ids are whole numbers from 0; memory grows with the largest one, so they should have few gaps."""

    def __init__(self, attributes: Attributes) -> None:
        self.attributes = attributes
        self._columns = Columns(attributes)
        self._buckets = Buckets()
        self._slots = self._buckets.slots
        self._accesses = Accesses(self._columns, self._buckets)
        #: The first slot of an id.
        self._heads: NDArray[np.int32] = np.full(1024, _NONE, np.int32)
        #: By id: whether it has several conjunctions, of which more than one may match.
        self._several: NDArray[np.bool_] = np.zeros(1024, np.bool_)
        #: By slot: the buckets of one that is in several, and the conjunctions that have more than tests.
        self._homes: dict[int, list[int]] = {}
        self._checks: dict[int, Conjunction] = {}
        self._disjunctions = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __contains__(self, id: int) -> bool:
        return 0 <= id < len(self._heads) and bool(self._heads[id] != _NONE)

    @property
    def bytes(self) -> int:
        """Of the arrays; Python's objects for tables, texts and runs come on top."""
        return self._buckets.bytes + int(self._heads.nbytes + self._several.nbytes)

    # -- changes

    def add(self, id: int, condition: Normalised) -> None:
        if id in self:
            raise AlreadyExists("subscription", str(id))
        if not 0 <= id < _MOST_IDS:
            raise LimitExceeded(f"{id} is not an id between 0 and {_MOST_IDS - 1:,}", limit=_MOST_IDS)
        if id >= len(self._heads):
            more = max(id + 1, len(self._heads) * 3 // 2) - len(self._heads)
            self._heads = np.concatenate([self._heads, np.full(more, _NONE, np.int32)])
            self._several = np.concatenate([self._several, np.zeros(more, np.bool_)])
        head = _NEVER
        for term in condition.terms:
            head = self._insert(id, term, head)
        self._heads[id] = head
        self._size += 1
        if len(condition.terms) > 1:
            self._several[id] = True
            self._disjunctions += 1

    def _insert(self, id: int, term: Conjunction, following: int) -> int:
        tests = tests_of(term, self.attributes)
        access = self._accesses.choose(tests)
        made = [test for part in tests.parts for test in part.tests if test not in access.covered]
        rows = [(column.index, *column.acquire(test)) for test in made for column in [self._columns.of(test)]]
        rows.sort(key=_selectivity)
        exact = tests.exact and all(part.exact or part is access.part for part in tests.parts)
        slot = self._slots.add(id, rows, exact, following)
        numbers = [self._bucket(place) for place in access.places]
        single = len(numbers) == 1
        self._slots.home[slot] = numbers[0] if single else -1
        if not single:
            self._homes[slot] = numbers
        for number in numbers:
            self._buckets.insert(number, slot, single)
        if not exact:
            self._checks[slot] = term
        return slot

    def _bucket(self, place: Place) -> int:
        column = place.column
        if column is None:
            return self._buckets.find(place.table, place.key)
        key = column.acquire_together(place.tests) if column.together else column.acquire(place.tests[0])[0]
        return self._buckets.find(place.table, key, column.index)

    def remove(self, id: int) -> None:
        if id not in self:
            raise NotFound("subscription", str(id))
        slot = int(self._heads[id])
        while slot >= 0:
            following = int(self._slots.following[slot])
            self._drop(slot)
            slot = following
        self._heads[id] = _NONE
        self._size -= 1
        if self._several[id]:
            self._several[id] = False
            self._disjunctions -= 1

    def _drop(self, slot: int) -> None:
        columns = self._columns.all
        numbers = self._homes.pop(slot, None) or [int(self._slots.home[slot])]
        for number in numbers:
            column, value = self._buckets.remove(number, slot, len(numbers) == 1)
            if column >= 0:
                columns[column].release(value, value)
        for index, low, high in self._slots.rows(slot):
            columns[index].release(low, high)
        self._slots.remove(slot)
        self._checks.pop(slot, None)

    # -- matching

    def match(self, publication: Mapping[str, Any]) -> Ids:
        """The ids of the conditions that a publication matches, in no order; it is checked against the attributes."""
        return self.match_ordinals(self.attributes.publication(publication))

    def match_batch(self, publications: Iterable[Mapping[str, Any]]) -> list[Ids]:
        return [self.match(publication) for publication in publications]

    def match_ordinals(self, publication: Mapping[str, Ordinal]) -> Ids:
        """The same for a publication that was checked."""
        vector, found = self._columns.look_up(publication)
        ids: list[Ids] = []
        all_runs = self._buckets.runs
        for number in found:
            runs = all_runs[number]
            if runs is not None:
                runs.collect(vector, ids)
        if found:
            slots = self._tested(found, vector)
            if len(slots) and self._checks:
                slots = self._checked(slots, publication)
            if len(slots):
                ids.append(self._slots.owner[slots])
        if not ids:
            return _NO_IDS
        result: Ids = np.concatenate(ids)
        return self._once(result) if self._disjunctions else result

    def _tested(self, found: list[int], vector: list[int]) -> Numbers | list[int]:
        """The slots of the rows in these buckets that pass all their tests."""
        buckets = self._buckets
        numbers = np.array(found)
        sizes = buckets.size[numbers]
        ends = sizes.cumsum()
        total = int(ends[-1])
        if not total:
            return []
        rows = buckets.rows.rows[np.arange(total) + (buckets.start[numbers] - ends + sizes).repeat(sizes)]
        if total <= _FEW:
            passed = [slot for slot, column, low, high in rows.tolist() if low <= vector[column] <= high]
            return [
                slot
                for slot in passed
                if all(low <= vector[column] <= high for column, low, high in self._slots.rows(slot)[1:])
            ]
        values = np.array(vector, np.int64)
        value = values[rows[:, 1]]
        return self._others(rows[(rows[:, 2] <= value) & (value <= rows[:, 3]), 0], values)

    def _others(self, slots: Numbers, values: NDArray[np.int64]) -> Numbers:
        """The slots that pass the tests after the first."""
        store, tests = self._slots, self._slots.tests.rows
        done = 1
        finished: list[Numbers] = []
        while len(slots):
            more = store.count[slots] > done
            if not more.all():
                finished.append(slots[~more])
                slots = slots[more]
            if len(slots) <= _MANY:
                break
            rows = tests[store.first[slots] + done]
            value = values[rows[:, 0]]
            slots = slots[(rows[:, 1] <= value) & (value <= rows[:, 2])]
            done += 1
        if len(slots):
            left = store.count[slots] - done
            ends = left.cumsum()
            begins = ends - left
            rows = tests[np.arange(int(ends[-1])) + (store.first[slots] + done - begins).repeat(left)]
            value = values[rows[:, 0]]
            failed = (rows[:, 1] > value) | (value > rows[:, 2])
            finished.append(slots[~np.logical_or.reduceat(failed, begins)])
        return np.concatenate(finished) if finished else slots

    def _checked(self, slots: Numbers | list[int], publication: Mapping[str, Ordinal]) -> list[int]:
        """The slots whose conjunctions accept the publication, where tests do not say everything."""
        checks, number = self._checks, self._number
        listed = slots if isinstance(slots, list) else slots.tolist()
        return [slot for slot in listed if slot not in checks or checks[slot].accepts(publication, number)]

    def _once(self, ids: Ids) -> Ids:
        several = self._several[ids]
        return np.concatenate([ids[~several], np.unique(ids[several])]) if several.any() else ids

    def _number(self, name: str, ordinal: Ordinal) -> float:
        return self.attributes[name].domain.number(ordinal)


def _selectivity(row: tuple[int, int, int]) -> tuple[bool, int]:
    """Equalities first, then ranges by their size."""
    return row[1] != row[2], row[2] - row[1]
