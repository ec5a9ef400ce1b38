"""The catalog: what exists, what is committed, what each channel has read."""

from __future__ import annotations

from pathlib import Path

from tocsin.cluster.storage.catalog.commit import (
    AddSubscription,
    Append,
    Commit,
    FeedBatch,
    IdempotencyKey,
    RemoveSubscription,
    digest,
    key_of,
)
from tocsin.cluster.storage.catalog.schema import LAYOUT
from tocsin.cluster.storage.catalog.store import Catalog
from tocsin.cluster.storage.catalog.tables import COLUMNS as TABLES
from tocsin.database import open_database

__all__ = [
    "TABLES",
    "AddSubscription",
    "Append",
    "Catalog",
    "Commit",
    "FeedBatch",
    "IdempotencyKey",
    "RemoveSubscription",
    "digest",
    "key_of",
    "open_catalog",
]


def open_catalog(config_catalog: str, home: str) -> Catalog:
    """Open the catalog that a configuration names, and create it if it does not exist."""
    return Catalog(open_database(config_catalog, Path(home) / "catalog.sqlite3", LAYOUT))
