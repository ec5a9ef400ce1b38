"""The catalog: what exists, what is committed, what was seen."""

from __future__ import annotations

from pathlib import Path

from tocsin.cluster.storage.catalog.interface import (
    Append,
    Catalog,
    Commit,
    Committed,
    FeedBatch,
    IdempotencyKey,
    Unwant,
    Want,
)
from tocsin.cluster.storage.catalog.schema import LAYOUT
from tocsin.cluster.storage.catalog.store import Store, key_of
from tocsin.cluster.storage.catalog.tables import COLUMNS as TABLES
from tocsin.database import open_database

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
    return Store(open_database(config_catalog, Path(home) / "catalog.sqlite3", LAYOUT))
