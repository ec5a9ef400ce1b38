from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.cluster.storage.upsert import latest, without

pairs = st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "c"])), max_size=30)


def table(rows: list[tuple[int, str]]) -> pa.Table:
    return pa.table(
        {
            "n": pa.array([row[0] for row in rows], pa.int64()),
            "s": pa.array([row[1] for row in rows], pa.string()),
            "at": pa.array(range(len(rows)), pa.int64()),
        }
    )


@given(pairs, st.sampled_from([("n",), ("s",), ("n", "s")]))
def test_latest_agrees_with_a_dictionary(rows: list[tuple[int, str]], key: tuple[str, ...]) -> None:
    given_rows = table(rows).to_pylist()
    expected = {tuple(row[name] for name in key): row for row in given_rows}
    assert latest(table(rows), key).to_pylist() == sorted(expected.values(), key=lambda row: row["at"])


@given(pairs, pairs, st.sampled_from([("n",), ("s",), ("n", "s")]))
def test_without_agrees_with_a_set(
    left: list[tuple[int, str]], right: list[tuple[int, str]], key: tuple[str, ...]
) -> None:
    known = {tuple(row[name] for name in key) for row in table(right).to_pylist()}
    expected = [row for row in table(left).to_pylist() if tuple(row[name] for name in key) not in known]
    assert without(table(left), table(right), key).to_pylist() == expected


@pytest.mark.parametrize("rows", [[], [(1, "a")]])
def test_latest_returns_zero_or_one_rows_unchanged(rows: list[tuple[int, str]]) -> None:
    assert latest(table(rows), ("n",)).to_pylist() == table(rows).to_pylist()


def test_null_is_one_more_value_of_a_key() -> None:
    rows = pa.table({"n": pa.array([None, 1, None, 1], pa.int64()), "s": ["a", "a", "a", None], "at": range(4)})
    assert latest(rows, ["n"])["at"].to_pylist() == [2, 3]
    assert latest(rows, ["n", "s"])["at"].to_pylist() == [1, 2, 3]
    assert without(rows, rows.slice(0, 1), ["n", "s"])["at"].to_pylist() == [1, 3]
