"""The catalog: what exists, what is committed, what was seen."""

from __future__ import annotations

from pathlib import Path

from tocsin.cluster.catalog.interface import (
    Append,
    Catalog,
    Commit,
    Committed,
    FeedBatch,
    IdempotencyKey,
    Unwant,
    Want,
)
from tocsin.cluster.catalog.sqlite import SqliteDatabase
from tocsin.cluster.catalog.store import Store, key_of
from tocsin.cluster.catalog.tables import COLUMNS as TABLES
from tocsin.errors import UserError

__all__ = [
    "TABLES",
    "Append",
    "Catalog",
    "Commit",
    "Committed",
    "FeedBatch",
    "IdempotencyKey",
    "Unwant",
    "Want",
    "key_of",
    "open_catalog",
]


def open_catalog(config_catalog: str, home: str) -> Catalog:
    """Opens the catalog that a configuration names, and lays it down where there is none."""
    if not config_catalog:
        return Store(SqliteDatabase(Path(home) / "catalog.sqlite3"))
    if config_catalog.startswith(("postgresql://", "postgres://")):
        # psycopg is imported only by those who need it.
        from tocsin.cluster.catalog.postgres import PostgresDatabase

        return Store(PostgresDatabase(config_catalog))
    raise UserError(
        "the catalog must be '' or a postgresql:// address", hint="'' keeps the catalog in a SQLite file in home"
    )
