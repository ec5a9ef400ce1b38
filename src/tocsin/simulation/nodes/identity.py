"""The coordinator's accounts: production's rules and tables, on a SQLite in memory that survives a restart."""

from __future__ import annotations

import sqlite3
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from argon2 import PasswordHasher
from msgspec import Struct

from tocsin.config import IdentityConfig
from tocsin.database.sqlite_session import DIALECT, SqliteSession
from tocsin.effects import Effects, Pause
from tocsin.errors import NotReady, Unauthorized, UserError
from tocsin.identity import messages as it
from tocsin.identity.accounts import Accounts, HashPassword, Stored
from tocsin.identity.password_hashes import PasswordHashes
from tocsin.identity.user_records import LAYOUT, UserRecords
from tocsin.simulation.identity.people import People, Revoked
from tocsin.simulation.network.process import Done, Process, Request

if TYPE_CHECKING:
    from tocsin.simulation.nodes.coordinator import CoordinatorNode

#: Seconds that a hash takes at most, and between two searches for what has expired.
HASHING, MAINTENANCE = 0.1, 15.0

_hashes = PasswordHashes(PasswordHasher(time_cost=1, memory_cost=8, parallelism=1))
_call = msgspec.json.Decoder(it.AnyCall)
_exchange = msgspec.json.Decoder(it.Exchange)


class Answer(Struct, frozen=True):
    """Of an exchange, as JSON. ``revoked``: how many revocations there were when it was made."""

    body: bytes
    revoked: int


class Identity:
    def __init__(self, node: CoordinatorNode, config: IdentityConfig, people: People, rng: Random) -> None:
        self.node, self.config, self.people, self.rng = node, config, people, rng
        self.records = UserRecords(config, node.wall_clock)
        self.records.open = SqliteSession(sqlite3.connect(":memory:", isolation_level=None))
        for statement in LAYOUT.statements(DIALECT):
            self.records.open.run(statement)

    def boot(self) -> None:
        self.accounts = Accounts(self.config, self.node.wall_clock, self.records.rotate())
        Process(self.node, self._maintain(), self._perform)

    def _maintain(self) -> Effects[None]:
        while True:
            yield Pause(MAINTENANCE)
            yield from self.accounts.maintain()

    def _perform(self, effect: Any) -> Request:
        if isinstance(effect, Stored):
            return lambda done: self._store(effect, done)
        return lambda done: self.node.later(self.rng.uniform(0.0, HASHING), self._hash, effect, done)

    def _store(self, effect: Stored, done: Done) -> None:
        try:
            found = effect.work(self.records)
        except UserError as error:
            done(None, error)
        else:
            done(found, None)

    def _hash(self, effect: Any, done: Done) -> None:
        done(_hashed(effect), None)

    # -- requests; bodies are JSON

    def call(self, body: bytes, done: Done) -> None:
        call = _call.decode(body)
        Process(self.node, self.accounts.call(call, "a person"), self._perform, lambda *found: done(*_encoded(*found)))

    def exchange(self, body: tuple[str, str, bytes], done: Done) -> None:
        broker, token, data = body
        state = self.node.state
        try:
            name = state.members.authenticated(broker, token).name
        except Unauthorized as error:  # a user must not take it for a refusal of its own
            done(None, NotReady(error.message))
            return
        effects = self.accounts.exchange(name, _exchange.decode(data), state.members.serving(self.node.clock.now))
        count = len(self.people.revoked)
        try:
            found = _at_once(effects, self.records)
        except NotReady as error:
            done(None, error)
        else:
            done(Answer(msgspec.json.encode(found), count), None)

    # -- people and operators, at once: what is done is known to be true

    def now(self, effects: Effects[Any]) -> Any:
        return _at_once(effects, self.records)

    def revoked(self, user: str, session: str = "") -> None:
        self.people.revoked.append(Revoked(user, session, self.node.wall_clock()))


def _encoded(value: Any, error: Exception | None) -> tuple[bytes | None, Exception | None]:
    return (None if error is not None else msgspec.json.encode(value)), error


def _hashed(effect: Any) -> Any:
    if isinstance(effect, HashPassword):
        return _hashes.hash(effect.password)
    return _hashes.verify(effect.known, effect.password)


def _at_once(effects: Effects[Any], records: UserRecords) -> Any:
    value: Any = None
    while True:
        try:
            effect = effects.send(value)
        except StopIteration as end:
            return end.value
        value = effect.work(records) if isinstance(effect, Stored) else _hashed(effect)
