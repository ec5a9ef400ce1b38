"""A growing table for Spark in chunks: new rows are part of the plan, older ones are cached in Spark's memory.

It works like a log-structured merge tree: a chunk is at least ``RATIO`` times as large as the next one, so there are
only a handful of chunks, and each row is rewritten a few times at most. Chunks are merged in the background; a chunk
that a reader still uses is not deleted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import reduce
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException

from tocsin.cluster.storage.segments import SegmentStore
from tocsin.errors import TocsinError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tocsin.cluster.spark.session import SparkRuntime

log = logging.getLogger(__name__)

#: Rows that are part of the plan.
TAIL_ROWS = 10_000
#: A chunk smaller than this many times its successor is merged with it.
RATIO = 4
#: Chunks are rewritten when more than this fraction of their rows is deleted.
DEAD = 0.2

_numbers = count(1)
#: The errors of Spark, also when its JVM is dead.
_SPARK = (PySparkException, Py4JError, OSError)


class Chunk:
    """A sealed Parquet file, and its rows in Spark's memory."""

    def __init__(self, path: str, rows: int) -> None:
        self.path = path
        self.rows = rows
        self.users = 1
        self._session: SparkSession | None = None
        self._frame: DataFrame | None = None

    def frame(self, session: SparkSession, uri: str) -> DataFrame:
        """Reads the file again in a new session."""
        if self._frame is None or self._session is not session:
            self._session, self._frame = session, session.read.parquet(uri).persist(StorageLevel.MEMORY_AND_DISK)
        return self._frame

    def forget(self) -> None:
        if self._frame is not None:
            with suppress(*_SPARK):  # a dead session has no cache
                self._frame.unpersist()
            self._frame = self._session = None


@dataclass(eq=False)
class ViewSnapshot:
    """The chunks of one temporary view. ``users`` counts its readers, plus one while it is the current snapshot."""

    name: str
    session: SparkSession
    chunks: tuple[Chunk, ...]
    users: int = 1


class ChunkedView:
    """``take`` returns the rows added since its last call, ``live`` says which ids of column 0 still exist, and
    ``size`` how many rows exist."""

    def __init__(
        self,
        store: SegmentStore,
        folder: str,
        schema: pa.Schema,
        take: Callable[[], pa.Table],
        live: Callable[[Any], Any],
        size: Callable[[], int],
    ) -> None:
        self._store = store
        self._folder = folder
        self._schema = schema
        self._take = take
        self._live = live
        self._size = size
        self._lock = threading.Lock()
        self._chunks: list[Chunk] = []
        self._tail = schema.empty_table()
        self._tail_frame: DataFrame | None = None
        self._current: ViewSnapshot | None = None
        self._merging: threading.Thread | None = None
        self._failed_merge: list[Chunk] = []
        self._closed = False

    @contextmanager
    def hold(self, runtime: SparkRuntime) -> Iterator[str]:
        """The name of a view with all current rows; it exists until the ``with`` block ends."""
        snapshot = self._acquire(runtime)
        try:
            yield snapshot.name
        finally:
            with self._lock:
                self._release(snapshot)

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if self._current is not None:
                self._release(self._current)
                self._current = None
            for chunk in self._chunks:
                self._drop(chunk)
            self._chunks = []
            self._tail, self._tail_frame = self._schema.empty_table(), None

    # --- the current snapshot; all under the lock

    def _acquire(self, runtime: SparkRuntime) -> ViewSnapshot:
        with self._lock:
            session = runtime.session
            added = self._take()
            if added.num_rows:
                # Stored before anything can fail, because ``take`` does not return these rows again.
                self._tail = pa.concat_tables([self._tail, added])
                self._tail_frame = None
            current = self._current
            if current is None or current.session is not session or self._tail_frame is None:
                current = self._build(runtime, session)
            current.users += 1
            self._merge_if_due(runtime)
            return current

    def _build(self, runtime: SparkRuntime, session: SparkSession) -> ViewSnapshot:
        before = self._current
        if before is None or before.session is not session:
            self._tail_frame = None
            self._failed_merge = []
        if self._tail_frame is None:
            self._tail = self._living(self._tail)
            if self._tail.num_rows > TAIL_ROWS:
                written = self._store.write(self._tail.combine_chunks(), self._folder)
                self._chunks.append(Chunk(written.path, written.rows))
                self._tail = self._schema.empty_table()
            self._tail_frame = runtime.from_arrow(self._tail.combine_chunks())
        frames = [chunk.frame(session, self._store.uri(chunk.path)) for chunk in self._chunks]
        if self._tail.num_rows or not frames:
            frames.append(self._tail_frame)
        snapshot = ViewSnapshot(f"tocsin_chunks_{next(_numbers)}", session, tuple(self._chunks))
        reduce(lambda left, right: left.unionAll(right), frames).createOrReplaceTempView(snapshot.name)
        for chunk in snapshot.chunks:
            chunk.users += 1
        self._current = snapshot
        if before is not None:
            self._release(before)
        return snapshot

    def _release(self, snapshot: ViewSnapshot) -> None:
        snapshot.users -= 1
        if snapshot.users:
            return
        with suppress(*_SPARK):  # a dead session has no views
            snapshot.session.catalog.dropTempView(snapshot.name)
        for chunk in snapshot.chunks:
            self._drop(chunk)

    def _drop(self, chunk: Chunk) -> None:
        chunk.users -= 1
        if not chunk.users:
            chunk.forget()
            try:
                self._store.delete([chunk.path])
            except TocsinError as error:
                log.warning("%s; the file will be deleted at the next start", error)

    def _living(self, table: pa.Table) -> pa.Table:
        live = self._live(table.column(0).to_numpy())
        return table if live.all() else table.filter(pa.array(live))

    # --- merging

    def _merge_if_due(self, runtime: SparkRuntime) -> None:
        if self._closed or (self._merging is not None and self._merging.is_alive()):
            return
        due = self._due()
        if due and due != self._failed_merge:
            self._merging = threading.Thread(target=self._merge, args=(runtime, due), name="chunks", daemon=True)
            self._merging.start()

    def _due(self) -> list[Chunk]:
        """The smallest chunks, to be merged so that sizes stay geometric; all chunks, if many rows are deleted."""
        sealed = sum(chunk.rows for chunk in self._chunks)
        if sealed + self._tail.num_rows - self._size() > DEAD * sealed:
            return list(self._chunks)
        chunks = sorted(self._chunks, key=lambda chunk: chunk.rows, reverse=True)
        start, rows = len(chunks), 0
        for at in range(len(chunks) - 1, 0, -1):
            rows += chunks[at].rows
            if chunks[at - 1].rows < RATIO * rows:
                start = at - 1
        return chunks[start:]

    def _merge(self, runtime: SparkRuntime, old: list[Chunk]) -> None:
        try:
            table = pa.concat_tables([self._living(self._store.read(chunk.path)) for chunk in old])
            new: list[Chunk] = []
            if table.num_rows:
                written = self._store.write(table, self._folder)
                new.append(Chunk(written.path, written.rows))
                with runtime.pool("maintenance"):
                    # Load it into Spark's memory before the first reader needs it.
                    new[0].frame(runtime.session, self._store.uri(written.path)).count()
        except (TocsinError, *_SPARK) as error:
            log.warning("cannot merge chunks of subscriptions: %s", error)
            # Try again only when there is another chunk or another session, not for every reader.
            self._failed_merge = old
            return
        with self._lock:
            if self._closed:
                for chunk in new:
                    self._drop(chunk)
                return
            self._chunks = new + [chunk for chunk in self._chunks if chunk not in old]
            for chunk in old:
                self._drop(chunk)
            # The next reader builds a view of the new chunks.
            self._tail_frame = None
