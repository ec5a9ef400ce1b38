"""A database in one SQLite file with a write-ahead log; a commit is on disk when it returns."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import Any

from tocsin.database.interface import Pool, Row, this_process
from tocsin.database.layout import Layout
from tocsin.database.sqlite_session import DIALECT, SqliteSession
from tocsin.errors import Conflict, StorageError, TocsinError, UserError

REASONS = {
    sqlite3.SQLITE_FULL: ("the disk of the {what} is full", "free some space and try again"),
    sqlite3.SQLITE_READONLY: ("the {what} cannot be written", "check the permissions of the folder and the file"),
    sqlite3.SQLITE_CANTOPEN: ("the {what} cannot be opened", "check that the folder exists and is writable"),
    sqlite3.SQLITE_CORRUPT: ("the {what} file is damaged", "restore it from a backup"),
    sqlite3.SQLITE_NOTADB: ("the {what} file is not a {what}", "restore it from a backup, or choose another home"),
    sqlite3.SQLITE_BUSY: ("another process has locked the {what}", "stop the process that has the file open"),
    sqlite3.SQLITE_IOERR: ("the disk of the {what} fails", "check the disk"),
}


@contextmanager
def _translated(what: str, path: Path, *, committing: bool = False) -> Iterator[None]:
    """Turn errors of SQLite into errors of Tocsin."""
    try:
        yield
    except sqlite3.IntegrityError as error:
        raise Conflict(f"the {what} rejects the change: {error}") from error
    except (OverflowError, UnicodeEncodeError, sqlite3.DataError) as error:
        raise UserError(f"the {what} cannot store this value: {error}") from error
    except sqlite3.Error as error:
        # The low byte is the primary error code.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        reason, hint = REASONS.get(code, ("the {what} fails", ""))
        reason = reason.format(what=what)
        # A failed write of the log is rolled back; a failed sync may still have reached the disk.
        if committing and code == sqlite3.SQLITE_IOERR:
            raise StorageError(f"uncertain: {reason}: {error}", hint=hint, path=str(path), uncertain=True) from error
        raise StorageError(f"{reason}: {error}", hint=hint, path=str(path)) from error


class SqliteDatabase:
    def __init__(self, path: Path, layout: Layout) -> None:
        self._path = path
        self._layout = layout
        self._lock = Lock()
        self._lease: int | None = None
        self._closed = False
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"cannot create the folder of the {layout.what}: {error}", hint="choose another home"
            ) from error
        with suppress(OSError):  # SQLite says what is wrong; the files beside it get the same permissions
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        with _translated(self._layout.what, self._path):
            self._writer = self._connect()
        self._readers = Pool(self._connect)
        try:
            self._create()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA foreign_keys = ON")
            connection.execute("PRAGMA temp_store = MEMORY")
            connection.execute("PRAGMA cache_size = -16384")
        except BaseException:
            connection.close()
            raise
        return connection

    def _create(self) -> None:
        with self.writing() as session:
            if not session.rows("SELECT 1 FROM sqlite_master WHERE name = 'meta'"):
                for statement in self._layout.statements(DIALECT):
                    session.run(statement)
                session.run("INSERT INTO meta (name, value) VALUES ('version', ?)", (self._layout.version,))
            self._layout.check_version(session)

    @contextmanager
    def writing(self) -> Iterator[SqliteSession]:
        with self._lock:
            if self._closed:
                raise self._layout.closed()
            try:
                with _translated(self._layout.what, self._path):
                    self._writer.execute("BEGIN IMMEDIATE")
                    yield SqliteSession(self._writer)
                with _translated(self._layout.what, self._path, committing=True):
                    self._writer.execute("COMMIT")
            except BaseException:
                # With a full disk, SQLite has already rolled back.
                if self._writer.in_transaction:
                    with suppress(sqlite3.Error):
                        self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def reading(self) -> Iterator[SqliteSession]:
        if self._closed:
            raise self._layout.closed()
        with _translated(self._layout.what, self._path):
            connection = self._readers.take()
            try:
                connection.execute("BEGIN")
                yield SqliteSession(connection)
                connection.execute("COMMIT")
            except BaseException as error:
                if not isinstance(error, TocsinError):
                    connection.close()
                    raise
                connection.execute("ROLLBACK")
                self._readers.give(connection)
                raise
            self._readers.give(connection)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        with self.reading() as session:
            return session.rows(sql, values)

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        if self._closed:
            raise self._layout.closed()
        with _translated(self._layout.what, self._path):
            connection = self._connect()
            try:
                cursor = connection.execute(sql, values)
                while rows := cursor.fetchmany(10_000):
                    yield from rows
            finally:
                connection.close()

    def lease(self) -> None:
        """A lock on a file beside the database; the kernel releases it however the process ends."""
        if self._lease is not None:
            return
        path = self._path.with_suffix(".lock")
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise StorageError(f"cannot open the lock file of the {self._layout.what}: {error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(handle, 0)
            os.pwrite(handle, json.dumps(this_process()).encode(), 0)
        except BlockingIOError as error:
            text = os.pread(handle, 4096, 0)
            os.close(handle)
            # The holder may have taken the lock but not yet written its name.
            raise self._layout.held(json.loads(text or "{}")) from error
        except OSError as error:
            os.close(handle)
            raise StorageError(f"cannot lock the {self._layout.what}: {error}") from error
        self._lease = handle

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._readers.clear(keep=0)
            self._writer.close()
            if self._lease is not None:
                os.close(self._lease)
                self._lease = None
