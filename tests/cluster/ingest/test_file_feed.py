from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sparkmaster import read_until, start_child
from tocsin.cluster.ingest.file_feed import FileFeed
from tocsin.cluster.ingest.file_load import load_source
from tocsin.cluster.ingest.file_source import check_path, file_source
from tocsin.cluster.model import Column
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.bulk_writer import Taken, split_rows
from tocsin.config import ClusterConfig
from tocsin.errors import TocsinError, UserError

ANYWHERE = ClusterConfig(load_paths=("/",))
COLUMNS = (Column("id", "bigint", nullable=False), Column("kind", "string"), Column("at", "timestamp"))


class Taker:
    """Commits like the catalog does: a batch number that was committed before is skipped."""

    def __init__(self) -> None:
        self.batches: dict[int, pa.Table] = {}
        self.refused = 0
        self.fail: Exception | None = None
        self.committed = threading.Semaphore(0)

    def __call__(self, number: int, frame: DataFrame) -> Taken:
        taken, rows = split_rows(frame.toArrow())
        if self.fail is not None:
            raise self.fail
        if number not in self.batches:
            self.batches[number] = rows
            self.refused += taken.refused
            self.committed.release()
        return taken

    @property
    def ids(self) -> list[int]:
        return sorted(row for table in self.batches.values() for row in table["id"].to_pylist())


def put(folder: Path, name: str, *rows: Any) -> None:
    """Makes a complete file appear at once, as the feed requires."""
    folder.mkdir(parents=True, exist_ok=True)
    draft = folder / f".{name}"
    draft.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    draft.rename(folder / name)


@pytest.fixture
def make(spark_runtime: SparkRuntime, tmp_path: Path):
    feeds = []

    def build(
        taker: Taker, columns: tuple[Column, ...] = COLUMNS, checkpoint: str = "checkpoint", **options: Any
    ) -> FileFeed:
        (tmp_path / "in").mkdir(exist_ok=True)
        feed = FileFeed(
            spark_runtime,
            feed="f",
            columns=columns,
            options={"type": "file", "path": str(tmp_path / "in"), **options},
            checkpoint=str(tmp_path / checkpoint),
            take=taker,
            trigger=0.05,
        )
        feeds.append(feed)
        return feed

    yield build
    for feed in feeds:
        feed.stop()


def failure(feed: FileFeed) -> str:
    """Read the new files, which fails; what the status says about it."""
    with pytest.raises((PySparkException, Py4JError, TocsinError, OSError)):
        feed.read()
    return str(feed.status()["error"])


def test_new_files_are_ingested(make, tmp_path):
    taker = Taker()
    put(tmp_path / "in", "a.json", {"id": 1, "kind": "fire"}, {"id": 2})
    feed = make(taker)
    feed.read()
    put(tmp_path / "in", "b.json", {"id": 3, "at": "2026-01-02T03:04:05Z"})
    feed.read()
    assert taker.ids == [1, 2, 3]
    assert feed.status() | {"batch": None} == {
        "state": "running", "batch": None, "rows": 3, "refused": 0, "reasons": [], "error": None, "failures": 0,
    }  # fmt: skip


def test_a_running_feed_notices_a_new_file(make, tmp_path):
    taker = Taker()
    feed = make(taker)
    feed.start()
    put(tmp_path / "in", "a.json", {"id": 1})
    assert taker.committed.acquire(timeout=120)
    assert taker.ids == [1]


def test_single_bad_json_rows_are_refused(make, tmp_path):
    taker = Taker()
    put(
        tmp_path / "in", "a.json",
        {"id": 1}, "{broken", {"id": "seven"}, {"kind": "no id"}, {"id": 2, "at": "not a time"}, "", {"id": 3},
    )  # fmt: skip
    feed = make(taker)
    feed.read()
    assert taker.ids == [1, 3]
    assert taker.refused == 4
    reasons = feed.status()["reasons"]
    assert len(reasons) == 4
    assert "a.json: does not fit the columns: {broken" in reasons
    assert "a.json: null in the column 'id'" in reasons


def test_single_bad_csv_rows_are_refused(make, tmp_path):
    taker = Taker()
    put(
        tmp_path / "in",
        "a.csv",
        "id;kind;at",
        "1;fire;2026-01-02T03:04:05Z",
        "x;fire;",
        ";flood;",
        "2;too;2026;many",
        "3;;",
    )
    feed = make(taker, format="csv", options={"header": True, "delimiter": ";"})
    feed.read()
    assert taker.ids == [1, 3]
    assert taker.refused == 3


def test_a_csv_header_in_another_order_is_an_error_and_not_wrong_data(make, tmp_path):
    taker = Taker()
    put(tmp_path / "in", "a.csv", "kind,id,at", "7,8,")
    feed = make(taker, format="csv", options={"header": True})
    assert "header" in failure(feed).lower()
    assert taker.ids == []


def test_parquet_rows_with_null_in_a_not_null_column_are_refused(make, tmp_path):
    taker = Taker()
    table = pa.table(
        {"id": pa.array([1, None, 3]), "kind": ["a", "b", "c"], "at": pa.array([0] * 3, pa.timestamp("us", "UTC"))}
    )
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    feed = make(taker, format="parquet")
    feed.read()
    assert taker.ids == [1, 3]
    assert taker.refused == 1


def test_nested_types_are_ingested(make, tmp_path):
    taker = Taker()
    columns = (Column("id", "int"), Column("tags", "array<string>"), Column("place", "struct<lat:double,lon:double>"))
    put(tmp_path / "in", "a.json", {"id": 1, "tags": ["x", "y"], "place": {"lat": 1.5, "lon": 2}})
    make(taker, columns).read()
    (table,) = taker.batches.values()
    assert table.to_pylist() == [{"id": 1, "tags": ["x", "y"], "place": {"lat": 1.5, "lon": 2.0}}]


def test_a_failed_commit_is_retried_with_the_same_batch(make, tmp_path):
    taker = Taker()
    taker.fail = OSError("disk full")
    put(tmp_path / "in", "a.json", {"id": 1})
    feed = make(taker)
    assert "disk full" in failure(feed)
    assert feed.status()["state"] == "failing"
    taker.fail = None
    feed.read()
    assert taker.ids == [1]
    assert feed.status()["state"] == "running"
    assert feed.status()["error"] is None


def test_an_unreadable_file_is_reported_and_the_feed_continues_without_it(make, tmp_path):
    taker = Taker()
    put(tmp_path / "in", "a.parquet", "this is not parquet")
    feed = make(taker, format="parquet")
    assert "a.parquet" in failure(feed)
    (tmp_path / "in" / "a.parquet").unlink()
    feed.read()
    assert feed.status()["state"] == "running"


def test_a_feed_waits_for_a_missing_folder(make, tmp_path):
    taker = Taker()
    feed = make(taker)
    (tmp_path / "in").rmdir()
    assert "there is no folder" in failure(feed)
    put(tmp_path / "in", "a.json", {"id": 1})
    feed.read()
    assert taker.ids == [1]


@pytest.mark.parametrize("name", ["a.json", "[1]*.json"])
def test_a_path_may_be_a_file(make, tmp_path, name):
    taker = Taker()
    put(tmp_path / "in", name, {"id": 1}, {"id": 2})
    put(tmp_path / "in", "other.json", {"id": 3})
    feed = make(taker, path=str(tmp_path / "in" / name))
    feed.read()
    feed.read()
    assert taker.ids == [1, 2]
    assert feed.status()["state"] == "running"


def test_many_files_are_ingested_in_bounded_batches(make, tmp_path, monkeypatch):
    monkeypatch.setattr("tocsin.cluster.ingest.file_feed.BATCH_BYTES", 50)
    taker = Taker()
    for number in range(8):
        put(tmp_path / "in", f"{number}.json", {"id": number, "kind": "abc"})
    make(taker).read()
    assert taker.ids == list(range(8))
    assert len(taker.batches) > 2


def test_a_stopped_feed_resumes_after_its_last_file(make, tmp_path):
    taker = Taker()
    put(tmp_path / "in", "a.json", {"id": 1})
    feed = make(taker)
    feed.start()
    assert taker.committed.acquire(timeout=120)
    feed.stop()
    assert feed.status()["state"] == "stopped"
    put(tmp_path / "in", "b.json", {"id": 2})
    feed.start()
    assert taker.committed.acquire(timeout=120)
    assert taker.ids == [1, 2]


def test_an_old_file_added_late_is_ingested(make, tmp_path):
    taker = Taker()
    put(tmp_path / "in", "new.json", {"id": 1})
    feed = make(taker)
    feed.read()
    put(tmp_path / "in", ".old.json", {"id": 2})
    os.utime(tmp_path / "in" / ".old.json", (1_000_000_000, 1_000_000_000))
    (tmp_path / "in" / ".old.json").rename(tmp_path / "in" / "old.json")
    feed.read()
    assert taker.ids == [1, 2]


def test_a_lost_checkpoint_never_repeats_a_batch_number(make, tmp_path, monkeypatch):
    taker = Taker()
    put(tmp_path / "in", "a.json", {"id": 1})
    feed = make(taker)
    feed.read()
    monkeypatch.setattr("tocsin.cluster.ingest.file_feed.time.time", lambda: 4_000_000_000.0)
    (tmp_path / "in" / "a.json").unlink()
    put(tmp_path / "in", "b.json", {"id": 2})
    make(taker, checkpoint="another").read()
    assert taker.ids == [1, 2]
    assert all(number < 2**63 for number in taker.batches)


def test_a_link_out_of_the_allowed_folders_is_not_followed(make, spark_runtime, tmp_path, monkeypatch):
    (tmp_path / "secret.json").write_text('{"id": 1}\n')
    allowed = msgspec.structs.replace(spark_runtime.config, load_paths=(str(tmp_path / "in"),))
    monkeypatch.setattr(spark_runtime, "config", allowed)
    taker = Taker()
    (tmp_path / "in").mkdir(exist_ok=True)
    (tmp_path / "in" / "link.json").symlink_to(tmp_path / "secret.json")
    feed = make(taker)
    assert "not in a folder that may be read" in failure(feed)
    with pytest.raises(UserError, match="not in a folder that may be read"):
        load_source(spark_runtime, str(tmp_path / "in"), "json", COLUMNS)
    assert taker.ids == []


CRASHING = """
import os, sys, json
from pathlib import Path
from tocsin.cluster.ingest.file_feed import FileFeed
from tocsin.cluster.model import Column
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.bulk_writer import split_rows
from tocsin.config import ClusterConfig

root, moment = Path(sys.argv[1]), sys.argv[2]
committed = root / "committed"
committed.mkdir(exist_ok=True)

def take(number, frame):
    taken, table = split_rows(frame.toArrow())
    if moment == "before":
        print("now", flush=True)
        sys.stdin.read()
    target = committed / str(number)
    print("batch", number, "skipped" if target.exists() else "taken", flush=True)
    if not target.exists():
        draft = root / "draft"
        draft.write_text(json.dumps(table["id"].to_pylist()))
        draft.rename(target)
    if moment == "after":
        print("now", flush=True)
        sys.stdin.read()
    return taken

runtime = SparkRuntime(ClusterConfig(
    home=str(root / "home"), master="local[2]", driver_memory="512m", brief=True, load_paths=(str(root / "in"),)
))
runtime.start()
feed = FileFeed(runtime, feed="f", columns=(Column("id", "int"),), options={"path": str(root / "in")},
                checkpoint=str(root / "checkpoint"), take=take)
feed.read()
runtime.stop()
print("done", flush=True)
"""


def test_a_kill_around_the_commit_neither_loses_nor_repeats_a_file(tmp_path):
    put(tmp_path / "in", "a.json", {"id": 1}, {"id": 2})
    child = start_child(CRASHING, str(tmp_path), "before")
    read_until(child.stdout, "^now")
    _kill(child)
    child = start_child(CRASHING, str(tmp_path), "after")
    number, did = read_until(child.stdout, r"^batch (\d+) (\w+)").groups()
    assert did == "taken"
    read_until(child.stdout, "^now")
    _kill(child)
    put(tmp_path / "in", "b.json", {"id": 3})
    child = start_child(CRASHING, str(tmp_path), "never")
    assert read_until(child.stdout, r"^batch (\d+) (\w+)").groups() == (number, "skipped")
    assert read_until(child.stdout, r"^batch \d+ (\w+)")[1] == "taken"
    read_until(child.stdout, "^done")
    child.wait()
    rows = [row for path in (tmp_path / "committed").iterdir() for row in json.loads(path.read_text())]
    assert sorted(rows) == [1, 2, 3]


def _kill(child):
    child.send_signal(signal.SIGKILL)
    child.wait()


# --- what may be read


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "needs a path"),
        ({"path": ""}, "needs a path"),
        ({"path": 7}, "needs a path"),
        ({"path": "x\0y"}, "NUL character"),
        ({"path": "x", "format": "orc"}, "unknown format"),
        ({"path": "x", "format": 1}, "unknown format"),
        ({"path": "x", "formt": "json"}, "unknown option 'formt'"),
        ({"path": "x", "options": [1]}, "must be an object"),
        ({"path": "x", "options": {"mode": "DROPMALFORMED"}}, "'mode' is not allowed"),
        ({"path": "x", "options": {"cleanSource": "delete"}}, "'cleanSource' is not allowed"),
        ({"path": "x", "options": {"header": "true"}}, "'header' is not allowed for json"),
        ({"path": "x", "options": {"path": "/etc"}}, "'path' is not allowed"),
        ({"path": "x", "options": {"multiLine": None}}, "must be a string"),
        ({"path": "x", "options": {"lineSep": ["a"]}}, "must be a string"),
        ({"path": "s3a://bucket/../other"}, "must not contain"),
        ({"path": "s3a://bucket/{a,b}"}, "must not contain"),
        ({"path": "file://elsewhere/x"}, "another machine"),
    ],
)
def test_a_wrong_file_source_is_refused(options, message):
    with pytest.raises(UserError, match=message):
        file_source(options, ANYWHERE)


def test_reader_options_are_spelled_as_spark_does():
    assert file_source(
        {"path": "x", "format": "CSV", "options": {"HEADER": True, "maxcolumns": 5}}, ANYWHERE
    ).options == {
        "header": "true",
        "maxColumns": "5",
    }


@pytest.mark.parametrize(
    "path",
    [
        "{root}/other/x",
        "{root}/in/../other/x",
        "{root}/in/link/x",
        "{root}/inner",
        "file:{root}/other",
        "s3a://b/x",
        "/",
    ],
)
def test_a_path_outside_of_the_allowed_folders_is_refused(tmp_path, path):
    (tmp_path / "in").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "in" / "link").symlink_to(tmp_path / "other")
    with pytest.raises(UserError, match="not in a folder that may be read"):
        check_path(path.format(root=tmp_path), ClusterConfig(load_paths=(str(tmp_path / "in"), "hdfs://name/data")))


@pytest.mark.parametrize(
    "path", ["{root}/in", "{root}/in/a/b.json", "file://{root}/in/x", "{root}/way/x", "hdfs://name/data/x"]
)
def test_a_path_inside_the_allowed_folders_is_resolved(tmp_path, path):
    (tmp_path / "in").mkdir()
    (tmp_path / "way").symlink_to(tmp_path / "in")
    checked = check_path(
        path.format(root=tmp_path), ClusterConfig(load_paths=(str(tmp_path / "in"), "hdfs://name/data"))
    )
    assert checked.startswith((str(tmp_path.resolve() / "in"), "hdfs://name/data/"))


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("data/x.json", True),
        ("{root}/data", True),
        ("./data/../data/x.json", True),
        ("file:{root}/data/x.json", True),
        ("../other/x.json", False),
        ("data/../../other", False),
        ("/etc/passwd", False),
        ("file:///etc/passwd", False),
        ("~/x.json", False),
        ("link/x.json", False),
        (".ssh/id_rsa", False),
        ("data/.env", False),
        ("tocsin-broker/users.db", False),
        ("up/cluster/catalog.db", False),
        ("up/coordinator/coordinator.db", False),
        ("/", False),
        ("ftp://127.0.0.1/x", False),
        ("hdfs://name/x", False),
        ("s3a://bucket/x", False),
        ("http://127.0.0.1/x", False),
        ("made-up:x", False),
        ("jar:file:///etc/passwd", False),
    ],
)
def test_by_default_only_the_folder_of_the_project_may_be_read(tmp_path, monkeypatch, path, allowed):
    project = tmp_path / "project"
    (project / "data").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (project / "link").symlink_to(tmp_path / "other")
    monkeypatch.chdir(project)
    config = ClusterConfig(home="up/cluster")
    try:
        assert check_path(path.format(root=project), config).startswith(str(project / "data"))
    except UserError as error:
        assert not allowed, error
        assert error.status == 400
    else:
        assert allowed


def test_by_default_nothing_may_be_read_where_the_working_folder_is_the_root_or_the_home(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    with pytest.raises(UserError, match="not in a folder that may be read"):
        check_path("/usr/share", ClusterConfig(home=str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match="not in a folder that may be read"):
        check_path("x.json", ClusterConfig(home="."))
