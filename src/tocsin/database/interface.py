"""The interface of both databases. The SQL is the same for both, with ``?`` for parameters."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from threading import Lock
from typing import Any, Generic, Protocol, TypeVar

Row = tuple[Any, ...]


class Session(Protocol):
    """One open transaction."""

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Return how many rows changed."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def each(self, sql: str, rows: Sequence[Row]) -> None:
        """Run a statement for each row of values."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        """Insert many rows fast; rows whose key exists are skipped. Returns the number of new rows."""


class Database(Protocol):
    def writing(self) -> AbstractContextManager[Session]:
        """A transaction, one at a time: durable when the block ends, rolled back if the block raises."""

    def reading(self) -> AbstractContextManager[Session]:
        """A snapshot for reading; any number at a time."""

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """Run one query, without a transaction."""

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Stream the rows of a query from one snapshot, without loading all of them."""

    def lease(self) -> None:
        """Make this process the only writer, until ``close`` or the end of the process."""

    def close(self) -> None: ...


class Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class Pool(Generic[C]):
    """A pool of connections for reading; one thread at a time uses a connection."""

    def __init__(self, connect: Callable[[], C], keep: int = 8) -> None:
        self._connect = connect
        self._keep = keep
        self._idle: list[C] = []
        self._lock = Lock()

    def take(self) -> C:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def give(self, connection: C) -> None:
        with self._lock:
            if len(self._idle) < self._keep:
                self._idle.append(connection)
                return
        connection.close()

    def clear(self, *, keep: int | None = None) -> None:
        """Close idle connections; with ``keep=0`` also those that are returned later."""
        with self._lock:
            idle, self._idle = self._idle, []
            if keep is not None:
                self._keep = keep
        for connection in idle:
            connection.close()


def this_process() -> dict[str, Any]:
    """The host and process of a lease holder, for error messages."""
    return {"host": socket.gethostname(), "pid": os.getpid()}
