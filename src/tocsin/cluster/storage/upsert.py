"""The latest row of each key: the meaning of an upsert, computed on whole columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def latest(table: pa.Table, key: Sequence[str]) -> pa.Table:
    """The last row of each key, in order."""
    rows = table.num_rows
    if rows < 2:
        return table
    codes, distinct = _codes(table, key)
    if distinct == rows:
        return table
    last = np.full(distinct, -1, dtype=np.int64)
    last[codes] = np.arange(rows)  # a later row overwrites an earlier one with the same code
    last.sort()
    return table.take(pa.array(last))


def without(table: pa.Table, other: pa.Table, key: Sequence[str]) -> pa.Table:
    """The rows of ``table`` whose key does not occur in ``other``."""
    if table.num_rows == 0 or other.num_rows == 0:
        return table
    if len(key) == 1:
        known = other.column(key[0]).combine_chunks()
        return table.filter(pc.invert(pc.is_in(table.column(key[0]), value_set=known)))
    both = pa.concat_tables([other.select(list(key)), table.select(list(key))])
    codes, distinct = _codes(both, key)
    taken = np.zeros(distinct, dtype=bool)
    taken[codes[: other.num_rows]] = True
    return table.filter(pa.array(~taken[codes[other.num_rows :]]))


def _codes(table: pa.Table, key: Sequence[str]) -> tuple[np.ndarray[Any, np.dtype[np.int64]], int]:
    """One integer for each row, the same for equal keys, and the number of different keys."""
    codes: np.ndarray[Any, np.dtype[np.int64]] = np.zeros(table.num_rows, dtype=np.int64)
    distinct = 1
    for position, name in enumerate(key):
        column = table.column(name).combine_chunks()
        encoded = column.dictionary_encode(null_encoding="encode")
        part = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        if position == 0:
            codes, distinct = part, len(encoded.dictionary)
        else:
            _, codes = np.unique(codes * len(encoded.dictionary) + part, return_inverse=True)
            distinct = int(codes.max()) + 1 if len(codes) else 0
    return codes, distinct
