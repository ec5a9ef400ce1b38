"""Tables and transactions in SQLite, on any connection: to a file or to memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.database.interface import Row

DIALECT = {
    "int": "INTEGER",
    "real": "REAL",
    "bytes": "BLOB",
    "count": "INTEGER PRIMARY KEY AUTOINCREMENT",
    "keyed": "STRICT, WITHOUT ROWID",
    "plain": "STRICT",
}


class SqliteSession:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def run(self, sql: str, values: Sequence[Any] = ()) -> int:
        return self._connection.execute(sql, values).rowcount

    def rows(self, sql: str, values: Sequence[Any] = ()) -> list[Row]:
        return self._connection.execute(sql, values).fetchall()

    def each(self, sql: str, rows: Sequence[Row]) -> None:
        self._connection.executemany(sql, rows)

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Row]) -> int:
        marks = ", ".join("?" * len(columns))
        sql = f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({marks}) ON CONFLICT DO NOTHING"
        return self._connection.executemany(sql, rows).rowcount if rows else 0
