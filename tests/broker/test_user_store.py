"""The store of users when its file fails."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tocsin.broker.user_store import UserStore
from tocsin.errors import StorageError


def test_a_folder_that_cannot_be_created_is_reported_at_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="store of users"):
        UserStore(tmp_path / "file" / "users.db", "b", 3600.0, lambda: 1_000.0)


def test_the_store_reports_a_failed_statement_and_continues(tmp_path: Path) -> None:
    store = UserStore(tmp_path / "users.db", "b", 3600.0, lambda: 1_000.0)
    try:
        store.register("ann", "password").result()
        other = sqlite3.connect(tmp_path / "users.db")
        other.execute("DROP TABLE durable_subscriptions")
        other.close()
        with pytest.raises(StorageError, match="no such table: durable_subscriptions"):
            store.durable("ann/phone").result()
        assert store.login("ann", "password", "phone").result().id == "ann/phone"
    finally:
        store.close()
