"""Bulk writes: what Spark reads, executors write, and the catalog commits the files as one commit of the dataset.

Few rows take the fast path through the driver. Which way a write goes is decided before rows reach the driver: by the
size of the input where it is known, else by the tasks, which send no more than a share of the bound (``bounded``). What
executors wrote and turns out to be small is read back, so that small commits never become files for Spark.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from msgspec import Struct

from tocsin.cluster.model import Dataset
from tocsin.cluster.ops import kill_points
from tocsin.cluster.records import type_ddl
from tocsin.cluster.spark.bounded import bounded
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.cluster.storage.catalog import FeedBatch
from tocsin.cluster.storage.committer import CommitRequest, Committer
from tocsin.cluster.storage.dataset import DELETED, DatasetStore
from tocsin.cluster.storage.segments import SegmentStore, Written

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

#: The column with the reason why a row is refused; null in a row that fits.
REASON = "_tocsin_reason"
#: Reasons of one write that are shown.
REASONS = 10

#: Bytes of an ordinary row in the driver, and of one that is too wide for the fast path.
ROW_BYTES = 256
WIDE_BYTES = 4096

_REFUSED = "tocsin_refused"
_PLACE = "_tocsin_place"
_MUST = "must not be null"


class Taken(Struct, frozen=True):
    """How many rows were stored and refused, and the first reasons."""

    accepted: int
    refused: int = 0
    reasons: tuple[str, ...] = ()


class BulkFiles(Struct, frozen=True):
    """What executors wrote into a folder: part files of rows that fit, and what they refused."""

    folder: str
    parts: tuple[Written, ...]
    refused: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts)


class BulkWriter:
    def __init__(self, segments: SegmentStore, committer: Committer, runtime: SparkRuntime, bulk_bytes: int) -> None:
        self.segments = segments
        self.committer = committer
        self.runtime = runtime
        self.bulk_bytes = bulk_bytes

    @property
    def most_rows(self) -> int:
        return self.bulk_bytes // ROW_BYTES

    def collect(self, frame: DataFrame) -> pa.Table | None:
        """The rows of a query if they are few, else None."""
        return bounded(frame, self.most_rows, self.runtime.tasks, WIDE_BYTES)

    def write(self, store: DatasetStore, frame: DataFrame) -> BulkFiles:
        """Let executors write the columns of a log segment; with a column REASON, rows that have one are refused."""
        from pyspark.sql import functions as f

        folder = self.segments.name(f"datasets/{store.dataset.id}")
        writer = frame.write
        if REASON in frame.columns:
            writer = frame.withColumn(_REFUSED, f.col(REASON).isNotNull()).write.partitionBy(_REFUSED)
        try:
            writer.parquet(self.segments.uri(folder))
            written = self.segments.adopt(folder)
            parts = [part for part in written if part.rows]
            self.segments.delete([part.path for part in written if not part.rows])
        except BaseException:
            self.discard(folder)
            raise
        kill_points.hit("bulk.written")
        bad = [part for part in parts if part.path.startswith(f"{folder}/{_REFUSED}=true/")]
        good = tuple(part for part in parts if part not in bad)
        return BulkFiles(folder, good, sum(part.rows for part in bad), self._reasons(bad))

    def _reasons(self, parts: Sequence[Written]) -> tuple[str, ...]:
        reasons: list[str] = []
        for part in parts:
            with self.segments.open(part.path) as file, self.segments.reading(part.path):
                for batch in file.iter_batches(REASONS, columns=[REASON]):
                    reasons += batch.column(0).to_pylist()
                    if len(reasons) >= REASONS:
                        return tuple(reasons[:REASONS])
        return tuple(reasons)

    def commit(self, store: DatasetStore, files: BulkFiles, batch: FeedBatch | None = None) -> bool:
        """Commit the files, or their rows if they are few; return whether it was the files."""
        few = files.bytes <= self.bulk_bytes and files.rows <= self.most_rows
        request = CommitRequest(applied=lambda _: None, store=store, batch=batch)
        if few:
            try:
                if files.parts:
                    tables = [self.segments.read(part.path, store.log_schema.names) for part in files.parts]
                    request.table = pa.concat_tables([table.cast(store.log_schema) for table in tables])
                self.committer.submit(request).result()
                kill_points.hit("bulk.committed")
            finally:
                self.discard(files.folder)
            return False
        self.discard(f"{files.folder}/{_REFUSED}=true")
        request.files = files.parts
        # From here on only the committer knows whether the files may be deleted.
        self.committer.submit(request).result()
        kill_points.hit("bulk.committed")
        return True

    def append(self, store: DatasetStore, rows: pa.Table, batch: FeedBatch | None = None) -> None:
        """Commit rows in the columns of a log segment: the fast path."""
        request = CommitRequest(applied=lambda _: None, store=store, table=rows, batch=batch)
        self.committer.submit(request).result()

    def take(
        self,
        store: DatasetStore,
        frame: DataFrame,
        order: Sequence[str],
        *,
        small: bool | None = None,
        batch: FeedBatch | None = None,
    ) -> tuple[Taken, bool]:
        """Store the rows without a REASON, and whether their files were committed. ``small``: whether the input is,
        None if that is unknown. ``order``: columns that order rows with the same key, the last one counts."""
        if small is not False:
            table = frame.toArrow() if small else self.collect(frame)
            if table is not None:
                if order:  # a stable sort: rows of one task keep their order
                    table = table.sort_by([(name, "ascending") for name in order]).drop_columns(list(order))
                taken, rows = split_rows(table)
                self.append(store, store.as_log(store.completed(rows)), batch)
                return taken, False
        rows = completed(store.dataset, frame, (*order, REASON), strict=True)
        files = self.write(store, self.unique(store.dataset, rows, order))
        large = self.commit(store, files, batch)
        return Taken(files.rows, files.refused, files.reasons), large

    def unique(self, dataset: Dataset, frame: DataFrame, order: Sequence[str] = ()) -> DataFrame:
        """The last row of each key by these columns and by the place in the query, and all refused rows."""
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        if dataset.key:
            reason = [REASON] if REASON in frame.columns else []
            placed = frame.withColumn(_PLACE, f.monotonically_increasing_id())
            window = Window.partitionBy(*dataset.key, *reason).orderBy(*[f.desc(name) for name in (*order, _PLACE)])
            kept = f.col(_PLACE) == 1
            for name in reason:
                kept = kept | f.col(name).isNotNull()
            frame = placed.withColumn(_PLACE, f.row_number().over(window)).where(kept).drop(_PLACE)
        return frame.drop(*order)

    def discard(self, path: str) -> None:
        self.segments.delete([path])


def split_rows(table: pa.Table) -> tuple[Taken, pa.Table]:
    """The rows without a reason, without that column; and what was refused."""
    reasons = table.column(REASON)
    fits = reasons.is_null()
    good = table.filter(fits).drop_columns([REASON])
    refused = table.num_rows - good.num_rows
    first = reasons.drop_null().slice(0, REASONS).to_pylist() if refused else []
    return Taken(good.num_rows, refused, tuple(first)), good


def completed(dataset: Dataset, frame: DataFrame, keep: Sequence[str] = (), *, strict: bool = False) -> DataFrame:
    """All columns of a log segment, in order, and those to ``keep``: a missing one is null, or generated. ``strict``:
    a null in a column that must not have one is an error, for which ``null_column`` finds the column; a row with a
    REASON is refused anyway."""
    from pyspark.sql import functions as f

    given = set(frame.columns)
    columns: list[SparkColumn] = []
    for column in dataset.columns:
        kind = type_ddl.cast_type(column.type)
        if column.name in given:
            value = f.col(type_ddl.quoted(column.name)).cast(kind)
        elif dataset.autogenerated and column.name in dataset.key:
            value = _generated()
        else:
            value = f.lit(None).cast(kind)
        if strict and (not column.nullable or column.name in dataset.key):
            checked = f.coalesce(value, f.raise_error(f.lit(f"{_MUST}: {column.name}")).cast(kind))
            value = f.when(f.col(REASON).isNull(), checked).otherwise(value) if REASON in given else checked
        columns.append(value.alias(column.name))
    if dataset.key:
        columns.append(f.lit(False).alias(DELETED))
    return frame.select(*columns, *[f.col(name) for name in keep])


def null_column(error: BaseException) -> str | None:
    """The column that must not be null, if that is what the error says."""
    _, found, rest = str(error).partition(f"{_MUST}: ")
    return rest.splitlines()[0].split(" SQLSTATE")[0].strip() if found else None


def tombstones(store: DatasetStore, keys: DataFrame) -> DataFrame:
    """Deletes of these keys in the columns of a log segment."""
    from pyspark.sql import functions as f

    rows = completed(store.dataset, keys.toDF(*store.dataset.key))
    return rows.withColumn(DELETED, f.lit(True))


def _generated() -> SparkColumn:
    """As ``time_ordered_key``, made by executors: 32 hex digits of a version 7 UUID."""
    from pyspark.sql import functions as f

    start = f"{time.time_ns() // 1_000_000:012x}7"
    return f.concat(f.lit(start), f.substring(f.replace(f.uuid(), f.lit("-"), f.lit("")), 14, 19))
