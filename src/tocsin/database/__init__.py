"""One interface to two databases: a SQLite file, or a schema of a PostgreSQL server."""

from __future__ import annotations

from pathlib import Path

from tocsin.database.interface import Database, Row, Session
from tocsin.database.layout import Layout
from tocsin.database.sqlite import SqliteDatabase
from tocsin.errors import UserError

__all__ = ["Database", "Layout", "Row", "Session", "is_postgres", "open_database"]


def is_postgres(address: str) -> bool:
    return address.startswith(("postgresql://", "postgres://"))


def open_database(address: str, file: Path, layout: Layout) -> Database:
    """Open the database of a configuration ('' means the file), and create its tables if they do not exist."""
    if not address:
        return SqliteDatabase(file, layout)
    if is_postgres(address):
        # psycopg is imported only by those who need it.
        from tocsin.database.postgres import PostgresDatabase

        return PostgresDatabase(address, layout)
    raise UserError(
        f"the {layout.what} must be '' or a postgresql:// address",
        hint=f"'' keeps the {layout.what} in a SQLite file in home",
    )
