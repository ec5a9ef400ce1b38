"""The coordinator's store: its secret, brokers, the log of decisions, and the history of the balance."""

from __future__ import annotations

import secrets
from collections import deque
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from tocsin.coordinator.core.events import BrokerRow, Choice, Note, Sample
from tocsin.coordinator.secret import private_folder, secret_file
from tocsin.database import Database, Layout, is_postgres, open_database
from tocsin.errors import StorageError

TABLES = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value {int} NOT NULL) {keyed};
CREATE TABLE IF NOT EXISTS brokers (name TEXT PRIMARY KEY, row {bytes} NOT NULL) {plain};
CREATE TABLE IF NOT EXISTS choice (number {int} PRIMARY KEY CHECK (number = 1), choice {bytes} NOT NULL) {plain};
CREATE TABLE IF NOT EXISTS log (
    number {count}, time {real} NOT NULL, kind TEXT NOT NULL, subscriber TEXT NOT NULL, source TEXT NOT NULL,
    target TEXT NOT NULL, text TEXT NOT NULL
) {plain};
CREATE TABLE IF NOT EXISTS history (number {count}, time {real} NOT NULL, sample {bytes} NOT NULL) {plain};
"""
#: With PostgreSQL the secret is in the database, so that another machine can take over; otherwise it is a file.
SECRET = "CREATE TABLE secret (number {int} PRIMARY KEY CHECK (number = 1), secret {bytes} NOT NULL);"
LAYOUT = Layout(
    what="store",
    who="coordinator",
    version=1,
    tables=TABLES,
    schema="tocsin_coordinator",
    lock=0x746F6373696E00,  # not the catalog's, which may be in the same database
    elsewhere="another --home or --store",
)
BROKER = "INSERT INTO brokers (name, row) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET row = excluded.row"
#: Notes and samples that are queued while the database is unavailable.
NOTES = 10_000
#: Decisions in the log.
LOG = 100_000


class Changes(Struct):
    """Changes of one transaction. A broker that is None is deleted; ``choice`` is empty if unchanged."""

    brokers: dict[str, BrokerRow | None] = field(default_factory=dict)
    choice: tuple[Choice | None, ...] = ()
    notes: deque[tuple[float, Note]] = field(default_factory=lambda: deque(maxlen=NOTES))
    samples: deque[tuple[float, Sample]] = field(default_factory=lambda: deque(maxlen=NOTES))


def open_store(home: str, address: str, history: int) -> Store:
    """Take the lease of the store, until ``close`` or the end of the process."""
    folder = Path(home)
    private_folder(folder)
    layout = msgspec.structs.replace(LAYOUT, tables=TABLES + SECRET) if is_postgres(address) else LAYOUT
    database = open_database(address, folder / "coordinator.db", layout)
    try:
        database.lease()
        secret = secret_row(database) if is_postgres(address) else secret_file(folder / "secret")
        return Store(database, secret, history)
    except BaseException:
        database.close()
        raise


def secret_row(database: Database) -> bytes:
    """In the database, so that a coordinator on another machine can take over."""
    with database.writing() as session:
        sql = "INSERT INTO secret (number, secret) VALUES (1, ?) ON CONFLICT DO NOTHING"
        session.run(sql, (secrets.token_bytes(32),))
        return bytes(session.rows("SELECT secret FROM secret")[0][0])


class Store:
    """Safe to call from any thread; every call is one transaction."""

    def __init__(self, database: Database, secret: bytes, history: int) -> None:
        self.secret = secret
        self._db, self._history = database, history

    def close(self) -> None:
        self._db.close()

    def brokers(self) -> list[BrokerRow]:
        rows = self._db.query("SELECT row FROM brokers ORDER BY name")
        try:
            return [msgspec.json.decode(row, type=BrokerRow) for (row,) in rows]
        except msgspec.DecodeError as error:
            raise StorageError(f"a stored broker is damaged: {error}", hint="restore a backup") from error

    def choice(self) -> Choice | None:
        rows = self._db.query("SELECT choice FROM choice")
        try:
            return msgspec.json.decode(rows[0][0], type=Choice) if rows else None
        except msgspec.DecodeError:
            return None  # use the configuration

    def check(self) -> None:
        """Write something, to find out whether that is possible."""
        sql = "INSERT INTO meta VALUES ('checks', 1) ON CONFLICT (name) DO UPDATE SET value = meta.value + 1"
        with self._db.writing() as session:
            session.run(sql)

    def write(self, changes: Changes) -> None:
        with self._db.writing() as session:
            for name, row in changes.brokers.items():
                if row is None:
                    session.run("DELETE FROM brokers WHERE name = ?", (name,))
                else:
                    session.run(BROKER, (name, msgspec.json.encode(row)))
            for choice in changes.choice:
                session.run("DELETE FROM choice")
                if choice is not None:
                    session.run("INSERT INTO choice (number, choice) VALUES (1, ?)", (msgspec.json.encode(choice),))
            session.each(
                "INSERT INTO log (time, kind, subscriber, source, target, text) VALUES (?, ?, ?, ?, ?, ?)",
                [(at, it.kind, it.subscriber, it.source, it.target, it.text) for at, it in changes.notes],
            )
            session.each(
                "INSERT INTO history (time, sample) VALUES (?, ?)",
                [(at, msgspec.json.encode(sample)) for at, sample in changes.samples],
            )
            for table, most in (("log", LOG), ("history", self._history)):
                session.run(f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?", (most,))

    def log(self, after: int, limit: int) -> list[dict[str, Any]]:
        names = ("number", "time", "kind", "subscriber", "source", "target", "text")
        sql = f"SELECT {', '.join(names)} FROM log WHERE number > ? ORDER BY number DESC LIMIT ?"
        return [dict(zip(names, row, strict=True)) for row in reversed(self._db.query(sql, (after, limit)))]

    def samples(self, limit: int) -> list[dict[str, Any]]:
        rows = self._db.query("SELECT time, sample FROM history ORDER BY number DESC LIMIT ?", (limit,))
        return [{"time": at, **msgspec.json.decode(sample)} for at, sample in reversed(rows)]

    def newest(self, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """Notes and samples together, in order of time, for the event feed."""
        notes = [("note", {name: it for name, it in row.items() if name != "number"}) for row in self.log(0, limit)]
        found = [*notes, *(("sample", row) for row in self.samples(limit))]
        return sorted(found, key=lambda each: float(each[1]["time"]))
