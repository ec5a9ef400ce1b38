"""Feeds that read a file, or new files of a directory, through Structured Streaming, each file exactly once.

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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tocsin.cluster.ingest.file_source import (
    FileSource,
    check_links,
    check_path,
    escaped,
    file_source,
    marked,
    reader_options,
    schema_ddl,
)
from tocsin.cluster.model import Column
from tocsin.cluster.spark.session import SparkRuntime, causes
from tocsin.cluster.storage.bulk_writer import REASONS, Taken
from tocsin.errors import UserError
from tocsin.wire.backoff import ceiling

Take = Callable[[int, DataFrame], Taken]
State = Literal["stopped", "running", "failing"]

# A batch is one commit, so its size is limited (to one file at least).
BATCH_BYTES = 256 * 1024 * 1024
# After a change this recent, another one may have the same time stamp: check again.
SETTLED = 2.0
LONGEST_BACKOFF = 60.0
# Seconds between two checks of a remote folder, which only Spark can list.
REMOTE = 10.0


class FileFeed:
    """Calls ``take(batch number, rows)`` for every batch of new files, one at a time: the columns, the REASON of a row
    that does not fit and, if ``ordered``, the ORDER of the rows."""

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
        ordered: bool = False,
    ) -> None:
        self.source = file_source(options, runtime.config)
        self.feed = feed
        self._runtime = runtime
        self._columns = columns
        self._checkpoint = Path(checkpoint).resolve()
        self._take = take
        self._trigger = trigger
        self._ordered = ordered
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
        check_path(source.path, self._runtime.config)  # a symbolic link may have changed
        check_links(source, self._runtime.config)
        if source.local and not Path(source.path).exists():
            raise UserError(f"there is no folder or file {source.path!r}", hint="create it; the feed then continues")
        folder, options = source.path, reader_options(source)
        if source.local and Path(source.path).is_file():
            # Spark streams folders only.
            folder, options["pathGlobFilter"] = str(Path(source.path).parent), escaped(Path(source.path).name)
        session = self._runtime.session
        generation = _generation(self._checkpoint)
        reader = session.readStream.format(source.format).schema(schema_ddl(source, self._columns))
        stream = reader.options(
            **options,
            maxBytesPerTrigger=str(BATCH_BYTES),
            # By default Spark skips files that are a week older than the newest one, such as a copied archive.
            maxFileAge="36500d",
        ).load(escaped(folder) if source.local else folder)

        failed: list[Exception] = []

        def each(df: DataFrame, number: int) -> None:
            try:
                _harden(self._checkpoint, number)
                taken = self._take(generation << 31 | number, df)
            except Exception as error:
                failed.append(error)  # Spark would only return a stack trace as text
                raise
            self._count(generation << 31 | number, taken)

        with self._runtime.pool(f"feed-{self.feed}"):
            rows = marked(stream, source, self._columns, ordered=self._ordered)
            writer = rows.writeStream.foreachBatch(each).trigger(availableNow=True)
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

    def _count(self, number: int, taken: Taken) -> None:
        with self._changed:
            self._batch = number
            self._rows += taken.accepted
            self._refused += taken.refused
            self._reasons.extend(taken.reasons)


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
