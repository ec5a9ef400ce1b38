"""A coordinator.db that an earlier Tocsin wrote is taken over with all that is in it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from office import Office

from tocsin.coordinator.core.events import BrokerRow, Choice, Note
from tocsin.coordinator.store import Changes, open_store
from tocsin.errors import StorageError, Unauthorized

#: The tables as the first coordinator made them: no version, no users, nothing chosen at run time.
FIRST = """
CREATE TABLE brokers (name TEXT PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE log (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL, subscriber TEXT NOT NULL,
    source TEXT NOT NULL, target TEXT NOT NULL, text TEXT NOT NULL
);
CREATE TABLE history (number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, sample BLOB NOT NULL);
"""
#: What was added before stores had a version.
LATER = """
CREATE TABLE users (name TEXT PRIMARY KEY, salt BLOB NOT NULL, hash BLOB NOT NULL, subscriber TEXT NOT NULL);
CREATE TABLE choice (number INTEGER PRIMARY KEY CHECK (number = 1), choice BLOB NOT NULL);
INSERT INTO users VALUES ('ann', x'01', x'02', 'subscriber-of-ann');
INSERT INTO choice VALUES (1, '{"strategy":"gsh","settings":{},"placement":"random","configured":["peal",{},""]}');
"""
#: Without an identity, which brokers did not have.
ROW = {"name": "north", "url": "http://north", "capacity": 2.0, "most": 10, "lat": 1.0, "lon": 2.0, "draining": True}
SAMPLE = {"mean": 1.0, "maximum": 2.0, "cov": 0.5, "bound": 1.0, "brokers": {"north": [1.0, 2.0, 3]}, "pending": 0}
NORTH = BrokerRow("north", "http://north", 2.0, 10, 1.0, 2.0, True)


@pytest.fixture(params=["the first", "later"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "coordinator.db")) as file, file:
        file.execute("PRAGMA journal_mode = WAL")
        file.executescript(FIRST + (LATER if request.param == "later" else ""))
        file.execute("INSERT INTO brokers VALUES ('north', ?)", (json.dumps(ROW).encode(),))
        file.execute("INSERT INTO log VALUES (7, 5.0, 'move', 'somebody', 'north', 'south', 'done')")
        file.execute("INSERT INTO history VALUES (9, 6.0, ?)", (json.dumps(SAMPLE).encode(),))
    (tmp_path / "secret").write_bytes(b"s" * 32)
    return tmp_path


def test_what_an_older_coordinator_remembered_is_there(home: Path) -> None:
    with closing(open_store(str(home), "", 10, 10)) as store:
        assert store.secret == b"s" * 32 and store.brokers() == [NORTH]
        assert [(each["number"], each["text"]) for each in store.log(0, 10)] == [(7, "done")]
        assert store.samples(10) == [{"time": 6.0, **SAMPLE}]
        assert [kind for kind, _ in store.newest(10)] == ["note", "sample"]


def test_users_and_the_choice_of_an_older_coordinator_are_there(home: Path, request: pytest.FixtureRequest) -> None:
    with closing(open_store(str(home), "", 10, 10)) as store:
        if "later" in request.node.name:
            assert store.user("ann") == (b"\x01", b"\x02", "subscriber-of-ann")
            assert store.choice() == Choice("gsh", {}, "random", ("peal", {}, ""))
        else:
            assert store.user("ann")[1] is None and store.choice() is None


def test_an_older_store_is_written_and_opened_again(home: Path) -> None:
    choice = Choice("ldm", {}, "random", ("peal", {}, "nearest"))
    with closing(open_store(str(home), "", 10, 10)) as store:
        store.write(
            Changes({"south": BrokerRow("south", "http://south", 1.0, 5)}, (choice,), [(8.0, Note("plan", "x"))])
        )
        store.add_user("bob", b"salt", b"hash", "subscriber-of-bob")
    with closing(open_store(str(home), "", 10, 10)) as store:
        assert [row.name for row in store.brokers()] == ["north", "south"] and store.choice() == choice
        assert [each["number"] for each in store.log(0, 10)] == [7, 8]
        assert store.user("bob") == (b"salt", b"hash", "subscriber-of-bob")


def test_a_broker_from_before_identities_takes_its_name_and_keeps_it_from_then_on() -> None:
    office = Office()
    office.kept["north"] = NORTH
    office.restart()
    office.register("north", identity="mine")
    with pytest.raises(Unauthorized, match="another broker is registered as north"):
        office.register("north", identity="another")
    office.restart()
    office.register("north", identity="mine")
    assert office.kept["north"].draining


def test_a_store_of_a_newer_tocsin_is_left_alone(tmp_path: Path) -> None:
    open_store(str(tmp_path), "", 10, 10).close()
    with closing(sqlite3.connect(tmp_path / "coordinator.db")) as file, file:
        file.execute("UPDATE meta SET value = 99 WHERE name = 'version'")
    with pytest.raises(StorageError, match="the store has schema version 99, this release knows 1") as refused:
        open_store(str(tmp_path), "", 10, 10)
    assert "upgrade this one, or give it another --home or --store" in refused.value.hint


def test_a_broker_without_an_identity_does_not_open_its_name_to_others() -> None:
    office = Office()
    office.register("north")
    with pytest.raises(Unauthorized):
        office.register("north", identity="another")
