"""Compressed rows against lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.balancing.model.interner import Interner
from tocsin.balancing.model.rows import Rows

CHANGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)))


@given(CHANGES)
def test_rows_hold_the_lists_put_into_them(changes):
    rows, lists = Rows(), {u: list[int]() for u in range(7)}
    rows.reach(7)
    for u, k in changes:
        lists[u] = list(range(k))
        rows.put(u, lists[u])
    assert [rows[u].tolist() for u in range(7)] == [lists[u] for u in range(7)]
    us = np.array([5, 0, 0, 3])
    size, items = rows.gather(us)
    assert items.tolist() == [k for u in us for k in rows[u]] and size.tolist() == [len(rows[u]) for u in us]
    assert rows.total == sum(map(len, lists.values()))


def test_growing_rows_waste_less_than_three_times_their_size():
    rows = Rows([[0]] * 10)
    for size in range(2, 200):
        for u in range(10):
            rows.put(u, range(size))
    assert len(rows._pool) < 4 * rows.total


def test_the_interner_uses_numbers_of_forgotten_names_again():
    names: Interner[str] = Interner()
    assert [names.number(name) for name in ("ann", "bob", "ann")] == [0, 1, 0]
    assert names.forget("ann") == 0 and names.find("ann") is None and names.forget("ann") is None
    assert names.number("cid") == 0 and names.name(0) == "cid" and sorted(names) == ["bob", "cid"] and len(names) == 2
