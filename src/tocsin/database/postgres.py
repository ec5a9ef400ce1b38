"""A database in a schema of a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import LockNotAvailable

from tocsin.database.interface import Pool, Row, this_process
from tocsin.database.layout import Layout
from tocsin.errors import Conflict, StorageError, UserError

DIALECT = {
    "int": "BIGINT",
    "real": "DOUBLE PRECISION",
    "bytes": "BYTEA",
    "count": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "keyed": "",
    "plain": "",
}
LEASE = "CREATE TABLE lease (epoch BIGINT NOT NULL, host TEXT NOT NULL, pid BIGINT NOT NULL)"
HINT = "check that the server runs and that the address is right"

#: Defaults that the address can override; a server that disappears must not block for hours.
CONNECTING = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
SETTINGS = (
    "SET search_path = {schema}; SET synchronous_commit = on; SET standard_conforming_strings = on; "
    # A machine that disappears must not hold the lease for hours.
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5; SET tcp_keepalives_count = 3"
)


@lru_cache(maxsize=512)
def _native(sql: str) -> bytes:
    return sql.replace("?", "%s").encode()


@contextmanager
def _translated(what: str) -> Iterator[None]:
    """Turn errors of PostgreSQL into errors of Tocsin."""
    try:
        yield
    except psycopg.IntegrityError as error:
        raise Conflict(f"the {what} rejects the change: {error}") from error
    except (psycopg.DataError, UnicodeEncodeError, OverflowError) as error:
        raise UserError(f"the {what} cannot store this value: {error}") from error
    except psycopg.Error as error:
        # An error without a state comes from the client; 08 and 57 are lost connections and shutdowns.
        state = error.sqlstate or "08000"
        if state == "53100":
            raise StorageError(
                f"the disk of the {what} is full: {error}", hint="free some space and try again"
            ) from error
        if isinstance(error, psycopg.OperationalError) and state[:2] in ("08", "57"):
            raise StorageError(f"the {what} cannot be reached: {error}", hint=HINT) from error
        raise StorageError(f"the {what} fails: {error}") from error


class _Session:
    def __init__(self, connection: Connection[Row], layout: Layout) -> None:
        self._connection = connection
        self._layout = layout

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(_native(sql), _checked(values)).rowcount

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(_native(sql), _checked(values)).fetchall()

    def each(self, sql: str, rows: Sequence[Row]) -> None:
        if rows:
            with self._connection.cursor() as cursor:
                cursor.executemany(_native(sql), [_checked(row) for row in rows])

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        if not rows:
            return 0
        arrays = ", ".join(f"?::{self._layout.arrays.get(column, 'bigint')}[]" for column in columns)
        sql = f"INSERT INTO {table} ({', '.join(columns)}) SELECT * FROM unnest({arrays}) ON CONFLICT DO NOTHING"
        return self.run(sql, [list(column) for column in zip(*rows, strict=True)])


def _checked(values: Sequence[Any]) -> Sequence[Any]:
    # PostgreSQL would treat a larger number as a decimal and not find it.
    for value in values:
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise OverflowError(f"{value} needs more than 64 bits")
    return values


class PostgresDatabase:
    def __init__(self, url: str, layout: Layout) -> None:
        self._url = url
        self._layout = layout
        self._lock = Lock()
        self._writer: Connection[Row] | None = None
        self._leaseholder: Connection[Row] | None = None
        self._epoch: int | None = None
        self._closed = False
        self._readers: Pool[Connection[Row]] = Pool(self._connect)
        try:
            self._create()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> Connection[Row]:
        with _translated(self._layout.what):
            given = conninfo_to_dict(self._url)
            address = make_conninfo(self._url, **{name: it for name, it in CONNECTING.items() if name not in given})
            connection = psycopg.connect(address, autocommit=True, client_encoding="utf8")
            try:
                connection.execute(SETTINGS.format(schema=self._layout.schema).encode())
            except BaseException:
                connection.close()
                raise
            return connection

    def _create(self) -> None:
        with self.writing() as session:
            session.run(f"SELECT pg_advisory_xact_lock({self._layout.lock + 1})")
            # Check first, because a user of an existing database may lack the right to create one.
            if not session.rows("SELECT to_regclass('meta')::text")[0][0]:
                session.run(f"CREATE SCHEMA IF NOT EXISTS {self._layout.schema}")
                for statement in (*self._layout.statements(DIALECT), LEASE):
                    session.run(statement)
                session.run("INSERT INTO meta (name, value) VALUES ('version', ?)", (self._layout.version,))
                session.run("INSERT INTO lease (epoch, host, pid) VALUES (0, '', 0)")
            self._layout.check_version(session)

    def _begin(
        self, connection: Connection[Row] | None, sql: str, values: Sequence[Any] = ()
    ) -> tuple[Connection[Row], list[Row]]:
        """Starts a transaction, or reads, on a new connection where the old one died while it was idle."""
        while True:
            fresh = connection is None or connection.closed
            used = self._connect() if connection is None or connection.closed else connection
            try:
                return used, _last_rows(used, sql, values)
            except BaseException as error:
                used.close()
                if fresh or not isinstance(error, psycopg.OperationalError):
                    raise
                # Nothing was changed yet, so that sending it again is harmless.
                self._readers.clear()

    @contextmanager
    def writing(self) -> Iterator[_Session]:
        with self._lock:
            if self._closed:
                raise self._layout.closed()
            with _translated(self._layout.what):
                begin = "BEGIN ISOLATION LEVEL READ COMMITTED"
                if self._epoch is not None:
                    # A process that took the lease has changed the row, or waits for the end of this transaction.
                    begin += "; SELECT epoch, host, pid FROM lease FOR SHARE"
                before = self._writer
                self._writer, rows = self._begin(before, begin)
                connection = self._writer
                try:
                    if self._epoch is not None and connection is not before:
                        self._keep_lease()
                    if self._epoch is not None and rows[0][0] != self._epoch:
                        raise self._layout.held({"host": rows[0][1], "pid": rows[0][2]})
                    yield _Session(connection, self._layout)
                except BaseException:
                    _undo(connection)
                    raise
                _commit(connection, self._layout.what)

    @contextmanager
    def _reader(self, begin: str) -> Iterator[Connection[Row]]:
        """A connection of the pool in a transaction that ends with the block."""
        if self._closed:
            raise self._layout.closed()
        with _translated(self._layout.what):
            connection, _ = self._begin(self._readers.take(), begin)
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                _undo(connection)
                raise
            finally:
                if not connection.closed:
                    self._readers.give(connection)

    @contextmanager
    def reading(self) -> Iterator[_Session]:
        with self._reader("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY") as connection:
            yield _Session(connection, self._layout)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        if self._closed:
            raise self._layout.closed()
        with _translated(self._layout.what):
            _checked(values)
            connection, rows = self._begin(self._readers.take(), sql, values)
        self._readers.give(connection)
        return rows

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        with self._reader("BEGIN READ ONLY") as connection, connection.cursor(name="stream") as cursor:
            cursor.itersize = 20_000
            cursor.execute(_native(sql), _checked(values))
            yield from cursor

    def lease(self) -> None:
        """An advisory lock in a separate session, and a row that stops a process that lost the lock unnoticed."""
        with self._lock:
            if self._closed:
                raise self._layout.closed()
            if self._epoch is None:
                with _translated(self._layout.what):
                    connection = self._locked()
                    try:
                        me = this_process()
                        sql = "UPDATE lease SET epoch = epoch + 1, host = %s, pid = %s RETURNING epoch"
                        self._epoch = connection.execute(sql, (me["host"], me["pid"])).fetchall()[0][0]
                    except BaseException:
                        connection.close()
                        raise
                    self._leaseholder = connection

    def _keep_lease(self) -> None:
        """Take the lock again if its session died too; the row shows whether another process had it meanwhile."""
        if self._leaseholder is not None:
            try:
                self._leaseholder.execute("SELECT 1")
            except psycopg.OperationalError:
                self._leaseholder.close()
                self._leaseholder = None
        if self._leaseholder is None:
            self._leaseholder = self._locked()

    def _locked(self) -> Connection[Row]:
        connection = self._connect()
        try:
            # The server needs a moment to notice that a killed process is gone.
            connection.execute("SET lock_timeout = '1s'")
            connection.execute(f"SELECT pg_advisory_lock({self._layout.lock})".encode())
            connection.execute("SET lock_timeout = 0")
        except LockNotAvailable as error:
            row = connection.execute("SELECT host, pid FROM lease").fetchone() or ("unknown", 0)
            connection.close()
            raise self._layout.held({"host": row[0], "pid": row[1]}) from error
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._readers.clear(keep=0)
            for connection in (self._writer, self._leaseholder):
                if connection is not None:
                    connection.close()


def _last_rows(connection: Connection[Row], sql: str, values: Sequence[Any]) -> list[Row]:
    # Several statements are only possible without values.
    cursor = connection.execute(_native(sql), values or None)
    while cursor.nextset():
        pass
    return cursor.fetchall() if cursor.description else []


def _undo(connection: Connection[Row]) -> None:
    try:
        connection.execute("ROLLBACK")
    except psycopg.Error:
        connection.close()


def _commit(connection: Connection[Row], what: str) -> None:
    try:
        connection.execute("COMMIT")
    except psycopg.OperationalError as error:
        lost = connection.closed
        _undo(connection)
        if lost:
            raise StorageError(
                f"uncertain: the connection to the {what} was lost during a commit: {error}",
                hint=f"read the {what} to see whether the change was made",
                uncertain=True,
            ) from error
        raise
    except BaseException:
        _undo(connection)
        raise
