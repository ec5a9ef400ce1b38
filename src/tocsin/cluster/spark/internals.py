"""Calls of Spark's private API in which queries save time, with the public calls that replace them.

The setting ``private_api`` switches between them. The private API of queries is here, in ``plan_inspector`` and in
``plan_cache``; starting and watching the JVM (``session``) needs PySpark's gateway in any case.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from tocsin.cluster.records import type_ddl
from tocsin.cluster.spark.plan_text import explain
from tocsin.errors import QueryFailed

#: Rows in one batch of a table sent to Spark.
_BATCH = 10_000
#: What EXPLAIN answers if Spark cannot plan the query.
_UNPLANNED = "Error occurred during query planning"


def from_arrow(session: SparkSession, table: pa.Table, *, private_api: bool) -> DataFrame:
    """A DataFrame whose rows are part of the plan (LocalRelation), so that reading it needs no job."""
    untimed = "timestamp[us]" in str(table.schema)
    context: Any = session.sparkContext
    if not private_api or untimed or context._encryption_enabled:
        # Spark would add a zone to a timestamp without one.
        schema = type_ddl.ddl(type_ddl.columns_of(table.schema)) if untimed else None
        return session.createDataFrame(table.combine_chunks(), schema=schema)
    # The same as createDataFrame without a dozen calls to the JVM: half the time for a small table.
    with tempfile.NamedTemporaryFile(dir=context._temp_dir) as file:
        with pa.ipc.new_stream(file, table.schema) as writer:
            # Spark treats an empty chunk as the end of the table.
            writer.write_table(table.combine_chunks(), max_chunksize=_BATCH)
        file.flush()
        utilities = context._jvm.PythonSQLUtils
        batches = utilities.readArrowStreamFromFile(file.name)
        frame = utilities.toDataFrame(batches, _schema_json(table.schema), session._jsparkSession)
    return DataFrame(frame, session)


@lru_cache(256)
def _schema_json(schema: pa.Schema) -> str:
    return str(from_arrow_schema(schema).json())


def drop_view(session: SparkSession, name: str, *, private_api: bool) -> None:
    """Drop a temporary view. The private call does not search the cache, where views never are."""
    if private_api:
        session._jsparkSession.sessionState().catalog().dropTempView(name)
    else:
        session.catalog.dropTempView(name)


def clear_job_group(context: SparkContext, *, private_api: bool) -> None:
    if private_api:
        context._jsc.clearJobGroup()
        return
    for name in ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel"):
        context.setLocalProperty(name, None)


def plan(frame: DataFrame, *, private_api: bool) -> None:
    """Let Spark plan a query without running it; raises if it cannot."""
    if private_api:
        frame._jdf.queryExecution().executedPlan()
        return
    text = explain(frame)
    if text.startswith(_UNPLANNED):
        raise QueryFailed(text.removeprefix(_UNPLANNED).lstrip(": \n"))
