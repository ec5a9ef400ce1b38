"""Brokers register, leave, die, and are drained and forgotten."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tocsin.balancing.model.load import Status
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import BrokerRow, Instruction, Note, Reply
from tocsin.coordinator.core.members import Member, Members
from tocsin.coordinator.core.migrations import Migrations
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.errors import Busy, Unauthorized, UserError
from tocsin.wire.reports import Registered
from tocsin.wire.tickets import key_for


@dataclass(eq=False)
class Membership:
    _config: CoordinatorConfig
    _secret: bytes
    _nonce: Callable[[], str]
    _model: NetworkModel
    _members: Members
    _migrations: Migrations

    def restore(self, rows: list[BrokerRow]) -> None:
        for row in rows:
            self._members.admit(row).restored = True

    def register(self, event: ev.Register, now: float) -> list[Instruction]:
        asked = event.registration
        known = self._members.get(asked.broker)
        if known is not None and known.row.key and known.row.key != asked.key:
            hint = f"choose another name; if the other broker is gone for good: DELETE /brokers/{asked.broker}"
            raise Unauthorized(f"another broker is registered as {asked.broker}", hint=hint)
        mode = self._config.balancing.mode
        if asked.balancing != mode:
            hint = f'set balancing.mode to the same at both: "{mode}" at the broker, or "{asked.balancing}" here'
            raise UserError(f"{asked.broker} is balanced by {asked.balancing}, this network by {mode}", hint=hint)
        draining = known is not None and known.row.draining
        row = BrokerRow(
            asked.broker, asked.url, asked.capacity, asked.max_subscribers, asked.lat, asked.lon, draining, asked.key
        )
        member = self._members.admit(row)
        if (known is None or member.inside != asked.inside) and mode == "peers":
            self._members.version += 1
        member.inside = asked.inside
        member.report, member.needs_full, member.incarnation = 0, True, asked.incarnation
        member.token = hmac.new(self._secret, f"report\0{row.name}\0{self._nonce()}".encode(), "sha256").hexdigest()
        key = key_for(self._secret, row.name, member.incarnation).hex()
        # A known broker is saved again too: the last time the store may have failed.
        return [
            ev.SaveBroker(row),
            Reply(event.call, Registered(row.name, key, member.token, self._config.interval)),
        ]

    def revive(self, member: Member) -> list[Instruction]:
        """The member has reported."""
        if member.alive:
            return []
        new = member.reported_at is None and not member.restored
        member.alive = True
        self._members.publish(member)
        text = f"{member.name} at {member.row.url}"
        return [Note("joined" if new else "returned", text, target=member.name)]

    def evict_silent(self, now: float) -> list[Instruction]:
        out: list[Instruction] = []
        for member, silence in self._members.silent(now):
            out += self._evict(member, f"has not reported for {silence:.3g} s", now)
        return out

    def _evict(self, member: Member, reason: str, now: float) -> list[Instruction]:
        member.alive, member.needs_full = False, True
        member.superseded, member.placed = {}, 0
        number = member.number
        out = self._migrations.cancel_all(lambda each: number in (each.source, each.target), f"{member.name} is gone")
        names = self._model.claimed(number)
        elsewhere = sum(self._model.at(name) != number for name in names)
        for name in names:
            out += self._migrations.left(member, name, now)
        self._model.load.mark(number, Status.GONE)
        text = f"{member.name} {reason}; {elsewhere} of its {len(names)} subscribers are at other brokers already"
        return [*out, Note("died", text, source=member.name)]

    def leave(self, event: ev.Leave, now: float) -> list[Instruction]:
        member = self._members.authenticated(event.broker, event.token)
        member.token = ""  # a late report does not bring it back
        out = self._evict(member, "has left", now) if member.alive else []
        return [*out, Reply(event.call, {"broker": member.name})]

    def drain(self, event: ev.Drain, now: float) -> list[Instruction]:
        member = self._members.known(event.broker)
        member.row = msgspec.structs.replace(member.row, draining=not event.undo)
        self._members.publish(member)
        kind: ev.NoteKind = "undrained" if event.undo else "draining"
        out: list[Instruction] = [ev.SaveBroker(member.row), Note(kind, member.name, source=member.name)]
        if not event.undo:
            number = member.number
            out += self._migrations.cancel_all(lambda each: each.target == number, f"{member.name} is being drained")
        return [*out, Reply(event.call, {"broker": member.name, "state": member.state})]

    def forget(self, event: ev.Forget, now: float) -> list[Instruction]:
        member = self._members.known(event.broker)
        if member.alive:
            raise Busy(f"{member.name} is alive", hint=f"stop it first, or tocsin drain {member.name}")
        self._members.forget(member)
        return [
            ev.DeleteBroker(member.name),
            Note("forgotten", member.name, source=member.name),
            Reply(event.call, {"broker": member.name}),
        ]
