from __future__ import annotations

import datetime
import os
import re
import signal
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from sparkmaster import run_in_child, start_child
from tocsin.cluster.spark.session import SparkRuntime, _partitions, first_line
from tocsin.config import ClusterConfig
from tocsin.errors import NotReady, UserError

NESTED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("at", pa.timestamp("us", tz="UTC")),
        pa.field("tags", pa.list_(pa.string())),
        pa.field("place", pa.struct([("lat", pa.float64()), ("when", pa.timestamp("us", tz="UTC"))])),
        pa.field("day", pa.date32()),
        pa.field("raw", pa.binary()),
        pa.field("price", pa.decimal128(10, 2)),
        pa.field("more", pa.map_(pa.string(), pa.int32())),
    ]
)


def plan(df) -> str:
    return df._jdf.queryExecution().optimizedPlan().toString()


def test_arrow_rows_are_part_of_the_plan_and_come_back_equal(spark_runtime):
    moment = datetime.datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=datetime.UTC)
    rows = [
        {
            "id": 1, "at": moment, "tags": ["a", None], "place": {"lat": 1.5, "when": moment},
            "day": datetime.date(2026, 3, 29), "raw": b"\0x", "price": 7, "more": [("k", 1)],
        },
        dict.fromkeys(NESTED.names) | {"id": 2},
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, NESTED)
    df = spark_runtime.from_arrow(table)
    assert plan(df).startswith("LocalRelation")
    assert spark_runtime.to_arrow(df).to_pylist() == table.to_pylist()


def test_an_empty_table_keeps_its_columns(spark_runtime):
    df = spark_runtime.from_arrow(NESTED.empty_table())
    assert plan(df).startswith("LocalRelation")
    back = spark_runtime.to_arrow(df)
    assert back.num_rows == 0
    assert back.schema.names == NESTED.names
    assert back.schema.field("at").type == pa.timestamp("us", tz="UTC")


def test_a_table_of_many_batches_is_still_a_local_relation(spark_runtime):
    table = pa.table({"id": range(50_000)})
    df = spark_runtime.from_arrow(table)
    assert plan(df).startswith("LocalRelation")
    assert spark_runtime.to_arrow(df)["id"].to_pylist() == list(range(50_000))


def test_jobs_of_a_pool_carry_its_name_and_only_inside_it(spark_runtime, spark):
    context = spark.sparkContext
    with spark_runtime.pool("quick") as group:
        assert context.getLocalProperty("spark.scheduler.pool") == "quick"
        assert context.getLocalProperty("spark.jobGroup.id") == group
        spark.sql("select 1").collect()
    assert context.getLocalProperty("spark.scheduler.pool") is None
    assert context.getLocalProperty("spark.jobGroup.id") is None
    assert context._jsc.sc().getPoolForName("quick").isDefined()


def test_every_use_of_a_pool_is_a_group_of_its_own(spark_runtime):
    with spark_runtime.pool("p") as one:
        pass
    with spark_runtime.pool("p") as two:
        pass
    assert one != two


def test_a_cancelled_group_fails_and_others_continue(spark_runtime, spark):
    group: list[str] = []
    failed: list[Exception] = []
    entered = threading.Event()

    def work() -> None:
        with spark_runtime.pool("long") as name:
            group.append(name)
            entered.set()
            try:
                spark.sql("select count(*) from range(1e12) where id * rand() < -1").collect()
            except (PySparkException, Py4JError) as error:
                failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert entered.wait(120)
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getJobIdsForGroup(group[0]):
        assert thread.is_alive()
    spark_runtime.cancel(group[0])
    thread.join(120)
    assert not thread.is_alive()
    assert "cancelled" in first_line(failed[0])
    assert spark.sql("select 1").collect()[0][0] == 1


def test_the_session_has_the_required_settings(spark):
    settings = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalogImplementation": "in-memory",
    }
    assert {name: spark.conf.get(name) for name in settings} == settings
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.getConf().get("spark.scheduler.mode") == "FAIR"


def test_spark_does_not_handle_ctrl_c(spark_runtime):
    # Python's own, or none where the tests run in the background of a shell; PySpark's would end the JVM's jobs.
    assert signal.getsignal(signal.SIGINT) in (signal.default_int_handler, signal.SIG_IGN)


def test_one_process_has_one_session(spark_runtime, config):
    with pytest.raises(UserError, match="already"):
        SparkRuntime(config).start()
    assert spark_runtime.alive()


def test_stopping_a_runtime_that_never_started_keeps_the_running_one(spark_runtime, config):
    SparkRuntime(config).stop()
    assert spark_runtime.alive()
    assert spark_runtime.session.sql("select 1").collect()[0][0] == 1


def test_before_the_start_there_is_no_session(config):
    runtime = SparkRuntime(config)
    assert not runtime.alive()
    assert runtime.state == "stopped"
    with pytest.raises(NotReady, match="not started"):
        _ = runtime.session
    runtime.stop()


@pytest.mark.parametrize(
    ("master", "partitions"),
    [
        ("local", 2),
        ("local[1]", 2),
        ("local[2]", 2),
        ("local[8]", 8),
        ("local[4,2]", 4),
        ("local-cluster[2,1,1024]", 4),
    ],
)
def test_shuffle_partitions_follow_the_cores(master, partitions):
    assert _partitions(master) == partitions


def test_a_remote_master_has_its_own_shuffle_partitions(monkeypatch):
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert _partitions("spark://host:7077") == 6
    assert _partitions("local[*]") == 3


START = """
import os, sys, signal, threading
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.config import ClusterConfig
from sparkmaster import SHORT_LIVED
settings = ClusterConfig(home=sys.argv[1], master=sys.argv[2], driver_memory="512m", **SHORT_LIVED)
runtime = SparkRuntime(settings, extra={"spark.driver.host": "127.0.0.1"})
"""

RESTART = """
import pyarrow as pa
runtime.start()
runtime.from_arrow(pa.table({"a": [1]})).createOrReplaceTempView("v")
assert runtime.session.sql("select * from v").count() == 1
first = runtime.pid

# The JVM is killed in the middle of a query: the query fails, the runtime notices, and a new one works.
failed = threading.Event()
def query():
    try:
        runtime.session.sql("select count(*) from range(1e12) where id * rand() < -1").collect()
    except Exception:
        failed.set()
thread = threading.Thread(target=query)
thread.start()
while not runtime.session.sparkContext.statusTracker().getActiveJobsIds():
    pass
os.kill(runtime.pid, signal.SIGKILL)
thread.join()
assert failed.is_set()
while runtime.alive():
    pass
assert runtime.state == "dead" and "JVM" in runtime.reason, (runtime.state, runtime.reason)
for _ in range(2):
    runtime.restart()
    assert runtime.alive() and runtime.state == "up" and runtime.pid != first
    with runtime.pool("p"):
        assert runtime.session.sql("select sum(id) from range(10)").collect()[0][0] == 45
    assert runtime.to_arrow(runtime.from_arrow(pa.table({"a": [1]}))).to_pylist() == [{"a": 1}]

# A context that stopped by itself is dead, too.
runtime.session.sparkContext._jsc.sc().stop()
assert not runtime.alive() and runtime.state == "dead"
pid = runtime.pid
runtime.stop()
assert not os.path.exists(f"/proc/{pid}") and runtime.state == "stopped"
print("done")
"""


@pytest.mark.slow
def test_a_killed_jvm_is_noticed_and_replaced_in_the_same_process(tmp_path):
    assert run_in_child(START + RESTART, str(tmp_path), "local[2]").splitlines() == ["done"]


def ended(pid: int) -> bool:
    """A zombie process, which its parent has not waited for, counts as ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_spark_prints_nothing_its_errors_go_to_the_log_and_its_jvm_dies_with_a_killed_python(tmp_path):
    script = START + (
        "runtime.start()\n"
        "try:\n    runtime.session.sql(\"select raise_error('on purpose')\").collect()\n"
        "except Exception:\n    pass\n"
        "print('jvm', runtime.pid, flush=True)\nsys.stdin.read()"
    )
    child = start_child(script, str(tmp_path), "local[2]")
    first = child.stdout.readline()
    assert re.fullmatch(r"jvm \d+\n", first), first
    pid = int(first.split()[1])
    log = (tmp_path / "logs" / "spark.log").read_text()
    assert "on purpose" in log and " WARN " not in log
    assert not ended(pid)
    child.send_signal(signal.SIGKILL)
    child.wait()
    waiting = threading.Event()
    while not ended(pid):  # bounded by the timeout of the test
        waiting.wait(0.05)
    assert child.stdout.read() == ""


@pytest.mark.parametrize(
    ("setting", "value", "message"),
    [
        ("master", "nonsense://x", "Master must"),
        ("driver_memory", "lots", "memory|lots"),
        ("driver_memory", "1m", "(?i)heap|memory"),
    ],
)
def test_a_configuration_that_spark_refuses_is_an_error_that_says_why(tmp_path, setting, value, message):
    values = {"home": str(tmp_path), "master": "local[2]", "driver_memory": "512m"} | {setting: value}
    script = (
        "import sys, json\nfrom tocsin.cluster.spark.session import SparkRuntime\n"
        "from tocsin.config import ClusterConfig\n"
        "from tocsin.errors import UserError\n"
        f"runtime = SparkRuntime(ClusterConfig(**{values!r}))\n"
        "try:\n    runtime.start()\nexcept UserError as error:\n    print(error.message)\n"
        "assert runtime.state == 'dead', runtime.state\n"
    )
    out = run_in_child(script)
    assert out.startswith("Spark did not start: ")
    assert re.search(message, out), out


ANSWER = """
import pyarrow as pa
runtime.start()
runtime.from_arrow(pa.table({"k": [1, 2, 2]})).createOrReplaceTempView("v")
rows = runtime.session.sql("select k, count(*) n from v group by k order by k").toArrow().to_pylist()
assert rows == [{"k": 1, "n": 1}, {"k": 2, "n": 2}], rows
executors = runtime.session.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
print("processes", len(executors))
runtime.stop()
"""


# test_masters.py does it too, on a standalone master with all that channels need.
@pytest.mark.slow
def test_spark_runs_on_a_local_cluster(tmp_path):
    assert "processes 2" in run_in_child(START + ANSWER, str(tmp_path / "home"), "local-cluster[1,1,512]")
    assert (tmp_path / "home" / "spark-home" / "work").is_dir()


@pytest.mark.slow
def test_spark_runs_on_a_standalone_master(tmp_path, standalone_master):
    assert "processes 2" in run_in_child(START + ANSWER, str(tmp_path / "home"), standalone_master)


def test_the_configuration_overrides_default_settings(tmp_path):
    config = ClusterConfig(
        home=str(tmp_path), spark={"spark.sql.shuffle.partitions": "7", "spark.driver.extraJavaOptions": "-Dx=y"}
    )
    (tmp_path / "logs").mkdir()
    settings = SparkRuntime(config)._settings(tmp_path)
    assert settings["spark.sql.shuffle.partitions"] == "7"
    assert settings["spark.driver.extraJavaOptions"].endswith(" -Dx=y")
