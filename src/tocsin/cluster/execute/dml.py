"""INSERT, UPSERT, DELETE and LOAD: the statements that change a dataset."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.errors import PySparkException

from tocsin.cluster.context import ClusterContext, ReadSnapshot
from tocsin.cluster.ingest.file_load import load_source, loading
from tocsin.cluster.ingest.file_source import file_columns
from tocsin.cluster.ingest.gateway import MOST_REASONS, Gateway
from tocsin.cluster.model import Column, Dataset, Parameter
from tocsin.cluster.query.compiler import CompiledQuery, compile_query
from tocsin.cluster.records import type_ddl
from tocsin.cluster.records.formats import counted
from tocsin.cluster.spark.errors import explained
from tocsin.cluster.statements.ast import Delete, Insert, LoadDataset
from tocsin.cluster.storage import upsert
from tocsin.cluster.storage.bulk_writer import BulkFiles, Taken, completed, null_column, tombstones
from tocsin.cluster.storage.compaction import Compactor
from tocsin.cluster.storage.dataset import DELETED, ORDINAL, DatasetStore, null_refused
from tocsin.errors import Conflict, RecordsRefused, TocsinError, TypeMismatch, UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Times bulk_bytes that a query may read before its rows are collected only if executors wrote few.
LARGE_INPUT = 8


class DmlExecutor:
    def __init__(self, context: ClusterContext, gateway: Gateway, compactor: Compactor) -> None:
        self.context = context
        self.gateway = gateway
        self.compactor = compactor

    # -- insert, upsert ----------------------------------------------------------------------------------------------

    def insert(
        self, statement: Insert, parameters: Sequence[Parameter] = (), values: Sequence[Any] | None = None
    ) -> int:
        dataset = self.context.definitions.get(Dataset, statement.dataset)
        store = self.context.stores[dataset.id]
        if statement.records is not None:
            return self._stored(statement, store, self._records(dataset, statement.records))
        assert statement.query is not None
        compiled = compile_query(statement.query, self.context.definitions, parameters, values=values)
        return self._selected(statement, store, compiled)

    def _stored(self, statement: Insert, store: DatasetStore, table: pa.Table) -> int:
        """The fast path, through the driver."""
        if not table.num_rows:
            return 0
        with store.maintenance:
            if store.dataset.key and not statement.upsert:
                self._refuse_known(store, table)
            self.context.bulk.append(store, store.as_log(table))
        return int(table.num_rows)

    def _records(self, dataset: Dataset, text: str) -> pa.Table:
        decoded = self.gateway.decoder(dataset).decode(text.encode())
        if decoded.refused:
            first = decoded.refused[0]
            raise RecordsRefused(
                f"record {first.index + 1} does not fit: {first.reason}",
                refused=[msgspec.to_builtins(item) for item in decoded.refused[:MOST_REASONS]],
            )
        return decoded.table

    def _selected(self, statement: Insert, store: DatasetStore, compiled: CompiledQuery) -> int:
        """Insert the columns of a query, by position, as the columns of the dataset."""
        runtime, bulk = self.context.runtime, self.context.bulk
        now = time.time()
        table: pa.Table | None = None
        with self.context.reading(compiled.uses) as reading, explained():
            with runtime.query():
                query = runtime.session.sql(compiled.render(reading.view, now=now, previous=now))
                frame = self._cast(query, _targets(store.dataset, statement.columns, query.columns))
                if not self._large(reading):
                    table = bulk.collect(frame)
            if table is None:
                files = self._written(statement, store, frame)
        if table is not None:
            return self._stored(statement, store, store.completed(table))
        if not files.rows:
            bulk.discard(files.folder)
            return 0
        with store.maintenance:
            if store.dataset.key and not statement.upsert:
                self._refuse_known_files(store, files)
            bulk.commit(store, files)
        return files.rows

    def _large(self, reading: ReadSnapshot) -> bool:
        """Whether a query reads so much that executors write its rows at once: reading it twice would cost more."""
        size = sum(segment.bytes for snapshot in reading.snapshots.values() for segment in snapshot.files)
        return size > LARGE_INPUT * self.context.config.bulk_bytes

    def _written(self, statement: Insert, store: DatasetStore, frame: DataFrame) -> BulkFiles:
        bulk = self.context.bulk
        rows = completed(store.dataset, frame, strict=True)
        if statement.upsert:
            rows = bulk.unique(store.dataset, rows)
        try:
            with self.context.runtime.pool("load"):
                return bulk.write(store, rows)
        except PySparkException as error:
            column = null_column(error)
            raise null_refused(column) if column is not None else error from error

    @staticmethod
    def _cast(frame: DataFrame, targets: Sequence[Column]) -> DataFrame:
        named = frame.toDF(*[f"c{at}" for at in range(len(targets))])
        return named.select(
            *[
                named[f"c{at}"].cast(type_ddl.cast_type(column.type)).alias(column.name)
                for at, column in enumerate(targets)
            ]
        )

    def _refuse_known(self, store: DatasetStore, table: pa.Table) -> None:
        """INSERT makes new rows; a key that is there, or is given twice, is refused and nothing is inserted."""
        key = store.dataset.key
        if upsert.latest(table, key).num_rows != table.num_rows:
            raise _twice(store)
        snapshot = store.snapshot()
        try:
            # A recent row may be deleted by a later delta; then only Spark knows.
            fresh = upsert.without(table, store.live(snapshot.recent), key) if snapshot.recent_is_newest else table
            if not snapshot.resident and fresh.num_rows:
                runtime = self.context.runtime
                given = runtime.from_arrow(fresh.select(list(key)))
                with explained(), runtime.query():
                    known = runtime.to_arrow(
                        snapshot.frame(runtime).join(given.hint("broadcast"), list(key)).select(*key)
                    )
                fresh = upsert.without(fresh, known, key)
        except TocsinError as error:
            self.context.blame([store], error)
            raise
        finally:
            snapshot.release()
        if fresh.num_rows < table.num_rows:
            first = upsert.without(table, fresh, key).select(list(key)).slice(0, 1).to_pylist()[0]
            raise _known(store, table.num_rows - fresh.num_rows, first)

    def _refuse_known_files(self, store: DatasetStore, files: BulkFiles) -> None:
        """The same for rows that executors wrote, and compare."""
        runtime, key = self.context.runtime, list(store.dataset.key)
        snapshot = store.snapshot()
        try:
            with explained(), runtime.pool("load"):
                paths = [store.store.uri(part.path) for part in files.parts]
                schema = type_ddl.ddl([column for column in store.dataset.columns if column.name in key])
                given = runtime.session.read.schema(schema).parquet(*paths)
                if given.groupBy(*key).count().where("count > 1").limit(1).toArrow().num_rows:
                    raise _twice(store)
                known = given.join(snapshot.frame(runtime).select(*key), key, "left_semi")
                first = known.limit(1).toArrow()
                if first.num_rows:
                    raise _known(store, known.count(), first.to_pylist()[0])
        except TocsinError as error:
            self.context.bulk.discard(files.folder)
            self.context.blame([store], error)
            raise
        finally:
            snapshot.release()

    # -- delete ------------------------------------------------------------------------------------------------------

    def delete(
        self, statement: Delete, parameters: Sequence[Parameter] = (), values: Sequence[Any] | None = None
    ) -> int:
        dataset = self.context.definitions.get(Dataset, statement.dataset)
        store = self.context.stores[dataset.id]
        source = f"{type_ddl.quoted(dataset.name)} {type_ddl.quoted(statement.alias) if statement.alias else ''}"
        where = statement.where or "true"
        with store.maintenance:
            if dataset.key:
                columns = ", ".join(
                    f"{type_ddl.quoted(statement.alias or dataset.name)}.{type_ddl.quoted(k)}" for k in dataset.key
                )
                # The line break ends a comment at the end of the condition.
                sql = f"SELECT {columns} FROM {source} WHERE ({where}\n)"
                compiled = compile_query(sql, self.context.definitions, parameters, values=values)
                return self._delete_keys(store, compiled)
            sql = f"SELECT * FROM {source} WHERE NOT coalesce(({where}\n), false)"
            compiled = compile_query(sql, self.context.definitions, parameters, values=values)
            return self._keep_only(store, compiled)

    def _delete_keys(self, store: DatasetStore, compiled: CompiledQuery) -> int:
        runtime, bulk = self.context.runtime, self.context.bulk
        now = time.time()
        keys: pa.Table | None = None
        with self.context.reading(compiled.uses) as reading, explained():
            head = reading.snapshots[store.dataset.name].head
            with runtime.query():
                frame = runtime.session.sql(compiled.render(reading.view, now=now, previous=now))
                if not self._large(reading):
                    keys = bulk.collect(frame.toDF(*store.dataset.key))
            if keys is None:
                with runtime.pool("load"):
                    files = bulk.write(store, tombstones(store, frame))
        if keys is not None:
            keys = self._unchanged(store, keys, head)
            if keys.num_rows:
                bulk.append(store, store.tombstones(keys))
            return int(keys.num_rows)
        files = self._unchanged_files(store, files, head)
        bulk.commit(store, files)
        return files.rows

    def _unchanged(self, store: DatasetStore, keys: pa.Table, head: int) -> pa.Table:
        """The keys without those that were written after the commit that the condition was applied to."""
        runtime, key = self.context.runtime, list(store.dataset.key)
        snapshot = store.snapshot()
        try:
            if snapshot.head == head or not keys.num_rows:
                return keys
            newer = snapshot.recent.filter(pc.greater(snapshot.recent.column(ORDINAL), head))
            keys = upsert.without(keys, newer, key)
            if keys.num_rows and any(segment.last > head for segment in snapshot.files):
                given = runtime.from_arrow(keys).hint("broadcast")
                with explained(), runtime.query():
                    known = runtime.to_arrow(snapshot.numbered(runtime, head).join(given, key).select(*key))
                keys = upsert.without(keys, known, key)
            return keys
        finally:
            snapshot.release()

    def _unchanged_files(self, store: DatasetStore, files: BulkFiles, head: int) -> BulkFiles:
        """The same for keys that executors wrote."""
        runtime, bulk, key = self.context.runtime, self.context.bulk, list(store.dataset.key)
        snapshot = store.snapshot()
        try:
            if snapshot.head == head or not files.rows:
                return files
            with explained(), runtime.pool("load"):
                newer = snapshot.numbered(runtime, head).select(*key)
                schema = type_ddl.ddl([*store.dataset.columns, Column(DELETED, "boolean")])
                given = runtime.session.read.schema(schema).parquet(
                    *[store.store.uri(part.path) for part in files.parts]
                )
                if not given.join(newer, key, "left_semi").limit(1).toArrow().num_rows:
                    return files
                kept = bulk.write(store, given.join(newer, key, "left_anti").select(*store.log_schema.names))
        except BaseException:
            bulk.discard(files.folder)
            raise
        finally:
            snapshot.release()
        bulk.discard(files.folder)
        return kept

    def _keep_only(self, store: DatasetStore, compiled: CompiledQuery) -> int:
        """An append-only dataset has no tombstones, so that its base is written again without the deleted rows."""
        runtime = self.context.runtime
        now = time.time()
        with self.context.reading(compiled.uses) as reading, explained(), ExitStack() as work:
            snapshot = reading.snapshots[store.dataset.name]
            small = self.compactor.small(snapshot.files)
            # Writing a large base again may take longer than a query.
            work.enter_context(runtime.query() if small else runtime.pool("load"))
            before = int(snapshot.recent.num_rows) + sum(segment.rows for segment in snapshot.files)
            numbered = f"d{store.dataset.id}_{snapshot.head}"
            snapshot.numbered(runtime).createOrReplaceTempView(numbered)
            try:
                view = lambda use: numbered if use.relation.name == store.dataset.name else reading.view(use)  # noqa: E731
                sql = compiled.render(view, now=now, previous=now)
                frame = runtime.session.sql(sql).select(*store.names, ORDINAL)
                if not small:
                    self.compactor.replace_by(store, snapshot, frame)
                    return before - sum(segment.rows for segment in store.files if segment.first <= snapshot.head)
                survivors = runtime.to_arrow(frame)
                if survivors.num_rows < before:
                    self.compactor.replace(store, snapshot, survivors)
                return before - int(survivors.num_rows)
            finally:
                runtime.session.catalog.dropTempView(numbered)

    # -- load --------------------------------------------------------------------------------------------------------

    def load(self, statement: LoadDataset, progress: Callable[[float, int], None]) -> Taken:
        """Load files as one commit. Each row that does not fit is refused; the others are stored."""
        dataset = self.context.definitions.get(Dataset, statement.dataset)
        store = self.context.stores[dataset.id]
        format = statement.format or _format_of(statement.path)
        with loading(self.context.runtime, statement.path, lambda done: progress(done, 0)):
            source = load_source(
                self.context.runtime,
                statement.path,
                format,
                file_columns(dataset),
                dict(statement.options),
                ordered=bool(dataset.key),
            )
            small = source.bytes is not None and source.bytes <= self.context.config.bulk_bytes
            taken, _ = self.context.bulk.take(store, source.frame, source.order, small=small)
        progress(1.0, taken.accepted)
        return taken


def _targets(dataset: Dataset, names: Sequence[str], given: Sequence[str]) -> list[Column]:
    """The columns that the columns of a query fill."""
    by_name = {column.name.lower(): column for column in dataset.columns}
    unknown = [name for name in names if name.lower() not in by_name]
    if unknown:
        raise UserError(f"dataset {dataset.name!r} has no column {unknown[0]!r}", column=unknown[0])
    if len({name.lower() for name in names}) != len(names):
        raise UserError("a column appears twice in the list of columns")
    generated = dataset.key if dataset.autogenerated else ()
    targets = [by_name[name.lower()] for name in names] or [c for c in dataset.columns if c.name not in generated]
    if len(given) != len(targets) and not names and len(given) == len(dataset.columns):
        return list(dataset.columns)
    if len(given) != len(targets):
        raise TypeMismatch(
            f"the query has {len(given)} columns, but {dataset.name!r} needs {len(targets)}",
            hint=f"columns: {', '.join(column.name for column in targets)}",
        )
    return targets


def _twice(store: DatasetStore) -> Conflict:
    return Conflict("the same key is given twice", hint="UPSERT keeps the last one", dataset=store.dataset.name)


def _known(store: DatasetStore, count: int, first: Mapping[str, Any]) -> Conflict:
    hint = "use UPSERT to replace rows with the same key"
    return Conflict(
        f"{counted(count)} with a key that exists; the first is {first}", hint=hint, dataset=store.dataset.name
    )


def _format_of(path: str) -> str:
    """The format by the file name, also of a compressed file; JSON if the name does not show it."""
    parts = path.lower().rstrip("/").split(".")[-2:]
    return next((kind for kind in ("csv", "parquet", "json") if kind in parts), "json")
