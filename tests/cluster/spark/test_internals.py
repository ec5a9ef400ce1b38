"""Spark's private API and the public calls that replace it do the same."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import tocsin.cluster
from tocsin.cluster.spark import internals
from tocsin.cluster.spark.plan_cache import PlanCache
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.errors import QueryFailed

PRIVATE = re.compile(r"\b(_jdf|_jvm|_jsc|_gateway|_jsparkSession|_jcontext|queryExecution)\b")
BOTH = pytest.mark.parametrize("private_api", [True, False])


def test_private_api_is_used_in_one_folder_only() -> None:
    root = Path(tocsin.cluster.__file__).parent
    used = {path.relative_to(root).parts[0] for path in root.rglob("*.py") if PRIVATE.search(path.read_text())}
    assert used == {"spark"}


@BOTH
@pytest.mark.parametrize(
    "table",
    [
        pa.table({"a": [1, None], "b": ["x", ""], "c": [[1.5], []]}),
        pa.table({"at": pa.array([datetime(2026, 1, 2, 3, tzinfo=UTC)], pa.timestamp("us", "UTC"))}),
        pa.table({"at": pa.array([datetime(2026, 1, 2, 3)], pa.timestamp("us"))}),
        pa.schema([("a", pa.int64()), ("b", pa.string())]).empty_table(),
    ],
    ids=["nested", "instant", "wall clock", "empty"],
)
def test_a_table_becomes_a_frame_that_needs_no_job(spark: SparkSession, table: pa.Table, private_api: bool) -> None:
    frame = internals.from_arrow(spark, table, private_api=private_api)
    assert frame.toArrow().to_pydict() == table.to_pydict()
    assert [field.type for field in frame.toArrow().schema] == [field.type for field in table.schema]


@BOTH
def test_a_view_is_dropped_and_a_missing_one_is_no_error(spark: SparkSession, private_api: bool) -> None:
    spark.range(1).createOrReplaceTempView("gone")
    for _ in range(2):
        internals.drop_view(spark, "gone", private_api=private_api)
    with pytest.raises(PySparkException, match="gone"):
        spark.table("gone")


@BOTH
def test_a_query_is_planned_without_running_it(spark: SparkSession, private_api: bool) -> None:
    internals.plan(spark.sql("SELECT assert_true(id < 0) FROM range(3)"), private_api=private_api)


@BOTH
def test_what_spark_cannot_plan_is_an_error(spark: SparkSession, private_api: bool) -> None:
    spark.conf.set("spark.sql.crossJoin.enabled", "false")
    try:
        with pytest.raises((PySparkException, QueryFailed), match=r"(?i)cartesian"):
            internals.plan(spark.range(2).join(spark.range(2).toDF("b")), private_api=private_api)
    finally:
        spark.conf.unset("spark.sql.crossJoin.enabled")


@BOTH
def test_the_job_group_ends(spark: SparkSession, private_api: bool) -> None:
    context = spark.sparkContext
    context.setJobGroup("g", "text", interruptOnCancel=True)
    internals.clear_job_group(context, private_api=private_api)
    assert [context.getLocalProperty(f"spark.{name}") for name in ("jobGroup.id", "job.description")] == [None, None]


def test_without_the_private_api_every_query_is_analysed(
    spark_runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_runtime, "private_api", False)
    plans, analysed = PlanCache(spark_runtime), 0
    source = spark_runtime.from_arrow(pa.table({"a": [1]}))
    for _ in range(2):

        def analyse() -> object:
            nonlocal analysed
            analysed += 1
            return source

        assert plans.frame("SELECT * FROM s", {"s": source}, analyse) is source  # type: ignore[arg-type]
    assert analysed == 2
