"""Catalogs that an earlier release wrote."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg

from catalogs import a_broker, a_channel, execution
from tocsin.cluster.model import OutboxEntry
from tocsin.cluster.storage.catalog import open_catalog
from tocsin.database.postgres import DIALECT as POSTGRES
from tocsin.database.sqlite import DIALECT as SQLITE

#: The outbox as it was in version 1.
VERSION_1 = """
DROP TABLE tells;
CREATE TABLE tells (
    broker {int} NOT NULL REFERENCES definitions (id) ON DELETE CASCADE, channel {int} NOT NULL,
    execution {int} NOT NULL, PRIMARY KEY (broker, channel, execution),
    FOREIGN KEY (channel, execution) REFERENCES executions (channel, number) ON DELETE CASCADE
) {keyed};
CREATE INDEX tells_execution ON tells (channel, execution);
UPDATE meta SET value = 1 WHERE name = 'version';
"""


def turn_back(address: str, home: Path, more: str) -> None:
    """Makes the outbox one of version 1, with what ``more`` puts there."""
    if address:
        with psycopg.connect(address) as server:
            server.execute("SET search_path TO tocsin")
            server.execute(VERSION_1.format(**POSTGRES) + more)
    else:
        file = sqlite3.connect(home / "catalog.sqlite3")
        file.executescript(VERSION_1.format(**SQLITE) + more)
        file.close()


def test_what_was_left_to_tell_in_version_1_is_kept_and_outlives_its_execution(
    database_address: str, tmp_path: Path
) -> None:
    catalog = open_catalog(database_address, str(tmp_path))
    broker, channel = a_broker(catalog), a_channel(catalog)
    catalog.record(execution(channel, 1, time=5.0), {}, [])
    catalog.close()
    turn_back(database_address, tmp_path, f"INSERT INTO tells VALUES ({broker.id}, {channel.id}, 1)")

    catalog = open_catalog(database_address, str(tmp_path))
    assert catalog.tells(broker.id) == [OutboxEntry(broker.id, channel.id, 1)]
    catalog.expire(channel.id, before=10.0)
    assert catalog.execution(channel.id, 1) is None
    assert catalog.tells(broker.id) == [OutboxEntry(broker.id, channel.id, 1)]
    catalog.record(execution(channel, 2), {}, [broker.id])
    catalog.close()

    again = open_catalog(database_address, str(tmp_path))
    assert [tell.execution for tell in again.tells(broker.id)] == [1, 2]
    again.remove(channel)
    assert again.tells(broker.id) == []
    again.close()
