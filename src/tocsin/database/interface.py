"""The little that is asked of a database; SQL is shared, with ``?`` for parameters."""

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
        """Says how many rows changed."""

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]: ...

    def each(self, sql: str, rows: Sequence[Row]) -> None:
        """The same statement for each row of values."""

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        """Many rows fast; those whose key is there already stay as they are. Says how many are new."""


class Database(Protocol):
    def writing(self) -> AbstractContextManager[Session]:
        """A transaction that is durable when the block ends and undone when it raises; one at a time."""

    def reading(self) -> AbstractContextManager[Session]:
        """A snapshot; any number at a time."""

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        """One query, which is a snapshot without more ado."""

    def stream(self, sql: str, values: Sequence[Any] = ()) -> Iterator[Row]:
        """Rows of a snapshot of their own, without holding them all."""

    def lease(self) -> None:
        """Makes this process the only one that writes, until ``close`` or its end."""

    def close(self) -> None: ...


class Closeable(Protocol):
    def close(self) -> None: ...


C = TypeVar("C", bound=Closeable)


class Pool(Generic[C]):
    """Idle connections for reading: each is used by one thread at a time, and a few are kept."""

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
        """Closes the idle ones; with ``keep`` 0 also those that come back later."""
        with self._lock:
            idle, self._idle = self._idle, []
            if keep is not None:
                self._keep = keep
        for connection in idle:
            connection.close()


def myself() -> dict[str, Any]:
    """What the holder of a lease leaves behind for others to read."""
    return {"host": socket.gethostname(), "pid": os.getpid()}
