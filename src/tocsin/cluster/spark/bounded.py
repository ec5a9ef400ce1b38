"""Collects the rows of a query only if they are few, decided by the tasks before the rows reach the driver.

Each task sends at most its share of the bound, and shows where it stopped. This costs no further stage, unlike LIMIT,
and keeps the order of the rows. If a task has stopped, the caller lets the executors write all of the query.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType, VariantType

from tocsin.cluster.records.type_ddl import quoted

#: A task may send this many rows in any case, so that a query whose rows are in a few tasks is collected too.
LEAST_SHARE = 10_000

_PLACE = "_tocsin_place"
_WIDE = "a row is too wide for the driver"
#: What Spark says when the rows of many tasks together are too large for the driver.
_FULL = "maxResultSize"
#: The place of a row in its partition is the lower half of Spark's id.
_LOWER = (1 << 33) - 1


def bounded(frame: DataFrame, rows: int, tasks: int, row_bytes: int | None = None) -> pa.Table | None:
    """The rows of a query that runs in about so many ``tasks``; None if they are more than ``rows``, if one is
    larger than ``row_bytes``, or if they have more bytes than Spark lets the driver take."""
    share = max(rows // tasks, min(rows, LEAST_SHARE), 1)
    placed = frame.selectExpr("*", f"monotonically_increasing_id() & {_LOWER} AS {_PLACE}").where(
        f"{_PLACE} <= {share}"
    )
    wide = None if row_bytes is None else _wide(frame, row_bytes)
    if wide is not None:
        # A task that has a wide row ends, and so does the query.
        placed = placed.where(f.when(wide, f.raise_error(f.lit(_WIDE)).cast("boolean")).otherwise(f.lit(True)))
    try:
        table = placed.toArrow()
    except (PySparkException, Py4JJavaError) as error:
        if _WIDE in str(error) or _FULL in str(error):
            return None
        raise
    if table.num_rows > rows or (pc.max(table.column(_PLACE)).as_py() or 0) >= share:
        return None
    return table.drop_columns([_PLACE])


def _wide(frame: DataFrame, row_bytes: int) -> Column | None:
    """Whether a row is too large; None if no column can be."""
    sizes = []
    for field in frame.schema.fields:
        column = f.col(quoted(field.name))
        if isinstance(field.dataType, StringType | BinaryType):
            sizes.append(f.octet_length(column))
        elif _varies(field.dataType):
            sizes.append(f.length(f.to_json(f.struct(column))))
    total = f.lit(0)
    for size in sizes:
        total = total + f.coalesce(size, f.lit(0))
    return total > row_bytes if sizes else None


def _varies(kind: DataType) -> bool:
    if isinstance(kind, StructType):
        return any(_varies(field.dataType) for field in kind.fields)
    return isinstance(kind, StringType | BinaryType | ArrayType | MapType | VariantType)
