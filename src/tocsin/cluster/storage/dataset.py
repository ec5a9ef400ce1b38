"""A dataset: the log of its commits, its compacted base, and consistent snapshots of both for Spark.

    base      Parquet files with the state as of ordinal C; each row has an ``_ordinal``
    recent    the rows committed after C, in driver memory as one Arrow table (in a keyed dataset the latest row of each
              key, with deletes as tombstones); the log files hold the same rows for a restart
    resident  a small dataset has its base in ``recent`` too, and Spark never opens its files

New rows are those with an ordinal after a channel's position, so ``is_new`` does not need a log. If a row was
overwritten meanwhile, only its newest version is new.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from tocsin.cluster.model import Column, Dataset, Segment
from tocsin.cluster.records import type_ddl
from tocsin.cluster.records.record_decoder import Row, rows_to_table
from tocsin.cluster.storage import upsert
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import Damaged

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tocsin.cluster.spark.session import SparkRuntime

ORDINAL = "_ordinal"
DELETED = "_deleted"
NEW = "_is_new"

Mode = Literal["all", "new", "marked"]


class History(Struct, frozen=True):
    """The commits up to ``head``: those that were compacted, and one file for each later one."""

    head: int
    base: tuple[Segment, ...]
    log: tuple[Segment, ...]


class DatasetStore:
    """The state of one dataset; changed only under ``lock``, and read through snapshots."""

    def __init__(self, dataset: Dataset, store: SegmentStore, *, resident_rows: int) -> None:
        self.dataset = dataset
        self.store = store
        self.resident_rows = resident_rows
        self.names = [column.name for column in dataset.columns]
        self.lock = threading.Lock()
        self.maintenance = threading.Lock()
        self.head = 0
        #: Segments that cannot be read, by path.
        self.damaged: dict[str, Damaged] = {}
        self.base: tuple[Segment, ...] = ()
        self.log: list[Segment] = []
        self.resident = True
        self.row_schema = type_ddl.arrow_schema(dataset.columns)
        fields = list(self.row_schema)
        if dataset.key:
            fields.append(pa.field(DELETED, pa.bool_()))
        self.log_schema = pa.schema([field.with_nullable(True) for field in fields])
        self.schema = self.log_schema.append(pa.field(ORDINAL, pa.int64()))
        self._recent = self.schema.empty_table()
        self._pending: list[pa.Table] = []
        self._snapshot: DatasetSnapshot | None = None
        self._pins: Counter[str] = Counter()
        self._garbage: set[str] = set()
        self._stamps: dict[str, tuple[int, int]] = {}  # of base files that were verified
        self._base_frame: tuple[object, DataFrame] | None = None

    # -- changes ----------------------------------------------------------------------------------------------------

    def load(self, head: int, segments: Iterable[Segment], known: Mapping[str, Damaged] | None = None) -> None:
        """Load what the catalog has: at the start, and when the outcome of a commit was uncertain. Base files are only
        opened here; ``known`` has those that ``unreadable`` has found, by default before this call."""
        known = self.damaged if known is None else known
        rows = list(segments)
        base = tuple(segment for segment in rows if segment.kind == "base")
        log = [segment for segment in rows if segment.kind == "log"]
        damaged: dict[str, Damaged] = {}
        tables = []
        for segment in rows:
            try:
                if segment.path in known:
                    raise known[segment.path]
                if segment.kind == "base":
                    self._verify(segment)
                else:
                    with self.store.reading(segment.path):
                        tables.append(self._numbered(self.store.read(segment.path), segment.first))
            except Damaged as error:
                damaged[segment.path] = error
        with self.lock:
            self.head, self.base, self.log = head, base, log
            self._recent, self._pending, self._snapshot = self.schema.empty_table(), tables, None
            self.resident, self.damaged = False, {}
            if not damaged:
                try:
                    self._make_resident_if_small()
                except Damaged as error:
                    damaged[str(error.fields["path"])] = error
            if damaged:
                self._recent, self._pending = self.schema.empty_table(), []
            self.damaged = damaged

    def unreadable(self, segments: Iterable[Segment]) -> dict[str, Damaged]:
        """The damaged ones of these base files, by path; every page is read."""
        found = {}
        for segment in segments:
            try:
                self._verify(segment, pages=True)
            except Damaged as error:
                found[segment.path] = error
        return found

    def replaced(self) -> dict[str, Damaged]:
        """The damaged ones of base files that are other files than before: Spark would read missing columns as nulls
        without an error."""
        found = {}
        for segment in () if self.resident else self.base:
            stamp = self.store.stamp(segment.path)
            if stamp is None or self._stamps.get(segment.path) == stamp:
                continue
            try:
                self._verify(segment)
            except Damaged as error:
                found[segment.path] = error
            else:
                self._stamps[segment.path] = stamp
        return found

    def mark(self, damaged: Mapping[str, Damaged]) -> bool:
        """Nothing is read from now on, until ``load`` finds no damage. False: no file of the base is meant."""
        with self.lock:
            mine = {path: damaged[path] for path in (segment.path for segment in self.base) if path in damaged}
            self.damaged = {**self.damaged, **mine}
            return bool(mine)

    def _verify(self, segment: Segment, *, pages: bool = False) -> None:
        self.store.verify(segment.path, segment.rows, self._base_schema().names, pages=pages)

    def problem(self) -> Damaged | None:
        """Why segments cannot be read."""
        name, damaged = self.dataset.name, self.damaged
        if not damaged:
            return None
        path, error = next(iter(damaged.items()))
        return Damaged(
            f"dataset {name!r} is failing: {error.message}",
            hint=f"restore the file from a copy, or accept the loss: REPAIR DATASET {name} WITH LOSS",
            path=path,
            damaged=len(damaged),
        )

    def check(self) -> None:
        """Raise Damaged while segments cannot be read."""
        if (problem := self.problem()) is not None:
            raise problem

    def appended(self, segment: Segment, table: pa.Table) -> None:
        """Add a durable commit; snapshots taken from now on include it."""
        with self.lock:
            if segment.first <= self.head:
                return  # it was loaded meanwhile
            self.head = segment.last
            self.log.append(segment)
            if not self.damaged:  # else everything is read again after the repair
                self._pending.append(self._numbered(table, segment.first))
            self._snapshot = None

    def rebased(self, upto: int, base: Sequence[Segment], removed: Iterable[str]) -> None:
        """The base now has all commits up to ``upto``; ``removed`` files are deleted when their last reader is done."""
        with self.lock:
            recent = self._merge()
            self.base = tuple(base)
            self.log = [segment for segment in self.log if segment.first > upto]
            self.resident = False
            self._recent = recent.filter(pc.greater(recent.column(ORDINAL), upto))
            self._snapshot = None
            self._make_resident_if_small()
            self._garbage.update(removed)
            unused = [path for path in self._garbage if not self._pins[path]]
            self._garbage.difference_update(unused)
            here = {each.path for each in self.base}
            self._stamps = {path: stamp for path, stamp in self._stamps.items() if path in here}
        self.store.delete(unused)

    # -- reads -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> DatasetSnapshot:
        """The current state; the same object as long as nothing changes. The caller must release it."""
        with self.lock:
            self.check()
            if self._snapshot is None:
                recent = self._merge()
                self._snapshot = DatasetSnapshot(self, self.head, self.base, recent, self.resident)
            self._pins.update(segment.path for segment in self._snapshot.base)
            return self._snapshot

    def release(self, snapshot: DatasetSnapshot) -> None:
        self._unpin([segment.path for segment in snapshot.base])

    def _unpin(self, paths: Sequence[str]) -> None:
        with self.lock:
            self._pins.subtract(paths)
            unused = [path for path in self._garbage if self._pins[path] <= 0]
            self._garbage.difference_update(unused)
        self.store.delete(unused)

    @contextmanager
    def history(self, after: int) -> Iterator[History]:
        """The files with commits after an ordinal. They stay until the end of the ``with`` block."""
        with self.lock:
            base = tuple(segment for segment in self.base if segment.last > after)
            found = History(self.head, base, tuple(segment for segment in self.log if segment.first > after))
            paths = [segment.path for segment in (*found.base, *found.log)]
            self._pins.update(paths)
        try:
            yield found
        finally:
            self._unpin(paths)

    def read_log(self, segment: Segment) -> pa.Table:
        """One commit, as it was made."""
        with self.store.reading(segment.path):
            return self.store.read(segment.path).cast(self.log_schema)

    @property
    def base_rows(self) -> int:
        return sum(segment.rows for segment in self.base)

    @property
    def recent_rows(self) -> int:
        return sum(int(table.num_rows) for table in (self._recent, *self._pending))

    def base_frame(self, runtime: SparkRuntime, base: tuple[Segment, ...]) -> DataFrame:
        """The base as a DataFrame with ``_ordinal``; cached, because listing the files takes time."""
        token = (runtime.generation, tuple(segment.path for segment in base))
        cached = self._base_frame
        if cached is None or cached[0] != token:
            uris = [self.store.uri(segment.path) for segment in base]
            columns = [*self.dataset.columns, Column(ORDINAL, "bigint")]
            cached = (token, runtime.session.read.schema(type_ddl.ddl(columns)).parquet(*uris))
            self._base_frame = cached
        return cached[1]

    def read_base(self, base: tuple[Segment, ...]) -> pa.Table:
        """Base files as one Arrow table with ``_ordinal``."""
        tables = []
        for segment in base:
            with self.store.reading(segment.path):
                tables.append(self.store.read(segment.path).cast(self._base_schema()))
        return pa.concat_tables(tables) if tables else self._base_schema().empty_table()

    def live(self, table: pa.Table) -> pa.Table:
        """The rows without tombstones and without the tombstone column."""
        if not self.dataset.key:
            return table
        return table.filter(pc.invert(table.column(DELETED))).drop_columns([DELETED])

    def as_log(self, table: pa.Table) -> pa.Table:
        """Rows of the dataset in the columns of a log segment."""
        if self.dataset.key:
            table = table.append_column(self.schema.field(DELETED), pa.repeat(pa.scalar(False), table.num_rows))
        return table.cast(self.log_schema)

    def rows_as_log(self, rows: Sequence[Row]) -> pa.Table:
        """The same for checked records that are rows."""
        return self.as_log(rows_to_table(rows, self.row_schema))

    def tombstones(self, keys: pa.Table) -> pa.Table:
        """Deletes of these keys in the columns of a log segment."""
        columns = [
            keys.column(field.name) if field.name in self.dataset.key else pa.nulls(keys.num_rows, field.type)
            for field in self.log_schema
            if field.name != DELETED
        ]
        return pa.table([*columns, pa.repeat(pa.scalar(True), keys.num_rows)], schema=self.log_schema)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _base_schema(self) -> pa.Schema:
        return pa.schema([field for field in self.schema if field.name != DELETED])

    def _numbered(self, table: pa.Table, ordinal: int) -> pa.Table:
        column = pa.repeat(pa.scalar(ordinal, pa.int64()), table.num_rows)
        return table.cast(self.log_schema).append_column(self.schema.field(ORDINAL), column)

    def _merge(self) -> pa.Table:
        if self._pending:
            table = pa.concat_tables([self._recent, *self._pending])
            if self.dataset.key:
                table = upsert.latest(table, self.dataset.key)
                if self.resident:
                    table = table.filter(pc.invert(table.column(DELETED)))
            # Thousands of chunks with one row each would slow down all later operations.
            self._recent = table.combine_chunks() if table.column(0).num_chunks > 16 else table
            self._pending = []
        return self._recent

    def _make_resident_if_small(self) -> None:
        """Load a small base into memory; after that, no files of the dataset are read."""
        if self.damaged or self.base_rows + self.recent_rows > self.resident_rows:
            return
        base = self.read_base(self.base)
        if self.dataset.key:
            alive = pa.repeat(pa.scalar(False), base.num_rows)
            base = base.append_column(DELETED, alive).select(self.schema.names)
        self._pending = [self._merge()]
        self._recent = base.cast(self.schema)
        self.resident = True
        self._merge()


class DatasetSnapshot:
    """A dataset as of one ordinal: immutable, and shared by all executions that start before the next commit."""

    def __init__(
        self, owner: DatasetStore, head: int, base: tuple[Segment, ...], recent: pa.Table, resident: bool
    ) -> None:
        self.owner = owner
        self.head = head
        self.base = () if resident else base
        self.recent = recent
        self.resident = resident
        self._lock = threading.Lock()
        self._frame: tuple[int, DataFrame] | None = None

    @property
    def dataset(self) -> Dataset:
        return self.owner.dataset

    @property
    def base_last(self) -> int:
        return max((segment.last for segment in self.base), default=0)

    def rows(self, after: int = 0) -> int:
        """About how many rows have a later ordinal."""
        recent = self.recent.num_rows
        if after and recent:
            recent = pc.sum(pc.greater(self.recent.column(ORDINAL), after)).as_py()
        return int(recent) + sum(segment.rows for segment in self.base if segment.last > after)

    def frame(self, runtime: SparkRuntime, mode: Mode = "all", position: int = 0) -> DataFrame:
        """The rows as a DataFrame: all rows, the new rows, or all rows with a column that marks the new ones."""
        if mode == "all":
            with self._lock:
                if self._frame is None or self._frame[0] != runtime.generation:
                    self._frame = (runtime.generation, self._shaped(runtime, mode, 0))
                return self._frame[1]
        return self._shaped(runtime, mode, position)

    def _shaped(self, runtime: SparkRuntime, mode: Mode, position: int) -> DataFrame:
        after, names = position if mode == "new" else 0, self.owner.names
        if any(segment.last > after for segment in self.base):
            frame = self._numbered(runtime, after)
            if mode == "marked":
                return frame.select(*names, (frame[ORDINAL] > position).alias(NEW))
            return frame.select(*names)
        # Columns are selected here, because Spark would copy the rows in the driver one by one.
        recent = self._recent(after)
        rows = recent.select(names)
        if mode == "marked":
            rows = rows.append_column(NEW, pc.greater(recent.column(ORDINAL), position))
        return runtime.from_arrow(rows)

    def table(self) -> pa.Table:
        """All rows as an Arrow table with ``_ordinal``; for datasets that fit into the driver."""
        recent = self.owner.live(self.recent)
        if self.resident:
            return recent
        base = self.owner.read_base(self.base)
        if self.dataset.key:
            base = upsert.without(base, self.recent, self.dataset.key)
        return pa.concat_tables([base, recent.select(base.column_names)])

    def release(self) -> None:
        self.owner.release(self)

    def _recent(self, after: int) -> pa.Table:
        recent = self.owner.live(self.recent)
        return recent.filter(pc.greater(recent.column(ORDINAL), after)) if after else recent

    def _numbered(self, runtime: SparkRuntime, after: int = 0) -> DataFrame:
        recent = self._recent(after)
        base = [segment for segment in self.base if segment.last > after]
        if not base:
            return runtime.from_arrow(recent)
        frame = self.owner.base_frame(runtime, self.base)
        if after:
            frame = frame.where(frame[ORDINAL] > after)
        if self.dataset.key and self.recent.num_rows:
            # Rows that were overwritten or deleted meanwhile leave the base; the few recent keys are broadcast.
            changed = runtime.from_arrow(self.recent.select(list(self.dataset.key)))
            frame = frame.join(changed.hint("broadcast"), list(self.dataset.key), "left_anti")
        columns = [*self.owner.names, ORDINAL]
        if recent.num_rows == 0:
            return frame.select(*columns)
        return frame.select(*columns).unionAll(runtime.from_arrow(recent).select(*columns))
