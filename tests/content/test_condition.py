"""A condition means what Spark SQL means by it, nulls included."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from content_strategies import COLUMNS, conditions, publications
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tocsin.cluster.query.geo import geodesy
from tocsin.cluster.query.spark_dialect import parse, to_sql
from tocsin.cluster.records.type_ddl import arrow_schema, coerce


def selected(spark: SparkSession, texts: Sequence[str], rows: Sequence[dict[str, object]]) -> list[list[bool]]:
    """For each row whether Spark selects it, by condition; in one query."""
    columns = {column.name: [coerce(row.get(column.name), column.type) for row in rows] for column in COLUMNS}
    table = pa.table(
        {"n": list(range(len(rows))), **columns}, pa.schema([pa.field("n", pa.int64()), *arrow_schema(COLUMNS)])
    )
    spark.createDataFrame(table).createOrReplaceTempView("content_rows")
    flags = ", ".join(f"coalesce({text}, false)" for text in texts)
    query = geodesy.expand(parse(f"SELECT array({flags}) FROM content_rows ORDER BY n"))
    return [row[0] for row in spark.sql(to_sql(query)).collect()]


# Each example is one Spark query of many conditions on many rows.
@settings(max_examples=4, suppress_health_check=[HealthCheck.data_too_large, HealthCheck.large_base_example])
@given(
    st.lists(conditions(), min_size=60, max_size=60),
    st.lists(publications(), min_size=40, max_size=40),
)
def test_a_condition_selects_the_rows_that_spark_selects(spark, several, rows):
    theirs = selected(spark, [condition.to_sql() for condition in several], rows)
    for row, flags in zip(rows, theirs, strict=True):
        for condition, flag in zip(several, flags, strict=True):
            assert condition.matches(row) == flag, (condition, row)
