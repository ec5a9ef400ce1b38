"""Which BE subscriptions each subscriber has (the papers' y): compressed rows that can be replaced.

One pool of numbers holds all rows. A row that outgrows its room is copied to the end of the pool; when half of the
pool is unused because of this, it is packed. So a million subscribers cost three arrays and not a million lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tocsin.balancing.model.arrays import Floats, Ints, Longs, summed

#: Rows that are gathered together.
PART = 1 << 15


class Rows:
    """Row ``u`` is a set: no number is in it twice."""

    def __init__(self, rows: Sequence[Sequence[int]] = ()) -> None:
        self.size: Longs = np.array([len(row) for row in rows], dtype=np.int64)
        self._room = self.size.copy()
        self._start: Longs = np.zeros(len(rows), dtype=np.int64)
        self._start[1:] = np.cumsum(self.size)[:-1]
        self._pool: Ints = np.array([k for row in rows for k in row], dtype=np.int32)
        self._used = len(self._pool)
        self._waste = 0

    @classmethod
    def packed(cls, size: Longs, items: Ints) -> Rows:
        """From the sizes of the rows and all their numbers one after the other; each row must be without repetition."""
        made = cls()
        made.size = np.array(size, dtype=np.int64)
        made._room = made.size.copy()
        made._start = np.cumsum(made.size) - made.size
        made._pool = np.array(items, dtype=np.int32)
        made._used = len(made._pool)
        return made

    def copy(self) -> Rows:
        """An independent copy."""
        made = Rows()
        made.size, made._room, made._start = self.size.copy(), self._room.copy(), self._start.copy()
        made._pool = self._pool[: self._used].copy()
        made._used, made._waste = self._used, self._waste
        return made

    def __len__(self) -> int:
        return len(self.size)

    def __getitem__(self, u: int) -> Ints:
        """A view, valid until the row changes."""
        start = self._start[u]
        return self._pool[start : start + self.size[u]]

    @property
    def total(self) -> int:
        return int(self.size.sum())

    def reach(self, count: int) -> None:
        """Makes empty rows up to ``count``."""
        more = count - len(self.size)
        if more > 0:
            none = np.zeros(max(more, len(self.size) // 2), dtype=np.int64)
            self.size = np.concatenate([self.size, none])
            self._room = np.concatenate([self._room, none])
            self._start = np.concatenate([self._start, none])

    def put(self, u: int, row: Sequence[int]) -> None:
        """Replaces the row."""
        self.size[u] = 0
        self._make_room(u, len(row))
        start = self._start[u]
        self._pool[start : start + len(row)] = row
        self.size[u] = len(row)

    def _make_room(self, u: int, size: int) -> None:
        if size <= self._room[u]:
            return
        room = size + size // 2 + 2
        if self._used + room > len(self._pool):
            self._pack(room)
        self._waste += int(self._room[u])
        self._start[u], self._room[u] = self._used, room
        self._used += room

    def _pack(self, room: int) -> None:
        if self._waste * 2 > self._used:
            _, items = self.gather(np.arange(len(self.size)))
            self._start, self._room = np.cumsum(self.size) - self.size, self.size.copy()
            self._pool, self._used, self._waste = items, len(items), 0
        grown = np.empty(self._used + max(room, self._used // 2), dtype=np.int32)
        grown[: self._used] = self._pool[: self._used]
        self._pool = grown

    def parts(self, us: Longs) -> Iterator[tuple[slice, Longs]]:
        """These subscribers in parts: gathering a million rows at once would fill the memory."""
        for begin in range(0, len(us), PART):
            yield slice(begin, min(begin + PART, len(us))), us[begin : begin + PART]

    def gather(self, us: Longs) -> tuple[Longs, Ints]:
        """The sizes of these rows, and all their numbers one after the other."""
        size = self.size[us]
        total = int(size.sum())
        if total == 0:
            return size, np.empty(0, dtype=np.int32)
        steps = np.ones(total, dtype=np.int64)
        filled = size > 0
        start, length = self._start[us][filled], size[filled]
        first = np.cumsum(length) - length
        steps[first[0]] = start[0]
        steps[first[1:]] = start[1:] - (start[:-1] + length[:-1] - 1)
        return size, self._pool[np.cumsum(steps)]

    def sums(self, us: Longs, weights: Floats) -> Floats:
        """For each of these rows the sum of its numbers' weights."""
        out = np.empty(len(us))
        for part, some in self.parts(us):
            size, items = self.gather(some)
            out[part] = summed(np.repeat(np.arange(len(some)), size), weights[items], len(some))
        return out
