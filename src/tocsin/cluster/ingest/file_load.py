"""LOAD DATASET: the files of a load as a DataFrame, with the reason why a row does not fit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from tocsin.cluster.ingest.file_source import (
    ORDER,
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
from tocsin.config import ClusterConfig
from tocsin.errors import NotFound, QueryFailed, TocsinError

#: Seconds between two reports of progress.
REPORT = 0.5
#: Compressed files are about so many times as large in memory.
COMPRESSED = 10
_COMPRESSIONS = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate", ".xz", ".parquet")


class LoadSource(Struct, frozen=True):
    """``bytes``: about how large the rows are; None if that is unknown."""

    frame: DataFrame
    order: tuple[str, ...]
    bytes: int | None


def load_source(
    runtime: SparkRuntime,
    path: str,
    format: str,
    columns: tuple[Column, ...],
    options: dict[str, Any] | None = None,
    *,
    ordered: bool = False,
) -> LoadSource:
    """The rows of a file, a folder or a pattern, with REASON and, if ``ordered``, ORDER."""
    source = file_source({"path": path, "format": format, "options": options or {}}, runtime.config)
    files = _files(source, runtime.config)
    reader = runtime.session.read.format(source.format).schema(schema_ddl(source, columns))
    frame = reader.options(**reader_options(source)).load([escaped(file) if source.local else file for file in files])
    size = sum(_size(Path(file)) for file in files) if source.local else None
    return LoadSource(marked(frame, source, columns, ordered=ordered), ORDER if ordered else (), size)


@contextmanager
def loading(runtime: SparkRuntime, path: str, progress: Callable[[float], None]) -> Iterator[None]:
    """Reports the progress of a load, and says of which one an error is."""
    ended = threading.Event()

    def report(group: str) -> None:
        while not ended.wait(REPORT):
            with suppress(TocsinError, Py4JError, OSError):  # Spark may have died: the load says so
                progress(runtime.progress(group))

    with runtime.pool("load") as group:
        reporter = threading.Thread(target=report, args=(group,), name="load-progress", daemon=True)
        reporter.start()
        try:
            yield
        except (PySparkException, Py4JError) as error:  # Hadoop's own, if there is no connector for the scheme
            summary = ": ".join(text[:300] for text in causes(error)[:4])
            raise QueryFailed(f"cannot load {path!r}: {summary}") from error
        finally:
            ended.set()
            reporter.join()


def _size(path: Path) -> int:
    """The bytes of a file or of all files under a folder; compressed ones count as many times."""
    files = (file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    return sum(file.stat().st_size * (COMPRESSED if file.name.lower().endswith(_COMPRESSIONS) else 1) for file in files)


def _files(source: FileSource, config: ClusterConfig) -> list[str]:
    """The files and folders; patterns are expanded here, so that each match can be checked."""
    if not source.local:
        return [source.path]
    path = Path(source.path)
    if path.exists():
        check_links(source, config)
        return [str(path)]
    anchor = Path(path.anchor)
    matches = sorted(anchor.glob(str(path.relative_to(anchor)))) if any(sign in source.path for sign in "*?[") else []
    if not matches:
        raise NotFound("file or folder", source.path)
    return [check_path(str(one), config) for one in matches]
