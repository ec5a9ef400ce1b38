"""The one store of the network's users: passwords, sessions, and what is durable for them. SQLite or PostgreSQL.

Without a coordinator, several broker processes on one machine may share the file.
"""

from __future__ import annotations

import hashlib
import logging
import queue
import secrets
import threading
from collections.abc import Callable, Collection
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from tocsin.config import IdentityConfig
from tocsin.database import Layout, open_database
from tocsin.database import Session as Transaction
from tocsin.errors import AlreadyExists, LimitExceeded, TocsinError, Unauthorized, UserError
from tocsin.identity import messages as it
from tocsin.identity.messages import Outcome, Revocation
from tocsin.identity.tokens import LOG_IN, SigningKey, rotated, session_id, session_prefix
from tocsin.wire.messages import DurableSubscription

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

LAYOUT = Layout(
    what="store of users",
    who="coordinator",
    version=2,
    tables="""
CREATE TABLE meta (name TEXT PRIMARY KEY, value {int} NOT NULL) {keyed};
CREATE TABLE users (name TEXT PRIMARY KEY, hash TEXT NOT NULL, roles {bytes} NOT NULL) {plain};
CREATE TABLE sessions (
    session TEXT PRIMARY KEY, name TEXT NOT NULL, device TEXT NOT NULL, refresh {bytes} UNIQUE, broker TEXT NOT NULL,
    expires {real} NOT NULL
) {plain};
CREATE INDEX sessions_of ON sessions (name);
CREATE INDEX sessions_at ON sessions (broker);
CREATE TABLE durable_subscriptions (
    session TEXT NOT NULL, subscription {int} NOT NULL, channel TEXT NOT NULL, args {bytes} NOT NULL,
    after {int} NOT NULL, PRIMARY KEY (session, subscription)
) {keyed};
CREATE TABLE previous_ids (
    session TEXT NOT NULL, subscription {int} NOT NULL, previous_id {int} NOT NULL, until {int} NOT NULL,
    PRIMARY KEY (session, subscription, previous_id)
) {keyed};
CREATE TABLE keys (kid TEXT PRIMARY KEY, private {bytes} NOT NULL, begins {real} NOT NULL) {plain};
CREATE TABLE revocations (
    number {count}, name TEXT NOT NULL, session TEXT NOT NULL, before {real} NOT NULL, until {real} NOT NULL,
    ended {int} NOT NULL
) {plain};
CREATE INDEX revocations_of ON revocations (name);
""",
    schema="tocsin_users",
    lock=0x746F6373696E02,
    elsewhere="another --home or --store",
)
NAME_LENGTH, LEAST_PASSWORD, MOST_PASSWORD = 128, 8, 256
#: Commands and requests in one transaction.
BATCH = 1_000
#: Sessions of brokers that are gone which another one takes at a time.
ADOPTED = 100
#: Seconds for which revocations of an identity provider's tokens are kept: it alone knows how long they are valid.
LONGEST = 86_400.0


class Session(msgspec.Struct, frozen=True):
    """One device of a user; what is durable belongs to it."""

    user: str
    device: str
    roles: list[str]
    refresh: str


def check_name(user: str) -> None:
    if not 0 < len(user) <= NAME_LENGTH or "/" in user or "%" in user or not user.isprintable():
        raise UserError(f"a user's name has 1 to {NAME_LENGTH} visible characters, without / and %")


def check_device(device: str) -> None:
    if not 0 < len(device) <= NAME_LENGTH or not device.isprintable():
        raise UserError(f"a device's name has 1 to {NAME_LENGTH} visible characters")


def check_password(password: str) -> None:
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise UserError(f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters")


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
    """``expiry`` is the clock by which sessions expire, where that is another one.

    Every call runs in the store's own thread; those that come at once share a commit. Hashes of passwords are
    computed elsewhere: nothing here takes long."""

    def __init__(
        self,
        address: str,
        file: Path,
        config: IdentityConfig,
        clock: Callable[[], float],
        *,
        expiry: Callable[[], float] | None = None,
        lease: bool = False,
    ) -> None:
        self.config = config
        self.clock = clock
        self._expiry = expiry or clock
        self._queue: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None] = queue.SimpleQueue()
        self._db = open_database(address, file, LAYOUT)
        if lease:
            try:
                self._db.lease()
            except BaseException:
                self._db.close()
                raise
        self._open: Transaction  # that of the batch, for what runs in the thread
        self._thread = threading.Thread(target=self._run, name="users", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._queue.put(None)
        self._thread.join()
        self._db.close()

    # -- users

    @in_thread
    def password(self, user: str) -> str | None:
        """The hash of the user's password."""
        rows = self._open.rows("SELECT hash FROM users WHERE name = ?", (user,))
        return str(rows[0][0]) if rows else None

    @in_thread
    def add(self, user: str, hashed: str) -> None:
        if self._open.rows("SELECT count(*) FROM users")[0][0] >= self.config.users:
            raise LimitExceeded("no more users may register", hint="the operator can raise identity.users")
        text = "INSERT INTO users (name, hash, roles) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        if not self._open.run(text, (user, hashed, b"[]")):
            raise AlreadyExists("user", user)

    @in_thread
    def set_password(self, user: str, before: str, hashed: str, *, revoke: bool) -> None:
        """``before``: the hash that the old password was verified with. It may have been changed since."""
        if not self._open.run("UPDATE users SET hash = ? WHERE name = ? AND hash = ?", (hashed, user, before)):
            raise Unauthorized("wrong user or password")
        if revoke:
            self._revoke(user, "")

    @in_thread
    def delete(self, user: str) -> None:
        self._open.run("DELETE FROM users WHERE name = ?", (user,))
        for (session,) in self._open.rows("SELECT session FROM sessions WHERE name = ?", (user,)):
            self._end(session)
        self._revoke(user, "", ended=True)

    @in_thread
    def set_roles(self, user: str, roles: list[str]) -> bool:
        """Whether there is such a user. Tokens with other roles end: roles may have been withdrawn."""
        encoded = msgspec.json.encode(sorted(set(roles)))
        if not self._open.run("UPDATE users SET roles = ? WHERE name = ?", (encoded, user)):
            return False
        self._revoke(user, "", refresh=False)
        return True

    @in_thread
    def roles(self, user: str) -> list[str] | None:
        return self._roles(user)

    def _roles(self, user: str) -> list[str] | None:
        rows = self._open.rows("SELECT roles FROM users WHERE name = ?", (user,))
        return msgspec.json.decode(rows[0][0], type=list[str]) if rows else None

    # -- sessions

    @in_thread
    def log_in(self, user: str, device: str) -> Session:
        """The password was verified."""
        roles = self._roles(user)
        if roles is None:
            raise Unauthorized("wrong user or password")
        refresh = secrets.token_urlsafe(32)
        self._open.run(
            "INSERT INTO sessions (session, name, device, refresh, broker, expires) VALUES (?, ?, ?, ?, '', ?)"
            " ON CONFLICT (session) DO UPDATE SET refresh = excluded.refresh, expires = excluded.expires",
            (session_id(user, device), user, device, _digest(refresh), self._expires()),
        )
        return Session(user, device, roles, refresh)

    @in_thread
    def refresh(self, refresh: str) -> Session:
        rows = self._open.rows(
            "UPDATE sessions SET expires = ? WHERE refresh = ? AND expires > ? RETURNING name, device",
            (self._expires(), _digest(refresh), self._expiry()),
        )
        roles = self._roles(rows[0][0]) if rows else None
        if roles is None:
            raise Unauthorized("the refresh token is unknown or has expired", hint=LOG_IN)
        return Session(rows[0][0], rows[0][1], roles, refresh)

    @in_thread
    def log_out(self, user: str, session: str, issued: float) -> None:
        """With a token that was issued then."""
        self._refuse_revoked(user, session, issued)
        self._end(session)
        self._revoke(user, session, ended=True)

    @in_thread
    def revoke(self, user: str) -> None:
        """All tokens of the user; what is durable stays."""
        self._revoke(user, "")

    def _refuse_revoked(self, user: str, session: str, issued: float) -> None:
        text = "SELECT 1 FROM revocations WHERE name = ? AND session IN ('', ?) AND before >= ? AND until > ?"
        if self._open.rows(text, (user, session, issued, self.clock())):
            raise Unauthorized("the token was revoked", hint=LOG_IN)

    def _end(self, session: str) -> None:
        for table in ("durable_subscriptions", "previous_ids", "sessions"):
            self._open.run(f"DELETE FROM {table} WHERE session = ?", (session,))

    def _revoke(self, user: str, session: str, *, ended: bool = False, refresh: bool = True) -> None:
        now = self.clock()
        until = now + max(LONGEST if self.config.issuer else 0.0, self.config.token_seconds) + self.config.clock_skew
        text = "INSERT INTO revocations (name, session, before, until, ended) VALUES (?, ?, ?, ?, ?)"
        self._open.run(text, (user, session, now, until, int(ended)))
        if refresh:
            which, value = ("session", session) if session else ("name", user)
            self._open.run(f"UPDATE sessions SET refresh = NULL WHERE {which} = ?", (value,))

    def _expires(self) -> float:
        return self._expiry() + self.config.session_seconds

    @in_thread
    def expire(self) -> None:
        """Ends the sessions that were not used for too long, and the revocations whose tokens have expired."""
        now = self.clock()
        for (session,) in self._open.rows("SELECT session FROM sessions WHERE expires <= ?", (self._expiry(),)):
            self._end(session)
        # The newest stays: its number is what brokers know.
        text = "DELETE FROM revocations WHERE until <= ? AND number < (SELECT max(number) FROM revocations)"
        self._open.run(text, (now,))

    @in_thread
    def rotate(self) -> list[SigningKey]:
        """The keys that sign tokens; see ``rotated``."""
        rows = self._open.rows("SELECT kid, private, begins FROM keys")
        known = [SigningKey(kid, bytes(private), begins) for kid, private, begins in rows]
        kept = self.config.token_seconds + self.config.clock_skew
        found = rotated(known, self.clock(), self.config.key_seconds, kept)
        for key in found:
            if key not in known:
                self._open.run(
                    "INSERT INTO keys (kid, private, begins) VALUES (?, ?, ?)", (key.kid, key.private, key.begins)
                )
        for key in known:
            if key not in found:
                self._open.run("DELETE FROM keys WHERE kid = ?", (key.kid,))
        return found

    # -- for brokers

    @in_thread
    def exchange(
        self, broker: str, revocation: int, commands: list[it.AnyCommand], alive: Collection[str] | None
    ) -> tuple[list[Outcome], list[Revocation]]:
        """The outcomes of the commands in order, and all revocations after this one. ``alive``: the brokers whose
        sessions stay theirs; None for all."""
        outcomes = [self._outcome(broker, command, alive) for command in commands]
        rows = self._open.rows(
            "SELECT number, name, session, before, until, ended FROM revocations WHERE number > ? ORDER BY number",
            (revocation,),
        )
        return outcomes, [
            Revocation(number, user, session, before, until, bool(ended))
            for number, user, session, before, until, ended in rows
        ]

    def _outcome(self, broker: str, command: it.AnyCommand, alive: Collection[str] | None) -> Outcome:
        match command:
            case it.Attach():
                return self._attach(broker, command)
            case it.Remember():
                self._remember(command)
            case it.ChangeId():
                self._change_id(command)
            case it.Forget():
                self._forget(command.user, command.subscription)
            case it.Acknowledge():
                self._acknowledge(command)
            case it.Served():
                rows = self._open.rows(
                    "SELECT session FROM sessions WHERE broker = ? AND expires > ?", (broker, self._expiry())
                )
                return Outcome({session: self._durable(session) for (session,) in rows})
            case it.Use():
                return self._use(broker, command, alive)
        return Outcome()

    def _attach(self, broker: str, command: it.Attach) -> Outcome:
        try:
            self._refuse_revoked(command.user, command.session, command.issued)
        except Unauthorized as error:
            return Outcome(error=error.to_dict())
        device = command.session.removeprefix(session_prefix(command.user))
        self._open.run(
            "INSERT INTO sessions (session, name, device, refresh, broker, expires) VALUES (?, ?, ?, NULL, ?, ?)"
            " ON CONFLICT (session) DO UPDATE SET broker = excluded.broker, expires = excluded.expires",
            (command.session, command.user, device, broker, self._expires()),
        )
        return Outcome({command.session: self._durable(command.session)})

    def _use(self, broker: str, command: it.Use, alive: Collection[str] | None) -> Outcome:
        expires = self._expires()
        text = "UPDATE sessions SET expires = ? WHERE session = ?"
        self._open.each(text, [(expires, session) for session in command.connected])
        text = "SELECT 1 FROM sessions WHERE session = ? AND broker = ?"
        elsewhere = [each for each in command.offline if not self._open.rows(text, (each, broker))]
        return Outcome(self._adopt(broker, alive), elsewhere)

    def _adopt(self, broker: str, alive: Collection[str] | None) -> dict[str, list[DurableSubscription]]:
        """Sessions of users who are offline and whose broker is gone: this broker serves them from now on."""
        if alive is None:
            return {}
        marks = ", ".join("?" * len(alive))
        rows = self._open.rows(
            f"UPDATE sessions SET broker = ? WHERE session IN (SELECT session FROM sessions WHERE broker <> ''"
            f" AND broker NOT IN ({marks}) LIMIT {ADOPTED}) RETURNING session",
            (broker, *alive),
        )
        return {session: self._durable(session) for (session,) in rows}

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

    def _previous_ids(self, session: str, subscription: int) -> dict[int, int]:
        text = "SELECT previous_id, until FROM previous_ids WHERE session = ? AND subscription = ? ORDER BY previous_id"
        return dict(self._open.rows(text, (session, subscription)))

    def _remember(self, command: it.Remember) -> None:
        """A session that has ended meanwhile keeps nothing."""
        if not self._open.rows("SELECT 1 FROM sessions WHERE session = ?", (command.user,)):
            return
        self._open.run(
            "INSERT INTO durable_subscriptions (session, subscription, channel, args, after) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (
                command.user,
                command.subscription,
                command.channel,
                msgspec.json.encode(command.args),
                command.position.execution,
            ),
        )

    def _change_id(self, command: it.ChangeId) -> None:
        """What was acknowledged stays so. Another broker may have done it before."""
        user, before, now = command.user, command.previous_id, command.subscription
        rows = self._open.rows(
            "SELECT channel, args, after FROM durable_subscriptions WHERE session = ? AND subscription = ?",
            (user, before),
        )
        if not rows:
            return
        channel, args, after = rows[0]
        self._open.run(
            "INSERT INTO durable_subscriptions (session, subscription, channel, args, after) VALUES (?, ?, ?, ?, ?)"
            " ON CONFLICT (session, subscription) DO UPDATE SET after = excluded.after"
            " WHERE durable_subscriptions.after > excluded.after",
            (user, now, channel, args, min(after, command.position.execution)),
        )
        self._open.run(
            "INSERT INTO previous_ids (session, subscription, previous_id, until)"
            " SELECT session, ?, previous_id, until FROM previous_ids WHERE session = ? AND subscription = ?"
            " ON CONFLICT DO NOTHING",
            (now, user, before),
        )
        self._open.run(
            "INSERT INTO previous_ids (session, subscription, previous_id, until) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (user, now, before, command.until.execution),
        )
        self._forget(user, before)

    def _forget(self, user: str, subscription: int) -> None:
        for table in ("durable_subscriptions", "previous_ids"):
            self._open.run(f"DELETE FROM {table} WHERE session = ? AND subscription = ?", (user, subscription))

    def _acknowledge(self, command: it.Acknowledge) -> None:
        """After the end of a previous id, no results of that id can be missing."""
        rows = [(position.execution, command.user, id) for id, position in command.positions.items()]
        text = "UPDATE durable_subscriptions SET after = ? WHERE session = ? AND subscription = ? AND after < ?"
        self._open.each(text, [(*row, row[0]) for row in rows])
        text = "DELETE FROM previous_ids WHERE until < ? AND session = ? AND subscription = ?"
        self._open.each(text, rows)

    # -- the thread

    def _run(self) -> None:
        open_ = True
        while open_:
            batch = [self._queue.get()]
            while len(batch) < BATCH and not self._queue.empty():
                batch.append(self._queue.get())
            open_ = None not in batch
            self._commit([entry for entry in batch if entry is not None])

    def _commit(self, batch: list[tuple[Callable[[], Any], Future[Any]]]) -> None:
        """A refusal is the answer to its request alone; with any other error nothing of the batch is durable."""
        outcomes: list[tuple[Any, UserError | None]] = []
        failure: Exception | None = None
        try:
            with self._db.writing() as self._open:
                for work, _ in batch:
                    try:
                        outcomes.append((work(), None))
                    except UserError as error:
                        outcomes.append((None, error))
        except Exception as error:
            log.error("the store of users fails: %s", error, exc_info=None if isinstance(error, TocsinError) else error)
            failure = error
        for place, (_, future) in enumerate(batch):
            with suppress(Exception):  # its caller has gone
                if failure is not None:
                    future.set_exception(failure)
                elif (problem := outcomes[place][1]) is not None:
                    future.set_exception(problem)
                else:
                    future.set_result(outcomes[place][0])


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
