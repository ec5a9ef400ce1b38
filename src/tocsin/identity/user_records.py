"""What is kept of the network's users, in tables: passwords, sessions, and what is durable for them. Pure SQL."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.config import IdentityConfig
from tocsin.database.layout import Layout
from tocsin.errors import AlreadyExists, LimitExceeded, NotFound, Unauthorized, UserError
from tocsin.identity import messages as it
from tocsin.identity.messages import NOTHING, Outcome, Revocation
from tocsin.identity.tokens import LOG_IN, SigningKey, rotated, session_id, session_prefix
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.position import other_epoch

if TYPE_CHECKING:
    from tocsin.database.interface import Row
    from tocsin.database.interface import Session as Transaction

LAYOUT = Layout(
    what="store of users",
    who="coordinator",
    version=3,
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
    after {int} NOT NULL, epoch {int} NOT NULL, PRIMARY KEY (session, subscription)
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
    arrays={"session": "text", "channel": "text", "args": "bytea"},
)
#: The columns of a durable subscription.
DURABLE = ("session", "subscription", "channel", "args", "after", "epoch")
NAME_LENGTH, LEAST_PASSWORD, MOST_PASSWORD = 128, 8, 256
#: Different characters that a password has at least.
DIFFERENT = 5
#: Sessions of brokers that are gone which another one takes at a time.
ADOPTED = 100
#: Seconds for which revocations of an identity provider's tokens are kept: it alone knows how long they are valid.
LONGEST = 86_400.0


_encode = msgspec.json.Encoder().encode


class Session(msgspec.Struct, frozen=True):
    """One device of a user; what is durable belongs to it."""

    user: str
    device: str
    roles: list[str]
    refresh: str


class Usage(msgspec.Struct):
    """What is durable for a user."""

    subscriptions: int
    argument_bytes: int


def check_name(user: str) -> None:
    if not 0 < len(user) <= NAME_LENGTH or "/" in user or "%" in user or not user.isprintable():
        raise UserError(f"a user's name has 1 to {NAME_LENGTH} visible characters, without / and %")


def check_device(device: str) -> None:
    if not 0 < len(device) <= NAME_LENGTH or not device.isprintable():
        raise UserError(f"a device's name has 1 to {NAME_LENGTH} visible characters")


def check_password(user: str, password: str) -> None:
    """Guesses are limited; what is guessed first is refused."""
    if not LEAST_PASSWORD <= len(password) <= MOST_PASSWORD:
        raise UserError(f"a password has {LEAST_PASSWORD} to {MOST_PASSWORD} characters")
    if len(set(password)) < DIFFERENT or password.lower() == user.lower():
        message = f"a password has at least {DIFFERENT} different characters, and is not the user's name"
        raise UserError(message, hint="several words are a good password")


class UserRecords:
    """``open`` is the transaction of the moment. ``expiry`` is the clock by which sessions expire, where that is
    another one."""

    open: Transaction

    def __init__(
        self, config: IdentityConfig, clock: Callable[[], float], expiry: Callable[[], float] | None = None
    ) -> None:
        self.config, self.clock = config, clock
        self._expiry = expiry or clock
        self._usage: dict[str, Usage] = {}  # by user, within an exchange
        self._owners: dict[str, str] = {}  # of sessions, within an exchange

    # -- users

    def password(self, user: str) -> str | None:
        """The hash of the user's password."""
        rows = self.open.rows("SELECT hash FROM users WHERE name = ?", (user,))
        return str(rows[0][0]) if rows else None

    def add(self, user: str, hashed: str) -> None:
        if self.open.rows("SELECT count(*) FROM users")[0][0] >= self.config.users:
            raise LimitExceeded("no more users may register", hint="the operator can raise identity.users")
        text = "INSERT INTO users (name, hash, roles) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        if not self.open.run(text, (user, hashed, b"[]")):
            raise AlreadyExists("user", user)

    def page(self, after: str, limit: int) -> list[it.UserInfo]:
        """By name, those after this one."""
        counted = (
            "SELECT name, roles, (SELECT count(*) FROM sessions s WHERE s.name = users.name AND s.expires > ?),"
            " (SELECT count(*) FROM durable_subscriptions d JOIN sessions s ON s.session = d.session"
            " WHERE s.name = users.name) FROM users WHERE name > ? ORDER BY name LIMIT ?"
        )
        rows = self.open.rows(counted, (self._expiry(), after, limit))
        return [it.UserInfo(name, msgspec.json.decode(roles), *counts) for name, roles, *counts in rows]

    def reset_password(self, user: str, hashed: str) -> bool:
        """Whether there is such a user. All its tokens end."""
        if not self.open.run("UPDATE users SET hash = ? WHERE name = ?", (hashed, user)):
            return False
        self._revoke(user, "")
        return True

    def set_password(self, user: str, before: str, hashed: str, *, revoke: bool) -> None:
        """``before``: the hash that the old password was verified with. It may have been changed since."""
        if not self.open.run("UPDATE users SET hash = ? WHERE name = ? AND hash = ?", (hashed, user, before)):
            raise Unauthorized("wrong user or password")
        if revoke:
            self._revoke(user, "")

    def delete(self, user: str) -> bool:
        """Whether there was such a user."""
        known = self.open.run("DELETE FROM users WHERE name = ?", (user,)) > 0
        for (session,) in self.open.rows("SELECT session FROM sessions WHERE name = ?", (user,)):
            self._end(session)
        self._revoke(user, "", ended=True)
        return known

    def set_roles(self, user: str, roles: list[str]) -> bool:
        """Whether there is such a user. Tokens with other roles end: roles may have been withdrawn."""
        encoded = msgspec.json.encode(sorted(set(roles)))
        if not self.open.run("UPDATE users SET roles = ? WHERE name = ?", (encoded, user)):
            return False
        self._revoke(user, "", refresh=False)
        return True

    def roles(self, user: str) -> list[str] | None:
        return self._roles(user)

    def _roles(self, user: str) -> list[str] | None:
        rows = self.open.rows("SELECT roles FROM users WHERE name = ?", (user,))
        return msgspec.json.decode(rows[0][0], type=list[str]) if rows else None

    # -- sessions

    def log_in(self, user: str, device: str) -> Session:
        """The password was verified."""
        roles = self._roles(user)
        if roles is None:
            raise Unauthorized("wrong user or password")
        refresh = secrets.token_urlsafe(32)
        self.open.run(
            "INSERT INTO sessions (session, name, device, refresh, broker, expires) VALUES (?, ?, ?, ?, '', ?)"
            " ON CONFLICT (session) DO UPDATE SET refresh = excluded.refresh, expires = excluded.expires",
            (session_id(user, device), user, device, _digest(refresh), self._expires()),
        )
        return Session(user, device, roles, refresh)

    def refresh(self, refresh: str) -> Session:
        rows = self.open.rows(
            "UPDATE sessions SET expires = ? WHERE refresh = ? AND expires > ? RETURNING name, device",
            (self._expires(), _digest(refresh), self._expiry()),
        )
        roles = self._roles(rows[0][0]) if rows else None
        if roles is None:
            raise Unauthorized("the refresh token is unknown or has expired", hint=LOG_IN)
        return Session(rows[0][0], rows[0][1], roles, refresh)

    def log_out(self, user: str, session: str, issued: float) -> None:
        """With a token that was issued then."""
        self._refuse_revoked(user, session, issued)
        self._end(session)
        self._revoke(user, session, ended=True)

    def revoke(self, user: str) -> None:
        """All tokens of the user; what is durable stays."""
        self._revoke(user, "")

    def _refuse_revoked(self, user: str, session: str, issued: float) -> None:
        text = "SELECT 1 FROM revocations WHERE name = ? AND session IN ('', ?) AND before >= ? AND until > ?"
        if self.open.rows(text, (user, session, issued, self.clock())):
            raise Unauthorized("the token was revoked", hint=LOG_IN)

    def _end(self, session: str) -> None:
        for table in ("durable_subscriptions", "previous_ids", "sessions"):
            self.open.run(f"DELETE FROM {table} WHERE session = ?", (session,))

    def _revoke(self, user: str, session: str, *, ended: bool = False, refresh: bool = True) -> None:
        now = self.clock()
        until = now + max(LONGEST if self.config.issuer else 0.0, self.config.token_seconds) + self.config.clock_skew
        text = "INSERT INTO revocations (name, session, before, until, ended) VALUES (?, ?, ?, ?, ?)"
        self.open.run(text, (user, session, now, until, int(ended)))
        if refresh:
            which, value = ("session", session) if session else ("name", user)
            self.open.run(f"UPDATE sessions SET refresh = NULL WHERE {which} = ?", (value,))

    def _expires(self) -> float:
        return self._expiry() + self.config.session_seconds

    def expire(self) -> None:
        """Ends the sessions that were not used for too long, and the revocations whose tokens have expired. Keeps the
        time, for the next start."""
        now = self.clock()
        text = (
            "INSERT INTO meta (name, value) VALUES ('time', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        self.open.run(text, (int(self._expiry()),))
        for (session,) in self.open.rows("SELECT session FROM sessions WHERE expires <= ?", (self._expiry(),)):
            self._end(session)
        # The newest stays: its number is what brokers know.
        text = "DELETE FROM revocations WHERE until <= ? AND number < (SELECT max(number) FROM revocations)"
        self.open.run(text, (now,))

    def rotate(self) -> list[SigningKey]:
        """The keys that sign tokens; see ``rotated``."""
        rows = self.open.rows("SELECT kid, private, begins FROM keys")
        known = [SigningKey(kid, bytes(private), begins) for kid, private, begins in rows]
        kept = self.config.token_seconds + self.config.clock_skew
        found = rotated(known, self.clock(), self.config.key_seconds, kept)
        for key in found:
            if key not in known:
                self.open.run(
                    "INSERT INTO keys (kid, private, begins) VALUES (?, ?, ?)", (key.kid, key.private, key.begins)
                )
        for key in known:
            if key not in found:
                self.open.run("DELETE FROM keys WHERE kid = ?", (key.kid,))
        return found

    # -- for brokers

    def exchange(
        self, broker: str, revocation: int, commands: list[it.AnyCommand], alive: Collection[str] | None
    ) -> tuple[list[Outcome], list[Revocation]]:
        """The outcomes of the commands in order, and all revocations after this one. ``alive``: the brokers whose
        sessions stay theirs; None for all."""
        self._usage.clear()
        self._owners.clear()
        outcomes: list[Outcome] = []
        for kind, run in groupby(commands, type):
            some: Any = list(run)
            if kind is it.Remember:
                outcomes += self._remember(some)
            elif kind is it.Forget:
                self._forget([(each.user, each.subscription) for each in some])
                outcomes += [NOTHING] * len(some)
            else:
                outcomes += [self._outcome(broker, each, alive) for each in some]
        rows = self.open.rows(
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
            case it.ChangeId():
                if not self._change_id(command):
                    return Outcome(error=NotFound("subscription", str(command.previous_id)).to_dict())
            case it.Acknowledge():
                self._acknowledge(command)
            case it.Served():
                rows = self.open.rows(
                    "SELECT session FROM sessions WHERE broker = ? AND expires > ?", (broker, self._expiry())
                )
                return Outcome({session: self.durable(session) for (session,) in rows})
            case it.Use():
                return self._use(broker, command, alive)
        return NOTHING

    def _attach(self, broker: str, command: it.Attach) -> Outcome:
        try:
            self._refuse_revoked(command.user, command.session, command.issued)
        except Unauthorized as error:
            return Outcome(error=error.to_dict())
        device = command.session.removeprefix(session_prefix(command.user))
        self.open.run(
            "INSERT INTO sessions (session, name, device, refresh, broker, expires) VALUES (?, ?, ?, NULL, ?, ?)"
            " ON CONFLICT (session) DO UPDATE SET broker = excluded.broker, expires = excluded.expires",
            (command.session, command.user, device, broker, self._expires()),
        )
        return Outcome({command.session: self.durable(command.session)})

    def _use(self, broker: str, command: it.Use, alive: Collection[str] | None) -> Outcome:
        expires = self._expires()
        text = "UPDATE sessions SET expires = ? WHERE session = ?"
        self.open.each(text, [(expires, session) for session in command.connected])
        text = "SELECT 1 FROM sessions WHERE session = ? AND broker = ?"
        elsewhere = [each for each in command.offline if not self.open.rows(text, (each, broker))]
        return Outcome(self._adopt(broker, alive), elsewhere)

    def _adopt(self, broker: str, alive: Collection[str] | None) -> dict[str, list[DurableSubscription]]:
        """Sessions of users who are offline and whose broker is gone: this broker serves them from now on."""
        if alive is None:
            return {}
        marks = ", ".join("?" * len(alive))
        rows = self.open.rows(
            f"UPDATE sessions SET broker = ? WHERE session IN (SELECT session FROM sessions WHERE broker <> ''"
            f" AND broker NOT IN ({marks}) LIMIT {ADOPTED}) RETURNING session",
            (broker, *alive),
        )
        return {session: self.durable(session) for (session,) in rows}

    def durable(self, session: str) -> list[DurableSubscription]:
        rows = self.open.rows(
            "SELECT subscription, channel, args, after, epoch FROM durable_subscriptions WHERE session = ?"
            " ORDER BY subscription",
            (session,),
        )
        return [
            DurableSubscription(id, channel, msgspec.json.decode(args), after, self._previous_ids(session, id), epoch)
            for id, channel, args, after, epoch in rows
        ]

    def _previous_ids(self, session: str, subscription: int) -> dict[int, int]:
        text = "SELECT previous_id, until FROM previous_ids WHERE session = ? AND subscription = ? ORDER BY previous_id"
        return dict(self.open.rows(text, (session, subscription)))

    def _remember(self, commands: list[it.Remember]) -> list[Outcome]:
        """A session that has ended keeps nothing, and a user not too much, on all devices and brokers. Users far from
        their limits are inserted together."""
        outcomes: list[Outcome] = []
        rows: list[Row] = []
        for command in commands:
            session, outcome = command.user, NOTHING
            owner = self._owner(session)
            if owner is not None:
                args, position = _encode(command.args), command.position
                row = (session, command.subscription, command.channel, args, position.execution, position.epoch)
                usage = self._used_by(owner)
                usage.subscriptions += 1
                usage.argument_bytes += len(args)
                if self._too_much(usage) is None:
                    rows.append(row)
                else:
                    self.open.insert("durable_subscriptions", DURABLE, rows)
                    rows.clear()
                    outcome = self._remember_last(owner, row)
            outcomes.append(outcome)
        self.open.insert("durable_subscriptions", DURABLE, rows)
        return outcomes

    def _remember_last(self, user: str, row: Row) -> Outcome:
        """It may be too much, if it is new: what was counted is a bound."""
        added = self.open.insert("durable_subscriptions", DURABLE, [row])
        problem = self._too_much(self._used_by(user, again=True))
        if problem is None or not added:
            return NOTHING
        self._forget([row[:2]])
        self._used_by(user, again=True)
        return Outcome(error=problem.to_dict())

    def _owner(self, session: str) -> str | None:
        """Read once for the commands of an exchange."""
        owner = self._owners.get(session)
        if owner is None:
            rows = self.open.rows("SELECT name FROM sessions WHERE session = ?", (session,))
            if rows:
                owner = self._owners[session] = rows[0][0]
        return owner

    def _used_by(self, user: str, *, again: bool = False) -> Usage:
        """At most so much: read once for the commands of an exchange, and what may have been stored before, or has
        ended, counts too."""
        usage = None if again else self._usage.get(user)
        if usage is None:
            rows = self.open.rows(
                "SELECT count(*), coalesce(sum(length(args)), 0) FROM durable_subscriptions WHERE session IN"
                " (SELECT session FROM sessions WHERE name = ?)",
                (user,),
            )
            usage = self._usage[user] = Usage(*map(int, rows[0]))
        return usage

    def _too_much(self, usage: Usage) -> LimitExceeded | None:
        config, hint = self.config, "unsubscribe from something first, on any device"
        if usage.subscriptions > config.subscriptions:
            return LimitExceeded(f"at most {config.subscriptions} subscriptions of a user", hint=hint)
        if usage.argument_bytes > config.argument_bytes:
            most = config.argument_bytes
            return LimitExceeded(f"at most {most} bytes of arguments of all subscriptions of a user", hint=hint)
        return None

    def _change_id(self, command: it.ChangeId) -> bool:
        """What was acknowledged stays so. Another broker may have done it before; False if it has ended meanwhile."""
        user, before, now = command.user, command.previous_id, command.subscription
        rows = self.open.rows(
            "SELECT channel, args, after, epoch FROM durable_subscriptions WHERE session = ? AND subscription = ?",
            (user, before),
        )
        if not rows:
            text = "SELECT 1 FROM durable_subscriptions WHERE session = ? AND subscription = ?"
            return bool(self.open.rows(text, (user, now)))
        channel, args, after, epoch = rows[0]
        position = command.position
        other = other_epoch(epoch, position.epoch)
        self.open.run(
            "INSERT INTO durable_subscriptions (session, subscription, channel, args, after, epoch)"
            " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session, subscription) DO UPDATE SET after = excluded.after"
            " WHERE durable_subscriptions.after > excluded.after AND durable_subscriptions.epoch <> ?",
            (
                user,
                now,
                channel,
                args,
                position.execution if other else min(after, position.execution),
                position.epoch or epoch,
                position.epoch if other else -1,
            ),
        )
        if other:  # the results of a channel that was dropped went with it
            self._forget([(user, before)])
            return True
        self.open.run(
            "INSERT INTO previous_ids (session, subscription, previous_id, until)"
            " SELECT session, ?, previous_id, until FROM previous_ids WHERE session = ? AND subscription = ?"
            " ON CONFLICT DO NOTHING",
            (now, user, before),
        )
        self.open.run(
            "INSERT INTO previous_ids (session, subscription, previous_id, until) VALUES (?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING",
            (user, now, before, command.until.execution),
        )
        self._forget([(user, before)])
        return True

    def _forget(self, ids: Sequence[Row]) -> None:
        """Of sessions and subscriptions."""
        for table in ("durable_subscriptions", "previous_ids"):
            self.open.each(f"DELETE FROM {table} WHERE session = ? AND subscription = ?", ids)

    def _acknowledge(self, command: it.Acknowledge) -> None:
        """After the end of a previous id, no results of that id can be missing."""
        text = "SELECT epoch FROM durable_subscriptions WHERE session = ? AND subscription = ?"
        for id, position in command.positions.items():
            known = self.open.rows(text, (command.user, id))
            if not known or other_epoch(known[0][0], position.epoch):
                continue
            row = (position.execution, command.user, id)
            update = "UPDATE durable_subscriptions SET after = ? WHERE session = ? AND subscription = ? AND after < ?"
            self.open.run(update, (*row, position.execution))
            self.open.run("DELETE FROM previous_ids WHERE until < ? AND session = ? AND subscription = ?", row)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()
