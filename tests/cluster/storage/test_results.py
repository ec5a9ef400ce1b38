"""Results: grouping by columns, lines for a broker's pull, and pulls from an old position."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tocsin.cluster.model import Execution
from tocsin.cluster.storage.results import CHUNK, SCHEMA, ResultStore, group
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import Damaged, StorageError


def found(*rows: tuple[int, Any], rank: list[int] | None = None) -> pa.Table:
    """As Spark returns it: one row for each result."""
    columns: dict[str, Any] = {
        "subscription_id": pa.array([id for id, _ in rows], pa.int64()),
        "payload": pa.array([json.dumps(value) for _, value in rows], pa.string()),
    }
    if rank is not None:
        columns["rank"] = pa.array(rank, pa.int32())
    return pa.table(columns)


@pytest.fixture
def results(tmp_path: Path) -> ResultStore:
    def raise_it(execution: Execution, error: Damaged) -> None:
        raise error

    return ResultStore(SegmentStore(str(tmp_path)), raise_it)


def executed(results: ResultStore, number: int, table: pa.Table) -> Execution:
    grouped = group(table)
    written = results.write(1, number, grouped)
    return Execution(1, number, 10.0 * number, 0.0, table.num_rows, grouped.num_rows, written.bytes, written.path)


def lines(chunks: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(chunks).splitlines()]


def test_rows_are_grouped_by_subscription() -> None:
    grouped = group(found((7, {"a": 1}), (3, {"b": 2}), (7, {"c": 3})))
    assert grouped.schema == SCHEMA
    assert grouped.to_pylist() == [
        {"subscription_id": 3, "count": 1, "payload": '[{"b": 2}]'},
        {"subscription_id": 7, "count": 2, "payload": '[{"a": 1},{"c": 3}]'},
    ]


def test_a_rank_decides_the_order() -> None:
    grouped = group(found((7, "third"), (3, "x"), (7, "first"), (7, "second"), rank=[3, 1, 1, 2]))
    assert grouped["payload"].to_pylist() == ['["x"]', '["first","second","third"]']


def test_grouping_no_rows_gives_an_empty_table() -> None:
    assert group(found()).equals(SCHEMA.empty_table())


def test_a_payload_that_is_null_becomes_a_json_null() -> None:
    table = pa.table({"subscription_id": [1, 1], "payload": pa.array([None, "{}"])})
    assert group(table)["payload"].to_pylist() == ["[null,{}]"]


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.text(max_size=3), st.integers(0, 2))),
    st.integers(1, 5),
    st.booleans(),
    st.booleans(),
)
def test_grouping_agrees_with_a_dictionary(
    rows: list[tuple[int, str, int]], chunk: int, ranked: bool, large: bool
) -> None:
    table = found(*((id, value) for id, value, _ in rows), rank=[rank for *_, rank in rows] if ranked else None)
    if large:
        table = table.set_column(1, "payload", table["payload"].cast(pa.large_string()))
    pieces = [table.slice(start, chunk) for start in range(0, table.num_rows, chunk)] or [table]
    expected: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for id, value, rank in rows:
        expected[id].append((rank, value))
    if ranked:
        for values in expected.values():
            values.sort(key=lambda item: item[0])
    grouped = group(pa.concat_tables(pieces)).to_pylist()
    assert [(row["subscription_id"], row["count"], json.loads(row["payload"])) for row in grouped] == [
        (id, len(values), [value for _, value in values]) for id, values in sorted(expected.items())
    ]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_more_than_two_gigabytes_are_grouped() -> None:
    payload = '"' + "x" * (1 << 20) + '"'
    chunk = pa.table({"subscription_id": pa.array([2, 1] * 128), "payload": [payload] * 256})
    grouped = group(pa.concat_tables([chunk] * 9))
    assert grouped["count"].to_pylist() == [9 * 128] * 2
    assert grouped.nbytes > 1 << 31


def test_a_pull_returns_one_line_for_each_subscription(results: ResultStore) -> None:
    execution = executed(results, 5, found((17, {"é": "\n\u2028"}), (9, 1), (17, 2), (20, 3)))
    pulled = b"".join(results.pull(execution, np.array([17, 9, 4, 9])))
    assert pulled.splitlines()[0] == b'{"subscription":9,"execution":5,"count":1,"results":[1]}'
    assert lines([pulled]) == [
        {"subscription": 9, "execution": 5, "count": 1, "results": [1]},
        {"subscription": 17, "execution": 5, "count": 2, "results": [{"é": "\n\u2028"}, 2]},
    ]


@pytest.mark.parametrize("ids", [[], [1, 2], [100], [-5]])
def test_a_pull_without_a_match_is_empty(results: ResultStore, ids: list[int]) -> None:
    execution = executed(results, 1, found((50, 1), (60, 1)))
    assert list(results.pull(execution, np.array(ids, np.int64))) == []


def test_an_execution_without_results_is_pulled_as_nothing(results: ResultStore) -> None:
    assert list(results.pull(Execution(1, 1, 0.0, 0.0, 0, 0, 0, None), np.array([1]))) == []


def test_a_large_pull_is_sent_in_chunks_of_whole_lines(results: ResultStore) -> None:
    execution = executed(results, 2, found(*((id, "x" * 2000) for id in range(4000))))
    with results.store.open(execution.path or "") as file:
        assert file.metadata.num_row_groups > 4
    requested = np.arange(0, 4000, 3)
    chunks = list(results.pull(execution, requested))
    assert [line["subscription"] for line in lines(chunks)] == requested.tolist()
    assert all(len(chunk) <= CHUNK and chunk.endswith(b"\n") for chunk in chunks)


def test_a_line_longer_than_a_chunk_is_not_split(results: ResultStore) -> None:
    execution = executed(results, 2, found((1, "x" * (CHUNK + 10)), (2, "y")))
    assert [len(line["results"][0]) for line in lines(results.pull(execution, np.array([1, 2])))] == [CHUNK + 10, 1]


def test_row_groups_without_a_requested_id_are_not_read(results: ResultStore, tmp_path: Path) -> None:
    execution = executed(results, 2, found(*((id, "x" * 2000) for id in range(4000))))
    path = tmp_path / (execution.path or "")
    with results.store.open(execution.path or "") as file:
        first = file.metadata.row_group(0)
        end = first.column(2).data_page_offset + first.column(2).total_compressed_size
    data = bytearray(path.read_bytes())
    data[4:end] = bytes(end - 4)
    path.write_bytes(bytes(data))
    assert len(lines(results.pull(execution, np.array([3999])))) == 1
    with pytest.raises(StorageError, match="cannot read segment results/1/"):
        list(results.pull(execution, np.array([0])))


def test_a_folder_that_executors_wrote_is_pulled_like_a_file(results: ResultStore, spark: SparkSession) -> None:
    folder = results.store.name(results.folder(1, 4))
    spark.sql(
        "SELECT id AS subscription_id, 2 AS count, concat('[', id, ',', id, ']') AS payload FROM range(100)"
    ).repartition(3).write.parquet(results.store.uri(folder))
    execution = Execution(1, 4, 40.0, 0.0, 200, 100, 0, folder)
    pulled = lines(results.pull(execution, np.array([7, 70, 700])))
    assert sorted((line["subscription"], line["count"], line["results"]) for line in pulled) == [
        (7, 2, [7, 7]),
        (70, 2, [70, 70]),
    ]
    paths = results.result_paths([execution])
    assert len(paths) == 3
    assert {(number, time) for _, number, time in paths} == {(4, 40.0)}


def test_result_paths_leave_out_executions_without_results(results: ResultStore) -> None:
    execution = executed(results, 3, found((1, 1)))
    empty = Execution(1, 4, 0.0, 0.0, 0, 0, 0, None)
    assert results.result_paths([execution, empty]) == [(execution.path, 3, 30.0)]


def test_results_that_expired_during_a_pull_are_named(results: ResultStore) -> None:
    execution = executed(results, 3, found((1, 1)))
    results.store.delete([execution.path or ""])
    with pytest.raises(StorageError, match="cannot read segment results/1/0/"):
        list(results.pull(execution, np.array([1])))
