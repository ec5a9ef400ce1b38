"""Feeds that read new files of a directory through Structured Streaming, each file exactly once; and LOAD DATASET.

A thread checks the directory every second, which costs almost nothing, and runs the streaming query (``availableNow``)
only if a file was added: a query that is always active takes several per cent of a core while idle. Files must appear
complete (write elsewhere, then rename); names that begin with ``.`` or ``_`` are not read.

Exactly once: Spark stores which files are in batch N before it runs it, repeats N with the same files after a crash,
and ``take`` skips a batch that it has committed. The upper half of a batch number is the generation of the checkpoint
folder: if the folder is lost, Spark counts from 0 again, and without the generation the new batches would be skipped.
(The files that still exist are then read again.)
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.serializers import NoOpSerializer
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.util import _load_from_socket

from tocsin.cluster.ingest.file_source import (
    REASONS,
    CheckedRows,
    FileSource,
    check_links,
    check_path,
    file_source,
    marked,
    reader_options,
    schema_ddl,
    split_rows,
)
from tocsin.cluster.model import Column
from tocsin.cluster.spark.session import SparkRuntime, causes
from tocsin.errors import NotFound, QueryFailed, UserError
from tocsin.wire.backoff import ceiling

__all__ = ["CheckedRows", "FileFeed", "FileSource", "check_path", "file_source", "load_files"]

Take = Callable[[int, pa.Table, int], None]
State = Literal["stopped", "running", "failing"]

# A batch is collected in the driver, so its size is limited (to one file at least).
BATCH_BYTES = 64 * 1024 * 1024
# After a change this recent, another one may have the same time stamp: check again.
SETTLED = 2.0
LONGEST_BACKOFF = 60.0
# Seconds between two checks of a remote folder, which only Spark can list.
REMOTE = 10.0


class FileFeed:
    """Calls ``take(batch number, rows, refused)`` for every batch of new files, one at a time."""

    def __init__(
        self,
        runtime: SparkRuntime,
        *,
        feed: str,
        columns: tuple[Column, ...],
        options: dict[str, Any],
        checkpoint: str,
        take: Take,
        trigger: float = 1.0,
    ) -> None:
        self.source = file_source(options, runtime.config.load_paths)
        self.feed = feed
        self._runtime = runtime
        self._columns = columns
        self._checkpoint = Path(checkpoint).resolve()
        self._take = take
        self._trigger = trigger
        self._thread: threading.Thread | None = None
        self._query: Any = None
        self._changed = threading.Condition()
        self._stopping = False
        self._state: State = "stopped"
        self._error: str | None = None
        self._failures = 0
        self._batch: int | None = None
        self._rows = self._refused = 0
        self._reasons: deque[str] = deque(maxlen=REASONS)

    def start(self) -> None:
        with self._changed:
            if self._thread is not None:
                return
            self._stopping, self._state, self._error = False, "running", None
            self._thread = threading.Thread(target=self._watch, name=f"feed-{self.feed}", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop and wait for the running batch; an interrupted batch is repeated at the next start."""
        with self._changed:
            thread, self._stopping = self._thread, True
            self._changed.notify_all()
        if thread is None:
            return
        while thread.is_alive():
            query = self._query
            if query is not None and self._runtime.alive():
                with suppress(Py4JError, PySparkException):  # it has ended already
                    query.stop()
            thread.join(0.1)
        with self._changed:
            self._thread, self._state = None, "stopped"

    def status(self) -> dict[str, Any]:
        with self._changed:
            return {
                "state": self._state,
                "batch": self._batch,
                "rows": self._rows,
                "refused": self._refused,
                "reasons": list(self._reasons),
                "error": self._error,
                "failures": self._failures,
            }

    def read(self) -> None:
        """Read all new files now. An error (a broken file, a full disk, a dead JVM) is raised, and in the status."""
        try:
            self._run()
        except Exception as error:
            self._report(_summary(error))
            raise
        self._report(None)

    # --- the thread

    def _watch(self) -> None:
        seen: object = None
        while not self._stopping:
            mark, settled = _signature(self.source)
            pause = self._trigger if self.source.local else max(self._trigger, REMOTE)
            if mark is None or mark != seen:
                try:
                    self.read()
                    seen = mark if settled else None
                except Exception:  # it tries again
                    pause = ceiling(self._failures, self._trigger, LONGEST_BACKOFF)
            with self._changed:
                self._changed.wait_for(lambda: self._stopping, pause)

    def _report(self, error: str | None) -> None:
        with self._changed:
            if self._stopping:
                return  # an interrupted query is not a failure
            self._error = error
            self._failures = self._failures + 1 if error else 0
            self._state = "failing" if error else "running"

    def _run(self) -> None:
        """Read all new files, in batches of limited size."""
        source = self.source
        check_path(source.path, self._runtime.config.load_paths)  # a symbolic link may have changed
        check_links(source, self._runtime.config.load_paths)
        if source.local and not Path(source.path).is_dir():
            raise UserError(f"there is no folder {source.path!r}", hint="create it; the feed then continues")
        session = self._runtime.session
        generation = _generation(self._checkpoint)
        reader = session.readStream.format(source.format).schema(schema_ddl(source, self._columns))
        stream = reader.options(
            **reader_options(source),
            maxBytesPerTrigger=str(BATCH_BYTES),
            # By default Spark skips files that are a week older than the newest one, such as a copied archive.
            maxFileAge="36500d",
        ).load(source.path)

        failed: list[Exception] = []

        def each(df: DataFrame, number: int) -> None:
            try:
                _harden(self._checkpoint, number)
                checked = split_rows(df.toArrow(), self._columns)
                self._take(generation << 31 | number, checked.table, checked.refused)
            except Exception as error:
                failed.append(error)  # Spark would only return a stack trace as text
                raise
            self._count(generation << 31 | number, checked)

        with self._runtime.pool(f"feed-{self.feed}"):
            writer = marked(stream, source, self._columns).writeStream.foreachBatch(each).trigger(availableNow=True)
            self._query = writer.option("checkpointLocation", self._checkpoint.as_uri()).start()
        try:
            if self._stopping:
                self._query.stop()
            self._query.awaitTermination()
        except PySparkException:
            if failed:
                raise failed[0] from None
            raise
        finally:
            self._query = None

    def _count(self, number: int, checked: CheckedRows) -> None:
        with self._changed:
            self._batch = number
            self._rows += checked.table.num_rows
            self._refused += checked.refused
            self._reasons.extend(checked.reasons)


def _signature(source: FileSource) -> tuple[object, bool]:
    """A value that changes when a file is added (None if unknown), and whether it is old enough to be reliable."""
    if not source.local:
        return None, True
    try:
        folders = [folder for folder, _, _ in os.walk(source.path)] if source.recursive else [source.path]
        stats = [(folder, stat.st_ino, stat.st_mtime_ns) for folder in folders if (stat := Path(folder).stat())]
    except OSError:
        return None, True
    newest = max((mtime for _, _, mtime in stats), default=0)
    return tuple(stats), abs(time.time_ns() - newest) > SETTLED * 1e9


def _generation(checkpoint: Path) -> int:
    """The number of the checkpoint folder, from its creation time; durable before its first batch."""
    checkpoint.mkdir(parents=True, exist_ok=True)
    path = checkpoint / "generation"
    if path.is_file():
        return int(path.read_text())
    handle, draft = tempfile.mkstemp(dir=checkpoint)
    with os.fdopen(handle, "w") as out:
        out.write(str(int(time.time())))
        out.flush()
        os.fsync(out.fileno())
    Path(draft).replace(path)
    _sync(checkpoint)
    return int(path.read_text())


def _harden(checkpoint: Path, number: int) -> None:
    """Sync the files of Spark's checkpoint: otherwise a committed batch could have other files after a power cut."""
    for folder in (checkpoint / "offsets", checkpoint / "sources" / "0"):
        for name in (str(number), f"{number}.compact"):
            if (folder / name).is_file():
                _sync(folder / name)
        if folder.is_dir():
            _sync(folder)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _summary(error: Exception) -> str:
    """An error and its causes, in one line."""
    return ": ".join(text[:300] for text in causes(error)[:4])


# --- LOAD DATASET

PARTITION_BYTES = 32 * 1024 * 1024


def load_files(
    runtime: SparkRuntime,
    path: str,
    format: str,
    columns: tuple[Column, ...],
    options: dict[str, Any] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Iterator[CheckedRows]:
    """The rows of a file, a folder or a pattern, in pieces of limited size; ``progress`` gets the finished fraction.

    A compressed or multi-line file is one piece, because it cannot be split.
    """
    source = file_source({"path": path, "format": format, "options": options or {}}, runtime.config.load_paths)
    files = _files(source, runtime.config.load_paths)
    # A separate session, because its smaller partitions are only for this load.
    session = runtime.session.newSession()
    session.conf.set("spark.sql.files.maxPartitionBytes", str(PARTITION_BYTES))
    with runtime.pool("load"):
        try:
            reader = session.read.format(source.format).schema(schema_ddl(source, columns))
            df = marked(reader.options(**reader_options(source)).load(files), source, columns)
            schema = to_arrow_schema(df.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
            batches = df._jdf.toArrowBatchRdd()
            total = batches.getNumPartitions()
        except PySparkException as error:
            raise QueryFailed(f"cannot load {path!r}: {_summary(error)}") from error
    step = max(1, runtime.session.sparkContext.defaultParallelism)
    for first in range(0, total, step):
        numbers = range(first, min(first + step, total))
        with runtime.pool("load"):
            try:
                pieces = _collect(runtime, batches, numbers)
            except (PySparkException, Py4JError) as error:
                raise QueryFailed(f"cannot load {path!r}: {_summary(error)}") from error
        read = [pa.ipc.read_record_batch(pa.py_buffer(piece), schema) for piece in pieces]
        checked = split_rows(pa.Table.from_batches(read, schema), columns)
        if checked.table.num_rows or checked.refused:
            yield checked
        if progress is not None:
            progress(numbers[-1] / total + 1 / total)


def _collect(runtime: SparkRuntime, batches: Any, numbers: range) -> list[bytes]:
    """Run only some partitions, which a DataFrame cannot do: limits the memory and uses all cores."""
    context = runtime.session.sparkContext
    partitions = context._jvm.java.util.ArrayList()
    for number in numbers:
        partitions.add(number)
    answer = context._jvm.PythonRDD.runJob(context._jsc.sc(), batches.toJavaRDD(), partitions)
    with _load_from_socket(answer, NoOpSerializer()) as stream:
        return list(stream)


def _files(source: FileSource, allowed: tuple[str, ...]) -> list[str]:
    """The paths for Spark, with escaped wildcards: patterns are expanded here, so that each match can be checked."""
    if not source.local:
        return [source.path]
    path = Path(source.path)
    if path.exists():
        check_links(source, allowed)
        return [_escaped(str(path))]
    anchor = Path(path.anchor)
    matches = sorted(anchor.glob(str(path.relative_to(anchor)))) if any(sign in source.path for sign in "*?[") else []
    if not matches:
        raise NotFound("file or folder", source.path)
    return [_escaped(check_path(str(one), allowed)) for one in matches]


def _escaped(path: str) -> str:
    return "".join("\\" + sign if sign in "*?[]{}\\" else sign for sign in path)
