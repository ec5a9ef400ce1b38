"""Fixtures of the data cluster's tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from catalogs import Open
from postgres import Server
from tocsin.cluster.storage.catalog import Catalog, open_catalog


@pytest.fixture(scope="session")
def postgres_url(postgres_server: Server) -> str:
    return postgres_server.url


@pytest.fixture
def opener(database_address: str, tmp_path: Path) -> Iterator[Open]:
    """Opens the same catalog at each call."""
    opened: list[Catalog] = []

    def open_it() -> Catalog:
        opened.append(open_catalog(database_address, str(tmp_path / "home")))
        return opened[-1]

    yield open_it
    for item in opened:
        item.close()


@pytest.fixture
def catalog(opener: Open) -> Catalog:
    return opener()
