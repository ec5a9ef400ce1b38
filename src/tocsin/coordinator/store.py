"""What the coordinator remembers: its secret, its brokers, the log of decisions, the history of the balance. SQLite."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
from pathlib import Path
from typing import IO, Any

import msgspec

from tocsin.coordinator.events import BrokerRow, Choice, Note, Sample
from tocsin.errors import AlreadyExists, StorageError

SCHEMA = """
CREATE TABLE IF NOT EXISTS brokers (name TEXT PRIMARY KEY, row BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS choice (number INTEGER PRIMARY KEY CHECK (number = 1), choice BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY, salt BLOB NOT NULL, hash BLOB NOT NULL, subscriber TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS log (
    number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, kind TEXT NOT NULL, subscriber TEXT NOT NULL,
    source TEXT NOT NULL, target TEXT NOT NULL, text TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS history (number INTEGER PRIMARY KEY AUTOINCREMENT, time REAL NOT NULL, sample BLOB NOT NULL);
"""
#: Decisions that are kept.
LOG = 100_000


class Store:
    """Calls are short; what is only looked at later (log, history) is committed together."""

    def __init__(self, home: Path, history: int) -> None:
        self.history = history
        try:
            home.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked(home / "lock")
            self._db = sqlite3.connect(home / "coordinator.db", isolation_level=None, timeout=30)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.executescript(SCHEMA)
            self.secret = self._secret(home / "secret")
        except (OSError, sqlite3.Error) as error:
            raise StorageError(f"cannot remember anything in {home}: {error}", hint="choose another --home") from error

    @staticmethod
    def _secret(file: Path) -> bytes:
        """Made once; brokers' keys and tokens come from it, so it is nobody else's to read."""
        if not file.exists():
            # Whole or not at all: half of it would be found damaged for ever.
            draft = file.with_suffix(".new")
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as output:
                output.write(secrets.token_bytes(32))
                output.flush()
                os.fsync(output.fileno())
            draft.replace(file)
        found = file.read_bytes()
        if len(found) != 32:
            raise OSError(f"{file} is damaged; without it brokers have to register anew: delete it if it is lost")
        return found

    @staticmethod
    def _locked(file: Path) -> IO[str]:
        """Held as long as the process lives: two coordinators of one home would each know half."""
        held = file.open("a")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            held.close()
            raise OSError("another coordinator uses it") from error
        return held

    def close(self) -> None:
        self._db.close()
        self._lock.close()

    def brokers(self) -> list[BrokerRow]:
        rows = self._db.execute("SELECT row FROM brokers ORDER BY name").fetchall()
        try:
            return [msgspec.json.decode(row, type=BrokerRow) for (row,) in rows]
        except msgspec.DecodeError as error:
            raise StorageError(f"what is remembered of a broker is damaged: {error}", hint="restore a copy") from error

    def keep_broker(self, row: BrokerRow) -> None:
        self._db.execute("INSERT OR REPLACE INTO brokers VALUES (?, ?)", (row.name, msgspec.json.encode(row)))

    def drop_broker(self, name: str) -> None:
        self._db.execute("DELETE FROM brokers WHERE name = ?", (name,))

    def choice(self) -> Choice | None:
        row = self._db.execute("SELECT choice FROM choice").fetchone()
        try:
            return None if row is None else msgspec.json.decode(row[0], type=Choice)
        except msgspec.DecodeError:
            return None  # the configuration is as good

    def keep_choice(self, choice: Choice | None) -> None:
        if choice is None:
            self._db.execute("DELETE FROM choice")
        else:
            self._db.execute("INSERT OR REPLACE INTO choice VALUES (1, ?)", (msgspec.json.encode(choice),))

    def user(self, name: str) -> tuple[bytes, bytes | None, str]:
        """(salt, hash, subscriber); a name that is not known gets a new salt and subscriber, and no hash."""
        row = self._db.execute("SELECT salt, hash, subscriber FROM users WHERE name = ?", (name,)).fetchone()
        return row if row is not None else (secrets.token_bytes(16), None, secrets.token_urlsafe(16))

    def add_user(self, name: str, salt: bytes, hashed: bytes, subscriber: str) -> str:
        """The subscriber of the name: of two who register it at the same moment the first one's."""
        self._db.execute("INSERT OR IGNORE INTO users VALUES (?, ?, ?, ?)", (name, salt, hashed, subscriber))
        _, known, found = self.user(name)
        if known != hashed:
            raise AlreadyExists("user", name)
        return found

    def write(self, notes: list[tuple[float, Note]], samples: list[tuple[float, Sample]]) -> None:
        self._db.execute("BEGIN")
        try:
            self._db.executemany(
                "INSERT INTO log (time, kind, subscriber, source, target, text) VALUES (?, ?, ?, ?, ?, ?)",
                [(at, it.kind, it.subscriber, it.source, it.target, it.text) for at, it in notes],
            )
            self._db.executemany(
                "INSERT INTO history (time, sample) VALUES (?, ?)",
                [(at, msgspec.json.encode(sample)) for at, sample in samples],
            )
            for table, most in (("log", LOG), ("history", self.history)):
                self._db.execute(f"DELETE FROM {table} WHERE number <= (SELECT max(number) FROM {table}) - ?", (most,))
            self._db.execute("COMMIT")
        except sqlite3.Error:
            self._db.execute("ROLLBACK")
            raise

    def log(self, after: int, limit: int) -> list[dict[str, Any]]:
        names = ("number", "time", "kind", "subscriber", "source", "target", "text")
        sql = f"SELECT {', '.join(names)} FROM log WHERE number > ? ORDER BY number DESC LIMIT ?"
        return [
            dict(zip(names, row, strict=True)) for row in reversed(self._db.execute(sql, (after, limit)).fetchall())
        ]

    def samples(self, limit: int) -> list[dict[str, Any]]:
        sql = "SELECT time, sample FROM history ORDER BY number DESC LIMIT ?"
        rows = self._db.execute(sql, (limit,)).fetchall()
        return [{"time": at, **msgspec.json.decode(sample)} for at, sample in reversed(rows)]

    def newest(self, limit: int) -> list[tuple[str, dict[str, Any]]]:
        """Notes and samples together, in the order of time, as watchers get them."""
        notes = [("note", {name: it for name, it in row.items() if name != "number"}) for row in self.log(0, limit)]
        found = [*notes, *(("sample", row) for row in self.samples(limit))]
        return sorted(found, key=lambda each: float(each[1]["time"]))
