from __future__ import annotations

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tocsin.cluster.spark.bounded import LEAST_SHARE, bounded


def test_few_rows_are_collected_in_their_order(spark: SparkSession) -> None:
    frame = spark.sql("SELECT id, string(id) AS text FROM range(1000) ORDER BY id DESC")
    table = bounded(frame, 1000, 2, 10)
    assert table is not None
    assert table.to_pydict() == {"id": list(range(999, -1, -1)), "text": [str(n) for n in range(999, -1, -1)]}


@pytest.mark.parametrize(("rows", "collected"), [(0, True), (5, True), (6, False), (200, False)])
def test_no_more_rows_than_the_bound_are_collected(spark: SparkSession, rows: int, collected: bool) -> None:
    assert (bounded(spark.range(rows), 5, 2) is not None) == collected


def test_each_task_sends_at_most_its_share(spark: SparkSession) -> None:
    """Otherwise one task could send everything before the driver counts."""
    frame = spark.range(0, 3 * LEAST_SHARE, 1, 1)
    assert bounded(frame, 4 * LEAST_SHARE, 2) is None
    assert bounded(frame, 4 * LEAST_SHARE, 1) is not None


@pytest.mark.parametrize(
    "column",
    ["repeat('x', 200)", "binary(repeat('x', 200))", "sequence(1, 200)", "map('a', repeat('x', 200))",
     "named_struct('a', repeat('x', 200))"],
)  # fmt: skip
def test_a_wide_row_is_not_sent(spark: SparkSession, column: str) -> None:
    frame = spark.sql(f"SELECT id, {column} AS b FROM range(3)")
    assert bounded(frame, 10, 2, 100) is None
    assert bounded(frame, 10, 2, 10_000) is not None


class FailingFrame:
    """A query that fails when its rows are collected."""

    def __init__(self, text: str) -> None:
        self.text = text

    def selectExpr(self, *columns: str) -> FailingFrame:
        return self

    def where(self, condition: str) -> FailingFrame:
        return self

    def toArrow(self) -> None:
        raise PySparkException(self.text)


def test_more_than_the_driver_may_take_is_not_collected() -> None:
    text = "Total size of serialized results of 9 tasks (1 GiB) is bigger than spark.driver.maxResultSize (1 GiB)."
    assert bounded(FailingFrame(text), 10, 2) is None  # type: ignore[arg-type]
    with pytest.raises(PySparkException, match="no space left"):
        bounded(FailingFrame("no space left"), 10, 2)  # type: ignore[arg-type]
