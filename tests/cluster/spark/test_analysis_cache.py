"""A query that Spark accepted before is accepted again without Spark, and no other query is."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_harness import ManualCluster, running_cluster

from tocsin.cluster.context import ClusterContext
from tocsin.cluster.execute import script
from tocsin.cluster.model import Column, Function, Parameter
from tocsin.cluster.query.compiler import compile_query
from tocsin.cluster.query.relations import Relation
from tocsin.cluster.spark.analysis_cache import MOST_BYTES, AnalysisCache
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.catalog import open_catalog
from tocsin.config import ClusterConfig
from tocsin.errors import NotReady, QueryFailed

COLUMNS = (Column("n", "bigint"), Column("kind", "string", False))
SCRIPT = """
CREATE ACTIVE DATASET Alarms (n bigint NOT NULL, kind string);
CREATE FEED AlarmFeed; CONNECT FEED AlarmFeed TO DATASET Alarms; START FEED AlarmFeed;
CREATE FUNCTION of_kind(kind string) { SELECT a.n FROM Alarms a WHERE is_new(a) AND a.kind = kind };
CREATE REPETITIVE CHANNEL OfKind USING of_kind@1 PERIOD duration("PT1H");
CREATE PROCEDURE count_them() { SELECT count(*) AS found FROM Alarms a };
"""


# -- the file ---------------------------------------------------------------------------------------------------------


def test_a_stored_analysis_is_found_by_later_processes(tmp_path: Path) -> None:
    first = AnalysisCache({}, tmp_path)
    assert first.find(b"SELECT 1") is None
    first.store(b"SELECT 1", COLUMNS)
    first.store(b"SELECT 2", ())
    for each in (first, AnalysisCache({}, tmp_path)):
        assert each.find(b"SELECT 1") == COLUMNS
        assert each.find(b"SELECT 2") == ()
        assert each.find(b"SELECT 3") is None


def test_other_settings_of_spark_have_their_own_file(tmp_path: Path) -> None:
    AnalysisCache({"spark.sql.ansi.enabled": "true"}, tmp_path).store(b"SELECT 1", COLUMNS)
    assert AnalysisCache({"spark.sql.ansi.enabled": "false"}, tmp_path).find(b"SELECT 1") is None


def test_a_query_that_was_checked_in_another_way_is_checked_again(tmp_path: Path) -> None:
    paths = []
    for private_api in (True, False):
        config = ClusterConfig(home=str(tmp_path / str(private_api)), private_api=private_api)
        catalog = open_catalog("", config.home)
        paths.append(ClusterContext(config, catalog, SparkRuntime(config)).analysis_cache.path)
        catalog.close()
    assert paths[0] != paths[1]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe\x00",
        b"[1, 2]",
        b'["a"]',
        b'["a", [["n"]]]',
        b'["a", "b"]',
        b'["00", [{"na',
    ],
)
def test_damaged_lines_are_ignored(tmp_path: Path, line: bytes) -> None:
    cache = AnalysisCache({}, tmp_path)
    cache.store(b"before", COLUMNS)
    with cache.path.open("ab") as file:
        file.write(line)
    AnalysisCache({}, tmp_path).store(b"after", COLUMNS)
    found = AnalysisCache({}, tmp_path)
    assert found.find(b"before") == found.find(b"after") == COLUMNS
    assert found.find(b"a") is None


def test_without_a_writable_folder_the_cache_lasts_for_the_process(tmp_path: Path) -> None:
    cache = AnalysisCache({}, tmp_path / "nowhere")
    cache.store(b"SELECT 1", COLUMNS)
    assert cache.find(b"SELECT 1") == COLUMNS
    assert AnalysisCache({}, tmp_path / "nowhere").find(b"SELECT 1") is None


def test_a_file_that_is_too_large_is_emptied(tmp_path: Path) -> None:
    cache = AnalysisCache({}, tmp_path)
    cache.store(b"old", COLUMNS)
    with cache.path.open("ab") as file:
        file.write(b" " * MOST_BYTES)
    cache.store(b"new", COLUMNS)
    assert cache.path.stat().st_size < 1_000
    found = AnalysisCache({}, tmp_path)
    assert (found.find(b"old"), found.find(b"new")) == (None, COLUMNS)


def test_files_of_other_versions_are_deleted_after_a_month(tmp_path: Path) -> None:
    old, recent, ours = (AnalysisCache({"version": each}, tmp_path) for each in ("old", "recent", "ours"))
    for each in (old, recent, ours):
        each.store(b"SELECT 1", COLUMNS)
    for each in (old, ours):
        os.utime(each.path, (time.time() - 31 * 86_400,) * 2)
    assert AnalysisCache({"version": "ours"}, tmp_path).find(b"SELECT 1") == COLUMNS
    assert [each.path.exists() for each in (old, recent, ours)] == [False, True, True]


def test_many_processes_can_write_at_once(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tocsin.cluster.spark.analysis_cache import AnalysisCache; "
        "from tocsin.cluster.model import Column; v = AnalysisCache({}, Path(sys.argv[1])); "
        "[v.store(f'{sys.argv[2]} {n}'.encode(), (Column('c' * n, 'bigint'),)) for n in range(1, 200)]"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(each)]) for each in range(3)]
    assert [each.wait() for each in running] == [0, 0, 0]
    found = AnalysisCache({}, tmp_path)
    for each in range(3):
        for n in range(1, 200):
            assert found.find(f"{each} {n}".encode()) == (Column("c" * n, "bigint"),)


# -- what is the same query -------------------------------------------------------------------------------------------


class Known:
    """One dataset."""

    def __init__(self, *columns: Column) -> None:
        self.alarms = Relation("dataset", "Alarms", columns, True, ())

    def relation(self, name: str) -> Relation | None:
        return self.alarms if name.lower() == "alarms" else None

    def function(self, name: str, arity: int) -> Function | None:
        return None

    def known(self) -> list[str]:
        return ["Alarms"]


N = Column("n", "bigint", False)


def words(
    text: str = "SELECT a.n FROM Alarms a WHERE is_new(a) AND a.n > least",
    columns: tuple[Column, ...] = (N,),
    kind: str = "bigint",
    channel: bool = True,
) -> bytes:
    return compile_query(text, Known(*columns), [Parameter("least", kind)], channel=True).words(channel=channel)


def test_the_same_text_over_the_same_columns_is_the_same_query() -> None:
    assert words() == words()
    assert words(channel=False) == words(channel=False)


@pytest.mark.parametrize(
    "other",
    [
        words("SELECT a.n FROM Alarms a WHERE is_new(a) AND a.n >= least"),
        words("SELECT a.n FROM Alarms a WHERE a.n > least"),
        words(columns=(Column("n", "int", False),)),
        words(columns=(Column("n", "bigint", True),)),
        words(columns=(N, Column("more", "string"))),
        words(kind="int"),
        words(channel=False),
    ],
)
def test_a_query_that_spark_can_distinguish_is_another_query(other: bytes) -> None:
    assert other != words()


# -- definitions ------------------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a data cluster of this test keeps its analysis cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "tocsin"


@pytest.fixture
def checked(cache: Path, tmp_path: Path, spark_runtime: SparkRuntime) -> Path:
    """The script was run before, with Spark."""
    with running_cluster(tmp_path / "first", spark_runtime) as made:
        made.execute(SCRIPT)
    return cache


@pytest.fixture
def without_spark(tmp_path: Path, spark_runtime: SparkRuntime) -> Iterator[ManualCluster]:
    """Spark will come up, but not yet."""
    made = ManualCluster(ClusterConfig(home=str(tmp_path / "second"), master=spark_runtime.config.master, port=0))
    made.start(spark=False)
    yield made
    made.close()


def test_an_application_that_was_created_before_needs_no_spark(checked: Path, without_spark: ManualCluster) -> None:
    outcomes = without_spark.execute(SCRIPT)
    assert [each.kind for each in outcomes][-3:] == ["create_function", "create_channel", "create_procedure"]
    assert without_spark.runner("OfKind").channel.columns == (Column("n", "bigint"),)
    assert without_spark.status()["spark"] == "stopped"


def test_a_channel_created_without_spark_delivers_results(
    checked: Path, tmp_path: Path, spark_runtime: SparkRuntime
) -> None:
    with running_cluster(tmp_path / "second", spark_runtime) as made:
        made.execute(SCRIPT)
        made.register_broker("b", "http://127.0.0.1:9")
        number = made.subscribed("OfKind", "fire")
        made.post("AlarmFeed", {"n": 1, "kind": "fire"}, {"n": 2, "kind": "flood"})
        assert made.run_channel("OfKind").outcome == "ok"
        assert made.results_of("OfKind", number) == [[{"n": 1}]]
        assert made.execute("EXECUTE count_them()")[0].table.to_pylist() == [{"found": 2}]


def test_a_new_query_waits_for_spark_without_delaying_other_statements(
    checked: Path, without_spark: ManualCluster, spark_runtime: SparkRuntime
) -> None:
    without_spark.execute(SCRIPT)
    outcomes: list[str] = []
    new = "CREATE FUNCTION above(least bigint) { SELECT a.n FROM Alarms a WHERE is_new(a) AND a.n > least }"
    thread = threading.Thread(target=lambda: outcomes.extend(each.kind for each in without_spark.execute(new)))
    thread.start()
    without_spark.register_broker("b", "http://127.0.0.1:9")
    without_spark.execute("CREATE DATASET Others (n bigint)")
    assert not outcomes
    own, without_spark.context.runtime = without_spark.context.runtime, spark_runtime
    without_spark._up.set()
    thread.join()
    without_spark.context.runtime = own  # the cluster ends its own, not the one of all tests
    assert outcomes == ["create_function"]


def test_a_new_query_is_refused_if_spark_does_not_start(
    checked: Path, without_spark: ManualCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "SPARK_SECONDS", 0.01)
    without_spark.execute(SCRIPT)
    for new in (
        "CREATE FUNCTION other(kind string) { SELECT a.kind FROM Alarms a WHERE a.kind = kind }",
        "CREATE CONTINUOUS CHANNEL Other(least bigint) { SELECT a.n FROM Alarms a WHERE is_new(a) AND a.n > least }",
        "CREATE PROCEDURE other() { SELECT max(a.n) AS m FROM Alarms a }",
        "SELECT 1",
    ):
        with pytest.raises(NotReady):
            without_spark.execute(new)
    assert not [each for each in without_spark.context.definitions.known() if "Other" in each]


def test_a_query_that_spark_refused_is_refused_again(cache: Path, tmp_path: Path, spark_runtime: SparkRuntime) -> None:
    bad = "CREATE FUNCTION bad(kind string) { SELECT a.n + array(1) AS x FROM Alarms a WHERE is_new(a) }"
    for home in ("first", "second"):
        with running_cluster(tmp_path / home, spark_runtime) as made:
            made.execute(SCRIPT)
            kept = made.context.analysis_cache.path.read_bytes()
            with pytest.raises(QueryFailed):
                made.execute(bad)
            assert made.context.analysis_cache.path.read_bytes() == kept
