"""Users: who they are, their tokens, and what is kept for them while they are away. SQLite, written by one thread.

Several broker processes on one machine may share the file.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import queue
import secrets
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from tocsin.broker.core import instructions as do
from tocsin.database import Layout, open_database
from tocsin.database import Session as Transaction
from tocsin.errors import AlreadyExists, TocsinError, Unauthorized, UserError
from tocsin.http.passwords import hash_password
from tocsin.wire.messages import DurableSubscription

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LAYOUT = Layout(
    what="store of users",
    who="broker",
    version=1,
    tables="""
CREATE TABLE meta (name TEXT PRIMARY KEY, value {int} NOT NULL) {keyed};
CREATE TABLE users (name TEXT PRIMARY KEY, salt {bytes} NOT NULL, hash {bytes} NOT NULL) {plain};
CREATE TABLE sessions (
    session TEXT PRIMARY KEY, token {bytes} UNIQUE, name TEXT NOT NULL, broker TEXT NOT NULL, expires {real} NOT NULL
) {plain};
CREATE TABLE durable_subscriptions (
    session TEXT NOT NULL, subscription {int} NOT NULL, channel TEXT NOT NULL, args {bytes} NOT NULL,
    after {int} NOT NULL, PRIMARY KEY (session, subscription)
) {keyed};
CREATE TABLE previous_ids (
    session TEXT NOT NULL, subscription {int} NOT NULL, previous_id {int} NOT NULL, until {int} NOT NULL,
    PRIMARY KEY (session, subscription, previous_id)
) {keyed};
""",
    schema="tocsin_users",
    lock=0x746F6373696E01,
    elsewhere="another --home",
)
NAME_LENGTH, LEAST_PASSWORD, MOST_PASSWORD = 128, 8, 256


class UserSession(msgspec.Struct, frozen=True):
    """One device of a user; what is kept belongs to it. ``id`` names both."""

    id: str
    token: str
    expires: float


def session_id(user: str, device: str) -> str:
    return f"{user}/{device}"


def in_thread(
    work: Callable[Concatenate[UserStore, P], T],
) -> Callable[Concatenate[UserStore, P], Future[T]]:
    """Runs it in the store's thread, in the transaction of the batch."""

    def call(store: UserStore, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        store._queue.put((partial(work, store, *args, **kwargs), future))
        return future

    return call


class UserStore:
    """Every call that touches the file runs in the store's own thread; those that write at once share a commit."""

    def __init__(self, path: Path, broker: str, expiry: float, clock: Callable[[], float]) -> None:
        self.broker = broker
        self.expiry = expiry
        self.clock = clock
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._db = open_database("", path, LAYOUT)
        self._open: Transaction  # that of the batch, for what runs in the thread
        self._thread = threading.Thread(target=self._run, name="users", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._db.close()

    # -- for people

    @in_thread
    def register(self, user: str, password: str) -> None:
        if not 0 < len(user) <= NAME_LENGTH or "/" in user or not user.isprintable():
            raise UserError(f"a user's name has 1 to {NAME_LENGTH} visible characters and no /")
        if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
            raise UserError(f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
        salt = secrets.token_bytes(16)
        values = (user, salt, hash_password(password, salt))
        if not self._open.run("INSERT OR IGNORE INTO users VALUES (?, ?, ?)", values):
            raise AlreadyExists("user", user)

    @in_thread
    def login(self, user: str, password: str, device: str) -> UserSession:
        if not 0 < len(device) <= NAME_LENGTH or not device.isprintable():
            raise UserError(f"a device's name has 1 to {NAME_LENGTH} visible characters")
        rows = self._open.rows("SELECT salt, hash FROM users WHERE name = ?", (user,))
        # The same work for a name that does not exist: how long it takes tells nothing.
        salt, known = rows[0] if rows else (b"", b"")
        if not hmac.compare_digest(hash_password(password[:MOST_PASSWORD], salt), known):
            raise Unauthorized("no such user, or another password")
        token, session = secrets.token_urlsafe(32), session_id(user, device)
        expires = self.clock() + self.expiry
        values = (session, _digest(token), user, self.broker, expires)
        self._open.run(
            "INSERT INTO sessions VALUES (?, ?, ?, ?, ?) ON CONFLICT (session)"
            " DO UPDATE SET token = excluded.token, broker = excluded.broker, expires = excluded.expires",
            values,
        )
        return UserSession(session, token, expires)

    def _end(self, session: str) -> None:
        for table in ("durable_subscriptions", "previous_ids"):
            self._open.run(f"DELETE FROM {table} WHERE session = ?", (session,))
        self._open.run("DELETE FROM sessions WHERE session = ?", (session,))

    logout = in_thread(_end)

    def _session(self, token: str) -> str | None:
        """Whose token it is. Being used is what keeps a session."""
        now = self.clock()
        rows = self._open.rows(
            "UPDATE sessions SET expires = ?, broker = ? WHERE token = ? AND expires > ? RETURNING session",
            (now + self.expiry, self.broker, _digest(token), now),
        )
        return rows[0][0] if rows else None

    session = in_thread(_session)

    def _durable(self, session: str) -> list[DurableSubscription]:
        rows = self._open.rows(
            "SELECT subscription, channel, args, after FROM durable_subscriptions WHERE session = ?"
            " ORDER BY subscription",
            (session,),
        )
        return [
            DurableSubscription(id, channel, msgspec.json.decode(args), after, self._previous_ids(session, id))
            for id, channel, args, after in rows
        ]

    durable = in_thread(_durable)

    def _previous_ids(self, session: str, subscription: int) -> dict[int, int]:
        text = "SELECT previous_id, until FROM previous_ids WHERE session = ? AND subscription = ? ORDER BY previous_id"
        return dict(self._open.rows(text, (session, subscription)))

    @in_thread
    def expired(self) -> list[str]:
        """Ends the sessions that were not used for too long."""
        rows = self._open.rows("SELECT session FROM sessions WHERE expires <= ?", (self.clock(),))
        for (session,) in rows:
            self._end(session)
        return [session for (session,) in rows]

    @in_thread
    def elsewhere(self, sessions: list[str]) -> list[str]:
        """Those of them that are not this broker's any more: used at another one that shares the file, or ended."""
        rows = self._open.rows("SELECT session FROM sessions WHERE broker = ?", (self.broker,))
        mine = {session for (session,) in rows}
        return [session for session in sessions if session not in mine]

    # -- for the driver

    @in_thread
    def look_up(self, token: str) -> tuple[str | None, list[DurableSubscription]]:
        session = self._session(token)
        return session, self._durable(session) if session is not None else []

    @in_thread
    def all_durable(self) -> list[tuple[str, list[DurableSubscription]]]:
        """What this broker served before its restart."""
        rows = self._open.rows(
            "SELECT session FROM sessions WHERE broker = ? AND expires > ?", (self.broker, self.clock())
        )
        return [(session, self._durable(session)) for (session,) in rows]

    @in_thread
    def remember(self, it: do.Remember) -> None:
        values = (it.user, it.subscription, it.channel, msgspec.json.encode(it.args), it.position.execution)
        self._open.run("INSERT OR IGNORE INTO durable_subscriptions VALUES (?, ?, ?, ?, ?)", values)

    @in_thread
    def change_id(self, it: do.ChangeId) -> None:
        """What was acknowledged stays so. Another broker that shares the file may have done it before."""
        user, previous_id, subscription, until = it.user, it.previous_id, it.subscription, it.until.execution
        moved = self._open.run(
            "INSERT INTO durable_subscriptions"
            " SELECT session, ?, channel, args, min(after, ?) FROM durable_subscriptions"
            " WHERE session = ? AND subscription = ?"
            " ON CONFLICT (session, subscription) DO UPDATE SET after = min(after, excluded.after)",
            (subscription, it.position.execution, user, previous_id),
        )
        if not moved:
            return
        text = "INSERT OR IGNORE INTO previous_ids SELECT session, ?, previous_id, until FROM previous_ids"
        text += " WHERE session = ? AND subscription = ?"
        self._open.run(text, (subscription, user, previous_id))
        row = (user, subscription, previous_id, until)
        self._open.run("INSERT OR IGNORE INTO previous_ids VALUES (?, ?, ?, ?)", row)
        self._forget(user, previous_id)

    @in_thread
    def forget(self, it: do.Forget) -> None:
        self._forget(it.user, it.subscription)

    def _forget(self, user: str, subscription: int) -> None:
        for table in ("durable_subscriptions", "previous_ids"):
            values = (user, subscription)
            self._open.run(f"DELETE FROM {table} WHERE session = ? AND subscription = ?", values)

    @in_thread
    def acknowledge(self, it: do.Acknowledge) -> None:
        """After the end of a previous id, no results of that id can be missing."""
        rows = [(it.user, id, position.execution) for id, position in it.positions.items()]
        text = "UPDATE durable_subscriptions SET after = max(after, ?3) WHERE session = ?1 AND subscription = ?2"
        self._open.each(text, rows)
        self._open.each("DELETE FROM previous_ids WHERE session = ? AND subscription = ? AND until < ?", rows)

    @in_thread
    def written(self) -> None:
        """Ends when everything that was asked for before is durable."""

    # -- the thread

    def _run(self) -> None:
        open_ = True
        while open_:
            batch = [self._queue.get()]
            while len(batch) < 1000 and not self._queue.empty():
                batch.append(self._queue.get())
            open_ = None not in batch
            self._commit([entry for entry in batch if entry is not None])

    def _commit(self, batch: list[tuple[Callable[[], Any], Future[Any]]]) -> None:
        outcomes: list[tuple[Future[Any], Any, Exception | None]] = []
        try:
            with self._db.writing() as self._open:
                for work, future in batch:
                    try:
                        outcomes.append((future, work(), None))
                    except sqlite3.Error:
                        raise  # nothing of the batch is durable
                    except Exception as error:
                        outcomes.append((future, None, error))
        except TocsinError as error:
            log.error("%s", error.message)
            outcomes = [(future, None, error) for _, future in batch]
        for future, result, problem in outcomes:
            if problem is not None:
                future.set_exception(problem)
            else:
                future.set_result(result)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
