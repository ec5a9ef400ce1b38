"""The segment store: immutable Parquet files under one root, durable when ``write`` returns.

Paths are relative to the root, so that the root can move. A path names a file (``….parquet``) or a folder of part files
that Spark wrote.
"""

from __future__ import annotations

import errno
import os
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from msgspec import Struct

from tocsin.errors import Damaged, StorageError

#: Up to this size compression and dictionaries cost more than they save (measured: 0.12 against 0.44 ms per file).
TINY_ROWS = 1_000
#: Rows of a Parquet row group, unless the caller gives a number: an eighth of the file within these bounds. Several
#: groups, because one core reads one group; not too small, because each group has overhead.
ROW_GROUP = (16 * 1024, 128 * 1024)

#: The folders of the data cluster; other files in the segment path are never deleted.
OURS = ("datasets/", "results/", "subscriptions/")

#: Bytes without which a disk counts as full.
ROOM = 64 * 1024

_OWNER = "tocsin-owner"
_SUFFIX = ".parquet"
#: The file that Spark writes when all tasks of a job have committed theirs.
_COMMITTED = "_SUCCESS"
_TEMPORARY = ".tmp-"
#: The name that ``SegmentStore.name`` makes, if it is a folder.
_SPARK_FOLDER = re.compile(r"(?:[^/]+/)*?[0-9a-f]{32}/")
_HINTS = {
    errno.ENOSPC: "the disk is full: free some space",
    errno.EDQUOT: "the quota is used up: free some space",
    errno.EFBIG: "the file would exceed the largest size allowed here",
    errno.EROFS: "the file system is read-only",
    errno.EACCES: "check who owns the segment path and its permissions",
    errno.EPERM: "check who owns the segment path and its permissions",
    errno.ENOENT: "the file is missing: check whether it was deleted or the volume unmounted",
}


class Written(Struct, frozen=True):
    path: str
    rows: int
    bytes: int


class SegmentStore:
    """``root`` is a local path or any URL that pyarrow.fs knows (``file://``, ``hdfs://``, ``s3://``, …)."""

    def __init__(self, root: str) -> None:
        self._known: set[str] = set()
        try:
            self._fs, base = pafs.FileSystem.from_uri(root) if "://" in root else (pafs.LocalFileSystem(), root)
            #: Files on this machine have to be synced; others are durable when they are closed.
            self._local = isinstance(self._fs, pafs.LocalFileSystem)
            self._base = str(Path(base).resolve()) if self._local else base.rstrip("/")
            # Hadoop does not percent-decode the path of a URI.
            self._uri = f"file://{self._base}" if self._local else root.split("?", 1)[0].rstrip("/")
            self._make(self._base)
        except (OSError, pa.ArrowException) as error:
            raise _trouble("open the segment path", root, error) from error

    def _at(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _make(self, folder: str, above: Path | None = None) -> None:
        if self._local:
            _make_durably(Path(folder), above)
        else:
            self._fs.create_dir(folder, recursive=True)

    def _sync(self, path: str) -> None:
        if self._local:
            _sync(path)

    def uri(self, path: str) -> str:
        """The address for Spark."""
        return f"{self._uri}/{path}"

    def name(self, folder: str) -> str:
        """A new unique path in ``folder``, without suffix: for a folder that Spark will write."""
        return f"{folder.strip('/')}/{uuid.uuid4().hex}"

    def write(self, table: pa.Table, folder: str, *, row_group: int | None = None) -> Written:
        path = self.name(folder) + _SUFFIX
        target = self._at(path)
        parent, _, name = target.rpartition("/")
        # In an object store an incomplete file is never visible; other file systems need the rename.
        direct = self._fs.type_name in ("s3", "gcs", "abfs")
        temporary = target if direct else f"{parent}/{_TEMPORARY}{name}"
        with storage_errors("write segment", path):
            if parent not in self._known and not direct:
                self._make(parent, above=Path(self._base))
                self._known.add(parent)
            try:
                with self._fs.open_output_stream(temporary) as sink:
                    _encode(table, sink, row_group)
                    size = sink.tell()
                self._sync(temporary)
                if not direct:
                    self._fs.move(temporary, target)
                self._sync(parent)
            except BaseException as error:
                with suppress(OSError, pa.ArrowException):
                    self._fs.delete_file(temporary)
                if isinstance(error, FileNotFoundError):
                    self._known.discard(parent)
                raise
        return Written(path, table.num_rows, size)

    def open(self, path: str) -> pq.ParquetFile:
        """One file, for streaming."""
        with self.reading(path):
            return pq.ParquetFile(self._at(path), filesystem=self._fs)

    def verify(self, path: str, rows: int, columns: Iterable[str], *, pages: bool = False) -> None:
        """Raise Damaged unless the file has these rows and columns; ``pages``: and all of it can be read."""
        with self.open(path) as file, self.reading(path):
            missing = set(columns) - set(file.schema_arrow.names)
            if missing or file.metadata.num_rows != rows:
                raise ValueError(
                    f"it is another file: {file.metadata.num_rows} of {rows} rows, without {missing or {}}"
                )
            if pages:
                for _ in file.iter_batches():
                    pass

    def stamp(self, path: str) -> tuple[int, int] | None:
        """Size and time of a file, by which another one in its place is noticed; None for files on other machines."""
        if not self._local:
            return None
        try:
            found = Path(self._at(path)).stat()
        except OSError:
            return (-1, -1)
        return (found.st_size, found.st_mtime_ns)

    def read(self, path: str, columns: Sequence[str] | None = None) -> pa.Table:
        """A file, or all part files of a folder."""
        tables = []
        for part in self.parts(path):
            with self.open(part) as file, self.reading(part):
                many = file.metadata.num_rows > TINY_ROWS
                tables.append(file.read(columns=None if columns is None else list(columns), use_threads=many))
        if not tables:
            raise Damaged(f"cannot read segment {path}: the folder has no part files", path=path)
        with self.reading(path):
            return tables[0] if len(tables) == 1 else pa.concat_tables(tables, promote_options="permissive")

    def parts(self, path: str) -> list[str]:
        """The files that ``path`` stands for: itself, or the part files of a folder."""
        if path.endswith(_SUFFIX):
            return [path]
        with self.reading(path):
            return sorted(file for file in self._walk(path) if _is_part(file[len(path) + 1 :]))

    @contextmanager
    def reading(self, path: str) -> Iterator[None]:
        """As ``storage_errors``. Raises Damaged where another try cannot help: the file may have other columns."""
        try:
            yield
        except (OSError, KeyError, ValueError, pa.ArrowException) as error:
            raise _trouble("read segment", path, error, Damaged if self._damaged(error) else StorageError) from error

    def _damaged(self, error: Exception) -> bool:
        if isinstance(error, FileNotFoundError):
            with suppress(OSError, pa.ArrowException):
                return self._owner() is not None  # else the whole segment path is missing: a volume is not mounted
            return False
        if isinstance(error, OSError):  # a remote file system raises it without a number when it cannot be reached
            return self._local and error.errno in (None, errno.EIO)
        return not isinstance(error, pa.ArrowMemoryError | pa.ArrowCancelled)

    def adopt(self, folder: str) -> list[Written]:
        """The part files of a folder that Spark wrote, made durable. Raises StorageError unless Spark has committed
        its job: until then there may be files of tasks that have failed or are still running."""
        with storage_errors("make durable", folder):
            if self._fs.get_file_info(self._at(f"{folder}/{_COMMITTED}")).type != pafs.FileType.File:
                raise StorageError(
                    f"Spark has not committed its files in {folder}",
                    hint="mapreduce.fileoutputcommitter.marksuccessfuljobs must not be switched off",
                    path=folder,
                )
            parts = self.parts(folder)
            for path in (*parts, *{str(parent) for part in parts for parent in Path(part).parents}):
                self._sync(self._at(path))
        return [Written(part, self._rows(part), self._size(part)) for part in parts]

    def _rows(self, path: str) -> int:
        with self.open(path) as file:
            return int(file.metadata.num_rows)

    def _size(self, path: str) -> int:
        with storage_errors("inspect segment", path):
            return int(self._fs.get_file_info(self._at(path)).size)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files and folders; a missing one is not an error. A folder of Spark goes with its last part file."""
        folders = set()
        for path in paths:
            with storage_errors("delete segment", path), suppress(FileNotFoundError):
                where = self._at(_inside(path))
                kind = self._fs.get_file_info(where).type
                if kind == pafs.FileType.Directory:
                    self._delete_folder(path)
                elif kind == pafs.FileType.File:
                    self._fs.delete_file(where)
                    if (spark := _SPARK_FOLDER.match(path)) is not None:
                        folders.add(spark[0].rstrip("/"))
        for folder in folders:
            with storage_errors("delete segment", folder), suppress(FileNotFoundError):
                if not any(_is_part(file[len(folder) + 1 :]) for file in self._walk(folder)):
                    self._delete_folder(folder)

    def _delete_folder(self, path: str) -> None:
        where = self._at(path)
        self._fs.delete_dir(where)
        self._known = {known for known in self._known if not Path(known).is_relative_to(where)}

    def check_room(self) -> None:
        """Raise StorageError if nothing can be written. Other file systems than this machine's are not tried."""
        if self._local:
            path = f"{_TEMPORARY}room"
            with storage_errors("write to the segment path", path):
                try:
                    with self._fs.open_output_stream(self._at(path)) as sink:
                        sink.write(bytes(ROOM))
                finally:
                    with suppress(OSError):
                        self._fs.delete_file(self._at(path))

    def claim(self, identity: int) -> None:
        """Reserve the path for one catalog, so that no other catalog reads or deletes its files."""
        with storage_errors("claim the segment path", _OWNER):
            owner = self._owner()
            if owner is None:
                if any(path.startswith(OURS) for path in self._walk("")):
                    owner = "unknown"
                else:
                    self._set_owner(str(identity))
                    return
        if owner != str(identity):
            raise StorageError(
                "the segment path holds the data of another catalog",
                hint="use a different segment path for each catalog, or restore the catalog of this segment path",
            )

    def _owner(self) -> str | None:
        try:
            with self._fs.open_input_file(self._at(_OWNER)) as file:
                return bytes(file.read()).decode().strip()
        except FileNotFoundError:
            return None

    def _set_owner(self, text: str) -> None:
        with self._fs.open_output_stream(self._at(_OWNER)) as file:
            file.write(text.encode())
        self._sync(self._at(_OWNER))
        self._sync(self._base)

    def orphans(self, referenced: set[str]) -> list[str]:
        """The files that are neither referenced nor in a referenced folder. Call it before anything is written."""
        with storage_errors("list the segment path", ""):
            files = list(self._walk(""))
        return sorted(path for path in files if path != _OWNER and not _covered(path, referenced))

    def _walk(self, folder: str) -> Iterator[str]:
        for info in self._fs.get_file_info(pafs.FileSelector(self._at(folder).rstrip("/"), recursive=True)):
            if info.type == pafs.FileType.File:
                yield info.path[len(self._base) + 1 :]


def _encode(table: pa.Table, sink: pa.NativeFile, row_group: int | None) -> None:
    tiny = table.num_rows <= TINY_ROWS
    # The encoder writes page by page; for a small file one write is cheaper.
    target = pa.BufferOutputStream() if tiny else sink
    pq.write_table(
        table,
        target,
        row_group_size=row_group or min(max(table.num_rows // 8, ROW_GROUP[0]), ROW_GROUP[1]),
        compression="none" if tiny else "zstd",
        use_dictionary=False,
        write_statistics=not tiny,
    )
    if tiny:
        sink.write(target.getvalue())


def _make_durably(folder: Path, above: Path | None = None) -> None:
    """mkdir -p with every new folder synced. Creates nothing outside ``above``: a missing root is an error."""
    if folder.is_dir():
        return
    parent = folder.parent
    if parent != above and parent != folder:
        _make_durably(parent, above)
    folder.mkdir(exist_ok=True)
    _sync(parent)


def _sync(path: str | Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _inside(path: str) -> str:
    if path.startswith("/") or ".." in path.split("/") or not path:
        raise ValueError(f"not a path inside the segment store: {path!r}")
    return path


def _is_part(path: str) -> bool:
    """``path`` is relative to the folder: what a failed task leaves in ``_temporary`` is not a part."""
    return path.endswith(_SUFFIX) and not any(piece.startswith(("_", ".")) for piece in path.split("/"))


def _covered(path: str, referenced: set[str]) -> bool:
    while path:
        if path in referenced:
            return True
        path = path.rpartition("/")[0]
    return False


@contextmanager
def storage_errors(doing: str, path: str) -> Iterator[None]:
    """Say what failed, with which file, and what to do."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        raise _trouble(doing, path, error) from error


def _trouble(doing: str, path: str, error: Exception, kind: type[StorageError] = StorageError) -> StorageError:
    number = error.errno if isinstance(error, OSError) else None
    if number is None:
        hint = "the file is damaged: restore it from a copy" if doing == "read segment" else ""
        reason = str(error).splitlines()[0]
    else:
        hint, reason = _HINTS.get(number, ""), os.strerror(number)
    return kind(f"cannot {doing} {path}: {reason}".replace(" :", ":"), hint=hint, path=path)
