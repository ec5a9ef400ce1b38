"""Segments are durable and readable, and failures of the disk are clear errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tocsin.cluster.storage.segments import TINY_ROWS, SegmentStore, Written
from tocsin.errors import StorageError


def numbers(rows: int) -> pa.Table:
    return pa.table({"id": pa.array(range(rows), pa.int64()), "text": [f"text {row}" for row in range(rows)]})


@pytest.fixture
def store(tmp_path: Path) -> SegmentStore:
    return SegmentStore(str(tmp_path / "root"))


def files(store: SegmentStore) -> list[str]:
    return store.orphans(set())


@pytest.mark.parametrize("rows", [0, 1, 100, TINY_ROWS, TINY_ROWS + 1, 300_000])
def test_a_written_segment_is_read_back(store: SegmentStore, rows: int) -> None:
    table = numbers(rows)
    written = store.write(table, "datasets/1")
    assert store.read(written.path) == table
    assert written.rows == rows
    assert files(store) == [written.path]


@pytest.mark.parametrize("rows", [3, TINY_ROWS + 3])
def test_a_segment_keeps_the_types_of_its_columns(store: SegmentStore, rows: int) -> None:
    table = pa.table(
        {
            "instant": pa.array([1] * rows, pa.timestamp("us", "UTC")),
            "local": pa.array([None] * rows, pa.timestamp("us")),
            "list": pa.array([[{"a": 1}, None]] * rows, pa.list_(pa.struct([("a", pa.int32())]))),
            "long": pa.array(["x"] * rows, pa.large_string()),
            "money": pa.array([None] * rows, pa.decimal128(10, 2)),
        }
    )
    assert store.read(store.write(table, "d").path).equals(table)


def test_the_byte_count_is_the_size_of_the_file(store: SegmentStore, tmp_path: Path) -> None:
    written = store.write(numbers(5), "d")
    assert (tmp_path / "root" / written.path).stat().st_size == written.bytes


def test_only_some_columns_are_read(store: SegmentStore) -> None:
    assert store.read(store.write(numbers(3), "d").path, ["id"]).column_names == ["id"]


def test_row_groups_have_the_size_asked_for(store: SegmentStore) -> None:
    written = store.write(numbers(10), "d", row_group=4)
    with store.open(written.path) as file:
        assert [file.metadata.row_group(number).num_rows for number in range(3)] == [4, 4, 2]


def test_paths_stay_valid_when_the_root_is_renamed(store: SegmentStore, tmp_path: Path) -> None:
    written = store.write(numbers(2), "d")
    (tmp_path / "root").rename(tmp_path / "renamed")
    assert SegmentStore(str(tmp_path / "renamed")).read(written.path) == numbers(2)


def test_a_root_can_be_a_url(tmp_path: Path) -> None:
    folder = tmp_path / "with space"
    written = SegmentStore(folder.as_uri()).write(numbers(2), "d")
    assert SegmentStore(str(folder)).read(written.path) == numbers(2)


def test_a_root_need_not_be_on_this_machine() -> None:
    store = SegmentStore("mock:///segments")
    store.claim(7)
    first, second = store.write(numbers(2), "datasets/1"), store.write(numbers(3), "datasets/1")
    assert store.read(first.path) == numbers(2)
    store.delete([first.path, first.path])
    assert files(store) == [second.path]
    store.delete(["datasets/1"])
    assert files(store) == []


def test_spark_reads_the_uri(store: SegmentStore, spark: SparkSession) -> None:
    paths = [store.uri(store.write(numbers(rows), "d").path) for rows in (3, TINY_ROWS + 1)]
    assert spark.read.parquet(*paths).count() == TINY_ROWS + 4


def test_a_folder_that_spark_wrote_is_adopted_and_read_as_one(store: SegmentStore, spark: SparkSession) -> None:
    folder = store.name("results/1")
    spark.range(10).repartition(3).write.parquet(store.uri(folder))
    parts = store.adopt(folder)
    assert sum(part.rows for part in parts) == 10
    assert all(part.path.startswith(folder) and part.bytes > 0 for part in parts)
    assert sorted(store.read(folder)["id"].to_pylist()) == list(range(10))
    assert store.orphans({folder}) == []
    store.delete([folder])
    assert files(store) == []


def test_files_of_failed_and_running_tasks_are_never_adopted(
    store: SegmentStore, spark: SparkSession, tmp_path: Path
) -> None:
    folder = store.name("datasets/1")
    spark.range(10).coalesce(1).write.parquet(store.uri(folder))
    (part,) = store.adopt(folder)
    attempt = tmp_path / "root" / folder / "_temporary/0/task_7"
    attempt.mkdir(parents=True)
    for name in ("part-00007.parquet", "x=1/part-00008.parquet"):
        (attempt / name).parent.mkdir(exist_ok=True)
        (attempt / name).write_bytes((tmp_path / "root" / part.path).read_bytes())
    assert store.adopt(folder) == [part]
    (tmp_path / "root" / folder / "_SUCCESS").unlink()
    with pytest.raises(StorageError, match="has not committed"):
        store.adopt(folder)


def test_a_segment_can_be_deleted_twice(store: SegmentStore) -> None:
    keep, drop = store.write(numbers(1), "d"), store.write(numbers(1), "d")
    store.delete([drop.path])
    store.delete([drop.path])
    assert files(store) == [keep.path]


@pytest.mark.parametrize("path", ["", "/etc/passwd", "../x", "d/../../x"])
def test_nothing_outside_the_root_is_deleted(store: SegmentStore, path: str) -> None:
    with pytest.raises(ValueError):
        store.delete([path])


def test_orphans_are_files_that_are_not_referenced(store: SegmentStore, tmp_path: Path) -> None:
    kept, lost = store.write(numbers(1), "a/b"), store.write(numbers(1), "a/b")
    left_over = tmp_path / "root" / "a" / ".tmp-x.parquet"
    left_over.write_bytes(b"half")
    assert store.orphans({kept.path}) == sorted([lost.path, "a/.tmp-x.parquet"])
    assert store.orphans({"a"}) == []


def test_a_new_store_has_no_orphans(store: SegmentStore) -> None:
    assert files(store) == []


def test_a_missing_segment_is_named(store: SegmentStore) -> None:
    with pytest.raises(StorageError, match=r"d/none\.parquet.*missing"):
        store.read("d/none.parquet")


def test_a_missing_folder_is_named(store: SegmentStore) -> None:
    with pytest.raises(StorageError, match="results/none"):
        store.read("results/none")


def test_an_empty_folder_is_an_error(store: SegmentStore, tmp_path: Path) -> None:
    (tmp_path / "root" / "f").mkdir()
    with pytest.raises(StorageError, match="no part files"):
        store.read("f")


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _scribble(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[4 : len(data) // 2] = b"\xff" * (len(data) // 2 - 4)
    file.write_bytes(bytes(data))


def _no_parquet(file: Path) -> None:
    file.write_text("this is not a Parquet file")


@pytest.mark.parametrize("damage", [_truncate, _empty, _scribble, _no_parquet])
def test_a_damaged_segment_is_named(store: SegmentStore, tmp_path: Path, damage: object) -> None:
    written = store.write(numbers(50_000), "d")
    assert callable(damage)
    damage(tmp_path / "root" / written.path)
    with pytest.raises(StorageError) as caught:
        store.read(written.path)
    assert written.path in caught.value.message
    assert caught.value.fields["path"] == written.path
    assert "damaged" in caught.value.hint


def test_a_missing_root_is_an_error_and_is_not_created_again(store: SegmentStore, tmp_path: Path) -> None:
    store.write(numbers(1), "d")
    (tmp_path / "root").rename(tmp_path / "elsewhere")
    for folder in ("d", "e/f"):
        with pytest.raises(StorageError, match="missing"):
            store.write(numbers(1), folder)
    assert not (tmp_path / "root").exists()
    (tmp_path / "elsewhere").rename(tmp_path / "root")
    store.write(numbers(1), "d")
    store.write(numbers(1), "e/f")


def test_a_missing_folder_is_created_again_by_the_next_write(store: SegmentStore, tmp_path: Path) -> None:
    store.delete([store.write(numbers(1), "d").path])
    (tmp_path / "root" / "d").rmdir()
    with pytest.raises(StorageError):
        store.write(numbers(1), "d")
    assert store.read(store.write(numbers(1), "d").path) == numbers(1)


def test_a_file_in_the_way_is_a_clear_error(store: SegmentStore, tmp_path: Path) -> None:
    (tmp_path / "root" / "d").write_text("a file")
    with pytest.raises(StorageError, match="cannot write segment d/"):
        store.write(numbers(1), "d")


@pytest.mark.parametrize("root", ["/dev/null/x", "nosuchscheme://bucket/x"])
def test_a_root_that_cannot_be_created_is_a_storage_error(root: str) -> None:
    with pytest.raises(StorageError, match="cannot open the segment path"):
        SegmentStore(root)


FULL = """
import resource, sys
import pyarrow as pa
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import StorageError
store = SegmentStore(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for rows in (1000, 200_000):
    try:
        store.write(pa.table({"x": [str(hash(str(row))) for row in range(rows)]}), "d")
    except StorageError as error:
        print(error.code, store.orphans(set()), error)
"""


def test_an_interrupted_write_raises_and_leaves_no_file(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "root")], capture_output=True, text=True, check=True, env=os.environ
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    for line in lines:
        assert line.startswith("storage [] cannot write segment d/")
        assert "File too large" in line


def test_a_write_returns_everything_the_catalog_needs(store: SegmentStore) -> None:
    written = store.write(numbers(7), "datasets/3")
    assert isinstance(written, Written)
    assert written.path.startswith("datasets/3/")
    assert pq.read_metadata(store.uri(written.path).removeprefix("file://")).num_rows == 7


def test_a_segment_path_belongs_to_one_catalog(tmp_path: Path) -> None:
    SegmentStore(str(tmp_path)).claim(1)
    SegmentStore(str(tmp_path)).claim(1)
    with pytest.raises(StorageError, match="another catalog"):
        SegmentStore(str(tmp_path)).claim(2)


def test_segments_without_an_owner_are_not_taken_over(tmp_path: Path) -> None:
    store = SegmentStore(str(tmp_path))
    store.write(pa.table({"a": [1]}), "datasets/1")
    with pytest.raises(StorageError, match="another catalog"):
        store.claim(1)


def test_a_folder_of_spark_goes_with_its_last_part_file(store: SegmentStore, tmp_path: Path) -> None:
    folder = store.name("datasets/1")
    where = tmp_path / "root" / folder
    (where / "refused=false").mkdir(parents=True)
    parts = ["part-0.parquet", "refused=false/part-1.parquet"]
    for name in (*parts, "_SUCCESS", ".part-0.parquet.crc"):
        (where / name).write_bytes(b"x")
    other = store.write(numbers(1), "datasets/1").path
    store.delete([f"{folder}/{parts[0]}"])
    assert (where / parts[1]).exists()
    store.delete([f"{folder}/{parts[1]}", f"{folder}/{parts[0]}"])
    assert not where.exists()
    assert files(store) == [other]
    store.delete([other])
    assert (tmp_path / "root/datasets/1").is_dir()
