"""A dataset: the log of its commits, its compacted base, and consistent snapshots of both for Spark.

    base      Parquet files with the state as of ordinal C; each row has an ``_ordinal``
    delta     Parquet files with changes after C that are too many for driver memory, which executors wrote
    recent    the other rows committed after C, in driver memory as one Arrow table (in a keyed dataset the latest row
              of each key, with deletes as tombstones); the log files hold the same rows for a restart
    resident  a small dataset has its files in ``recent`` too, and Spark never opens them

New rows are those with an ordinal after a channel's position, so ``is_new`` does not need a log. If a row was
overwritten meanwhile, only its newest version is new.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from tocsin.cluster.model import Column, Dataset, Segment
from tocsin.cluster.records import type_ddl
from tocsin.cluster.records.record_decoder import Row, rows_to_table, time_ordered_key
from tocsin.cluster.storage import upsert
from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import Damaged, StorageError, TypeMismatch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tocsin.cluster.spark.session import SparkRuntime

ORDINAL = "_ordinal"
DELETED = "_deleted"
NEW = "_is_new"
_PLACE = "_place"
#: Where a row is: file and row.
PLACE = ("_file_path", "_row_index")

Mode = Literal["all", "new", "marked"]


class History(Struct, frozen=True):
    """The commits up to ``head``: those in base and delta, and one file for each other one."""

    head: int
    files: tuple[Segment, ...]
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
        self.delta: tuple[Segment, ...] = ()
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
        self._stamps: dict[str, tuple[int, int]] = {}  # of files that were verified
        self._frames: dict[str, tuple[object, DataFrame]] = {}

    # -- changes ----------------------------------------------------------------------------------------------------

    def load(self, head: int, segments: Iterable[Segment], known: Mapping[str, Damaged] | None = None) -> None:
        """Load what the catalog has: at the start, and when the outcome of a commit was uncertain. Base files are only
        opened here; ``known`` has those that ``unreadable`` has found, by default before this call."""
        known = self.damaged if known is None else known
        rows = list(segments)
        base = tuple(segment for segment in rows if segment.kind == "base")
        delta = tuple(segment for segment in rows if segment.kind == "delta")
        log = [segment for segment in rows if segment.kind == "log"]
        damaged: dict[str, Damaged] = {}
        tables = []
        for segment in rows:
            try:
                if segment.path in known:
                    raise known[segment.path]
                if segment.kind == "log":
                    tables.append(self._read(segment))
                else:
                    self._verify(segment)
            except Damaged as error:
                damaged[segment.path] = error
        with self.lock:
            self.head, self.base, self.delta, self.log = head, base, delta, log
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
        """The damaged ones of these files, by path; every page is read."""
        found = {}
        for segment in segments:
            try:
                self._verify(segment, pages=True)
            except Damaged as error:
                found[segment.path] = error
        return found

    def replaced(self) -> dict[str, Damaged]:
        """The damaged ones of files that are other files than before: Spark would read missing columns as nulls
        without an error."""
        found = {}
        for segment in () if self.resident else self.files:
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
        """Nothing is read from now on, until ``load`` finds no damage. False: no file of base or delta is meant."""
        with self.lock:
            mine = {path: damaged[path] for path in (segment.path for segment in self.files) if path in damaged}
            self.damaged = {**self.damaged, **mine}
            return bool(mine)

    def _verify(self, segment: Segment, *, pages: bool = False) -> None:
        columns = self._base_schema().names if segment.kind == "base" else self.log_schema.names
        if segment.first < segment.last:
            columns = [*columns, ORDINAL]
        self.store.verify(segment.path, segment.rows, columns, pages=pages)

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

    def extended(self, segments: Sequence[Segment]) -> None:
        """Add a durable commit that executors wrote: its rows stay in these files."""
        with self.lock:
            if segments[0].first <= self.head:
                return  # it was loaded meanwhile
            tables: list[pa.Table] = []
            damaged = dict(self.damaged)
            leaves_memory = self.resident and not damaged
            if leaves_memory:
                # A resident dataset has no tombstones of its base in memory: take the recent rows from the log again.
                for segment in self.log:
                    try:
                        tables.append(self._read(segment))
                    except StorageError as error:  # the commit stands; what cannot be read now is read again later
                        damaged[segment.path] = _as_damaged(error, segment.path)
            self.head = segments[0].last
            self.delta += tuple(segments)
            self._snapshot = None
            if leaves_memory:
                self.resident, self._recent = False, self.schema.empty_table()
                self._pending, self.damaged = [] if damaged else tables, damaged

    def rebased(self, upto: int, added: Sequence[Segment], removed: Collection[str]) -> None:
        """The files now have all commits up to ``upto``; ``removed`` ones are deleted when their last reader is done.
        A bulk commit may have come meanwhile: its files stay."""
        with self.lock:
            recent = self._merge()
            # The added ones are there if everything was loaded meanwhile.
            gone = {*removed, *(segment.path for segment in added)}
            files = [segment for segment in self.files if segment.path not in gone] + list(added)
            files.sort(key=lambda segment: segment.first)
            self.base = tuple(segment for segment in files if segment.kind == "base")
            self.delta = tuple(segment for segment in files if segment.kind == "delta")
            self.log = [segment for segment in self.log if segment.first > upto]
            self.resident = False
            self._recent = recent.filter(pc.greater(recent.column(ORDINAL), upto))
            self._snapshot = None
            self._make_resident_if_small()
            self._garbage.update(removed)
            unused = [path for path in self._garbage if not self._pins[path]]
            self._garbage.difference_update(unused)
            here = {each.path for each in self.files}
            self._stamps = {path: stamp for path, stamp in list(self._stamps.items()) if path in here}
        self.store.delete(unused)

    # -- reads -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> DatasetSnapshot:
        """The current state; the same object as long as nothing changes. The caller must release it."""
        with self.lock:
            self.check()
            if self._snapshot is None:
                recent = self._merge()
                self._snapshot = DatasetSnapshot(self, self.head, self.files, recent, self.resident)
            self._pins.update(segment.path for segment in self._snapshot.files)
            return self._snapshot

    def release(self, snapshot: DatasetSnapshot) -> None:
        self._unpin([segment.path for segment in snapshot.files])

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
            files = tuple(segment for segment in self.files if segment.last > after)
            found = History(self.head, files, tuple(segment for segment in self.log if segment.first > after))
            paths = [segment.path for segment in (*found.files, *found.log)]
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
    def files(self) -> tuple[Segment, ...]:
        """What Spark reads: base and delta."""
        return (*self.base, *self.delta)

    @property
    def base_rows(self) -> int:
        return sum(segment.rows for segment in self.base)

    @property
    def delta_rows(self) -> int:
        return sum(segment.rows for segment in self.delta)

    @property
    def stored_rows(self) -> int:
        """All rows, of which those of a resident dataset are in memory too."""
        return self.recent_rows if self.resident else self.base_rows + self.delta_rows + self.recent_rows

    @property
    def recent_rows(self) -> int:
        return sum(int(table.num_rows) for table in (self._recent, *self._pending))

    def frame_of(self, runtime: SparkRuntime, segments: Sequence[Segment]) -> DataFrame:
        """Files of one kind as a DataFrame with ``_ordinal`` and, if they are deltas of a keyed dataset, ``_deleted``.
        Cached, because listing the files takes time."""
        kind = segments[0].kind
        token = (runtime.generation, tuple(segment.path for segment in segments))
        cached = self._frames.get(kind)
        if cached is None or cached[0] != token:
            cached = self._frames[kind] = (token, self.scan(runtime, segments))
        return cached[1]

    def scan(self, runtime: SparkRuntime, segments: Sequence[Segment], *, placed: bool = False) -> DataFrame:
        """As ``frame_of``; ``placed``: with PLACE, in which the rows are in the order of their files."""
        from pyspark.sql import functions as f

        columns = list(self.dataset.columns)
        if self.dataset.key and segments[0].kind == "delta":
            columns.append(Column(DELETED, "boolean"))
        # A file of one commit need not have an ordinal: it was written before the commit got one.
        commits = sorted({segment.first for segment in segments if whole(segment)})
        groups = [[segment for segment in segments if not whole(segment)]]
        groups += [[segment for segment in segments if whole(segment) and segment.first == one] for one in commits]
        frames = []
        for group in groups:
            if group:
                plain = whole(group[0])
                schema = type_ddl.ddl(columns if plain else [*columns, Column(ORDINAL, "bigint")])
                frame = runtime.session.read.schema(schema).parquet(*[self.store.uri(each.path) for each in group])
                if placed:
                    frame = frame.selectExpr("*", *(f"_metadata.{name[1:]} AS {name}" for name in PLACE))
                frames.append(frame.withColumn(ORDINAL, f.lit(group[0].first).cast("bigint")) if plain else frame)
        return reduce(lambda left, right: left.unionByName(right), frames)

    def read_files(self, segments: Iterable[Segment]) -> pa.Table:
        """Files as one Arrow table in the columns of ``recent``, by ordinal."""
        tables = [self._read(segment) for segment in segments]
        return _by_ordinal(pa.concat_tables(tables)) if tables else self.schema.empty_table()

    def _read(self, segment: Segment) -> pa.Table:
        with self.store.reading(segment.path):
            table = self.store.read(segment.path)
            if DELETED in self.log_schema.names and DELETED not in table.column_names:
                table = table.append_column(DELETED, pa.repeat(pa.scalar(False), table.num_rows))
            if segment.kind == "log" or whole(segment):
                return self._numbered(table.select(self.log_schema.names), segment.first)
            return table.select(self.schema.names).cast(self.schema)

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

    def completed(self, table: pa.Table) -> pa.Table:
        """All columns of the dataset in order; a missing column is null, or generated, or an error."""
        dataset, arrays = self.dataset, []
        for field in self.row_schema:
            if field.name in table.column_names:
                array = table.column(field.name).cast(field.type)
            elif dataset.autogenerated and field.name in dataset.key:
                array = pa.chunked_array([pa.array([time_ordered_key() for _ in range(table.num_rows)], field.type)])
            else:
                array = pa.chunked_array([pa.nulls(table.num_rows, field.type)])
            if array.null_count and (not field.nullable or field.name in dataset.key):
                raise null_refused(field.name)
            arrays.append(array)
        return pa.Table.from_arrays(arrays, names=self.names)

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
        if self.damaged or self.base_rows + self.delta_rows + self.recent_rows > self.resident_rows:
            return
        # A delta may be later than the recent rows.
        self._recent = _by_ordinal(pa.concat_tables([self.read_files(self.files), self._merge()]))
        self._pending = [self.schema.empty_table()]
        self.resident = True
        self._merge()


def null_refused(column: str) -> TypeMismatch:
    return TypeMismatch(f"column {column!r} must not be null", column=column)


def _as_damaged(error: StorageError, path: str) -> Damaged:
    return error if isinstance(error, Damaged) else Damaged(error.message, hint=error.hint, path=path)


def whole(segment: Segment) -> bool:
    """Whether all rows have one ordinal, and perhaps no column for it."""
    return segment.kind == "delta" and segment.first == segment.last


def _by_ordinal(table: pa.Table) -> pa.Table:
    ordinals = table.column(ORDINAL).to_numpy()
    if bool((ordinals[1:] >= ordinals[:-1]).all()):
        return table
    return table.take(pa.array(np.argsort(ordinals, kind="stable")))


class DatasetSnapshot:
    """A dataset as of one ordinal: immutable, and shared by all executions that start before the next commit."""

    def __init__(
        self, owner: DatasetStore, head: int, files: tuple[Segment, ...], recent: pa.Table, resident: bool
    ) -> None:
        self.owner = owner
        self.head = head
        #: All files as of the snapshot, and those that have to be read.
        self.segments = files
        self.files = () if resident else files
        self.recent = recent
        self.resident = resident
        self._lock = threading.Lock()
        self._frame: tuple[int, DataFrame] | None = None

    @property
    def dataset(self) -> Dataset:
        return self.owner.dataset

    @property
    def base(self) -> list[Segment]:
        return [segment for segment in self.files if segment.kind == "base"]

    @property
    def delta(self) -> list[Segment]:
        return [segment for segment in self.files if segment.kind == "delta"]

    @property
    def recent_is_newest(self) -> bool:
        """Whether no delta is later than a recent row."""
        last = max((segment.last for segment in self.delta), default=0)
        return not self.recent.num_rows or pc.min(self.recent.column(ORDINAL)).as_py() > last

    def rows(self, after: int = 0) -> int:
        """About how many rows have a later ordinal."""
        recent = self.recent.num_rows
        if after and recent:
            recent = pc.sum(pc.greater(self.recent.column(ORDINAL), after)).as_py()
        return int(recent) + sum(segment.rows for segment in self.files if segment.last > after)

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
        if any(segment.last > after for segment in self.files):
            frame = self.numbered(runtime, after)
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
        if self.resident:
            return self.owner.live(self.recent)
        rows = pa.concat_tables([self.owner.read_files(self.files), self.recent])
        if self.dataset.key:
            rows = upsert.latest(_by_ordinal(rows), self.dataset.key)
        return self.owner.live(rows)

    def release(self) -> None:
        self.owner.release(self)

    def _recent(self, after: int) -> pa.Table:
        recent = self.owner.live(self.recent)
        return recent.filter(pc.greater(recent.column(ORDINAL), after)) if after else recent

    def numbered(self, runtime: SparkRuntime, after: int = 0) -> DataFrame:
        """The rows with a later ordinal, with ``_ordinal``."""
        columns, recent = [*self.owner.names, ORDINAL], self._recent(after)
        if not any(segment.last > after for segment in self.files):
            return runtime.from_arrow(recent).select(*columns)
        if self.dataset.key:
            return self._latest(runtime, after).select(*columns)
        frames = [
            self.owner.frame_of(runtime, segments)
            for segments in (self.base, self.delta)
            if any(segment.last > after for segment in segments)
        ]
        if after:
            frames = [frame.where(frame[ORDINAL] > after) for frame in frames]
        if recent.num_rows:
            frames.append(runtime.from_arrow(recent))
        return reduce(lambda left, right: left.unionAll(right), [frame.select(*columns) for frame in frames])

    def _latest(self, runtime: SparkRuntime, after: int) -> DataFrame:
        """The latest row of each key: those of the base that no later one replaces, and the later ones."""
        key, columns = list(self.dataset.key), [*self.owner.names, ORDINAL]
        frames: list[DataFrame] = []
        changes = self.owner.frame_of(runtime, self.delta) if self.delta else None
        # The few recent keys are broadcast.
        recent_keys = runtime.from_arrow(self.recent.select(key)).hint("broadcast") if self.recent.num_rows else None
        if any(segment.last > after for segment in self.base):
            base = self.owner.frame_of(runtime, self.base)
            base = base.where(base[ORDINAL] > after) if after else base
            for keys in (changes and changes.select(*key), recent_keys):
                base = base if keys is None else base.join(keys, key, "left_anti")
            frames.append(base)
        recent_is_newest = self.recent_is_newest
        later = [segment for segment in self.delta if segment.last > after]
        if changes is not None and later:
            several = len({(segment.first, segment.last) for segment in later}) > 1
            if not recent_is_newest:
                changes = changes.unionAll(runtime.from_arrow(self.recent).select(*changes.columns))
            if several or not recent_is_newest:
                changes = _newest(changes, key)
            if recent_is_newest and recent_keys is not None:
                changes = changes.join(recent_keys, key, "left_anti")
            changes = changes.where(changes[ORDINAL] > after) if after else changes
            frames.append(changes.where(~changes[DELETED]))
        if self.recent.num_rows and (recent_is_newest or not later):
            frames.append(runtime.from_arrow(self._recent(after)))
        return reduce(lambda left, right: left.unionAll(right), [frame.select(*columns) for frame in frames])


def _newest(frame: DataFrame, key: list[str]) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    place = f.row_number().over(Window.partitionBy(*key).orderBy(f.desc(ORDINAL)))
    return frame.withColumn(_PLACE, place).where(f.col(_PLACE) == 1).drop(_PLACE)
