"""A growing table for Spark in chunks: the newest rows inside the plan, older ones sealed and kept in Spark's memory.

Like a log-structured merge tree: a chunk is at least ``RATIO`` times the next one, so there are only a handful, and a
row is rewritten a few times at most. Merging goes on in the background; whoever reads holds on to what it reads.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
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

#: Rows that travel inside the plan.
TAIL_ROWS = 10_000
#: A chunk smaller than this many times its successor is merged with it.
RATIO = 4
#: Chunks are rewritten when more than this part of their rows is dead.
DEAD = 0.2

_numbers = count(1)
#: What Spark raises, also when its JVM is dead.
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
        """Read again where the session is a new one."""
        if self._frame is None or self._session is not session:
            self._session, self._frame = session, session.read.parquet(uri).persist(StorageLevel.MEMORY_AND_DISK)
        return self._frame

    def forget(self) -> None:
        if self._frame is not None:
            with suppress(*_SPARK):  # a session that died has forgotten it already
                self._frame.unpersist()
            self._frame = self._session = None


class Snapshot:
    """What one temp view reads. ``users`` counts the readers, and the table while it is the current one."""

    def __init__(self, name: str, session: SparkSession, chunks: tuple[Chunk, ...]) -> None:
        self.name = name
        self.session = session
        self.chunks = chunks
        self.users = 1


class ChunkedView:
    """``take`` gives the rows added since it was last called, ``live`` says which ids of column 0 still exist, and
    ``size`` how many there are."""

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
        self._current: Snapshot | None = None
        self._merging: threading.Thread | None = None
        self._given_up: list[Chunk] = []
        self._closed = False

    @contextmanager
    def hold(self, runtime: SparkRuntime) -> Iterator[str]:
        """The name of a view with all rows there are now; it stays while it is held."""
        snapshot = self._acquire(runtime)
        try:
            yield snapshot.name
        finally:
            with self._lock:
                self._release(snapshot)

    def paths(self) -> set[str]:
        with self._lock:
            return {chunk.path for chunk in self._chunks}

    def wait(self) -> None:
        """Until no merge is running."""
        merging = self._merging
        if merging is not None:
            merging.join()

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

    def _acquire(self, runtime: SparkRuntime) -> Snapshot:
        with self._lock:
            session = runtime.session
            added = self._take()
            if added.num_rows:
                # Kept before anything that can fail: what was taken is not given again.
                self._tail = pa.concat_tables([self._tail, added])
                self._tail_frame = None
            current = self._current
            if current is None or current.session is not session or self._tail_frame is None:
                current = self._build(runtime, session)
            current.users += 1
            self._merge_if_due(runtime)
            return current

    def _build(self, runtime: SparkRuntime, session: SparkSession) -> Snapshot:
        before = self._current
        if before is None or before.session is not session:
            self._tail_frame = None
            self._given_up = []
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
        snapshot = Snapshot(f"tocsin_chunks_{next(_numbers)}", session, tuple(self._chunks))
        reduce(lambda left, right: left.unionAll(right), frames).createOrReplaceTempView(snapshot.name)
        for chunk in snapshot.chunks:
            chunk.users += 1
        self._current = snapshot
        if before is not None:
            self._release(before)
        return snapshot

    def _release(self, snapshot: Snapshot) -> None:
        snapshot.users -= 1
        if snapshot.users:
            return
        with suppress(*_SPARK):  # a session that died has no views any more
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
                log.warning("%s; the next start deletes it", error)

    def _living(self, table: pa.Table) -> pa.Table:
        live = self._live(table.column(0).to_numpy())
        return table if live.all() else table.filter(pa.array(live))

    # --- merging

    def _merge_if_due(self, runtime: SparkRuntime) -> None:
        if self._closed or (self._merging is not None and self._merging.is_alive()):
            return
        due = self._due()
        if due and due != self._given_up:
            self._merging = threading.Thread(target=self._merge, args=(runtime, due), name="chunks", daemon=True)
            self._merging.start()

    def _due(self) -> list[Chunk]:
        """The smallest chunks that have to become one, so that sizes stay geometric; all, where many rows are dead."""
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
                    # In Spark's memory before anyone reads it.
                    new[0].frame(runtime.session, self._store.uri(written.path)).count()
        except (TocsinError, *_SPARK) as error:
            log.warning("subscriptions could not be merged: %s", error)
            # Not with every reader again: when there is another chunk, or another session.
            self._given_up = old
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
