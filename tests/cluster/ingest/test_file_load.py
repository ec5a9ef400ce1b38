from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tocsin.cluster.ingest.file_load import COMPRESSED, load_source, loading
from tocsin.cluster.model import Column
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.bulk_writer import split_rows
from tocsin.errors import NotFound, QueryFailed

COLUMNS = (Column("id", "bigint", nullable=False), Column("kind", "string"), Column("at", "timestamp"))


def put(folder: Path, name: str, *rows: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))


def rows_of(runtime: SparkRuntime, path: str, format: str, columns: Any, *, refused: bool = False) -> Any:
    """The rows that fit, or the number of the others."""
    with loading(runtime, path, lambda _: None):
        taken, rows = split_rows(load_source(runtime, path, format, columns).frame.toArrow())
    return taken.refused if refused else rows


def test_the_size_of_a_load_is_known_before_it_is_read(spark_runtime, tmp_path):
    put(tmp_path / "in", "a.json", {"id": 1})
    put(tmp_path / "in/deep", "b.json.gz", {"id": 1})
    size = (tmp_path / "in/a.json").stat().st_size
    assert load_source(spark_runtime, str(tmp_path / "in/a.json"), "json", COLUMNS).bytes == size
    assert load_source(spark_runtime, str(tmp_path / "in"), "json", COLUMNS).bytes == size * (1 + COMPRESSED)


def test_a_load_reports_its_progress_and_its_end(spark_runtime, tmp_path, monkeypatch):
    monkeypatch.setattr("tocsin.cluster.ingest.file_load.REPORT", 0.001)
    put(tmp_path / "in", "a.json", *({"id": number} for number in range(1000)))
    finished = threading.Event()
    with loading(spark_runtime, "x", lambda done: finished.set() if done == 1.0 else None):
        load_source(spark_runtime, str(tmp_path / "in"), "json", COLUMNS).frame.toArrow()
        assert finished.wait(120)


def test_a_load_refuses_single_bad_rows(spark_runtime, tmp_path):
    put(tmp_path / "in", "a.json", {"id": 1}, "nonsense", {"kind": "no id"})
    rows = rows_of(spark_runtime, str(tmp_path / "in" / "a.json"), "json", COLUMNS)
    assert rows["id"].to_pylist() == [1]
    assert rows_of(spark_runtime, str(tmp_path / "in" / "a.json"), "json", COLUMNS, refused=True) == 2


def test_a_load_accepts_patterns_and_names_with_wildcards(spark_runtime, tmp_path):
    put(tmp_path / "in", "[1].json", {"id": 1})
    put(tmp_path / "in", "2.json", {"id": 2})
    put(tmp_path / "in", "3.txt", {"id": 3})
    rows = rows_of(spark_runtime, str(tmp_path / "in" / "*.json"), "json", COLUMNS)
    assert sorted(rows["id"].to_pylist()) == [1, 2]
    rows = rows_of(spark_runtime, str(tmp_path / "in" / "[1].json"), "json", COLUMNS)
    assert rows["id"].to_pylist() == [1]


def test_a_load_of_a_missing_path_is_an_error(spark_runtime, tmp_path):
    with pytest.raises(NotFound):
        rows_of(spark_runtime, str(tmp_path / "nowhere"), "json", COLUMNS)


def test_a_load_of_a_broken_file_names_it(spark_runtime, tmp_path):
    put(tmp_path / "in", "a.parquet", "this is not parquet")
    with pytest.raises(QueryFailed, match=r"a\.parquet"):
        rows_of(spark_runtime, str(tmp_path / "in"), "parquet", COLUMNS)


def test_timestamps_of_a_load_are_instants_in_utc(spark_runtime, tmp_path):
    put(tmp_path / "in", "a.json", {"id": 1, "at": "2026-01-02T03:04:05+01:00"})
    rows = rows_of(spark_runtime, str(tmp_path / "in"), "json", COLUMNS)
    assert rows["at"].cast(pa.int64()).to_pylist() == [1767319445000000]
    assert rows.schema.field("at").type == pa.timestamp("us", "UTC")


@pytest.mark.parametrize("scheme", ["s3a", "made-up", "hive"])
def test_a_scheme_without_a_connector_is_refused_with_the_reason(spark_runtime, monkeypatch, scheme):
    allowed = msgspec.structs.replace(spark_runtime.config, load_paths=(f"{scheme}://bucket",))
    monkeypatch.setattr(spark_runtime, "config", allowed)
    with pytest.raises(QueryFailed, match=f"cannot load '{scheme}://bucket/x.json': .*(No FileSystem|S3AFileSystem)"):
        rows_of(spark_runtime, f"{scheme}://bucket/x.json", "json", COLUMNS)
