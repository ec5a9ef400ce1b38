"""Brokers that come, go, are drained and forgotten."""

from __future__ import annotations

import hashlib
import hmac

import msgspec

from tocsin.balancing.model.load import Status
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import BrokerRow, Note, Refuse, Reply
from tocsin.coordinator.core.members import Member
from tocsin.coordinator.core.migrations import Moving
from tocsin.errors import Busy, Unauthorized
from tocsin.wire.reports import Registered
from tocsin.wire.tickets import key_for


class Membership(Moving):
    def _restored(self, event: ev.Restored) -> None:
        for row in event.brokers:
            self._admit(row).remembered = True

    def _admit(self, row: BrokerRow) -> Member:
        member = self.members.get(row.name)
        if member is None:
            member = self.members[row.name] = Member(row, self._numbers.number(row.name))
            self._by_number[member.number] = member
        member.row = row
        self._open(member)
        return member

    def _open(self, member: Member) -> None:
        self.load.broker(member.number, member.row.capacity, member.row.most, member.status)

    def _register(self, event: ev.Register) -> None:
        wish = event.registration
        if not hmac.compare_digest(wish.secret.encode(), self.config.secret.encode()):
            hint = "give the broker the coordinator's secret (TOCSIN_BROKER_SECRET)"
            self._out.append(Refuse(event.call, Unauthorized("another secret", hint=hint)))
            return
        known = self.members.get(wish.broker)
        identity = hashlib.sha256(wish.identity.encode()).hexdigest()
        # One that is remembered without an identity is from before brokers had them.
        if known is not None and known.row.identity and not hmac.compare_digest(known.row.identity, identity):
            hint = f"choose another name; if the other one is gone for good: DELETE /brokers/{wish.broker}"
            error = Unauthorized(f"another broker is registered as {wish.broker}", hint=hint)
            self._out.append(Refuse(event.call, error))
            return
        draining = known is not None and known.row.draining
        row = BrokerRow(wish.broker, wish.url, wish.capacity, wish.most, wish.lat, wish.lon, draining, identity)
        # Also if it is known: what could not be written the last time is written now.
        self._out.append(ev.KeepBroker(row))
        member = self._admit(row)
        member.report, member.behind, member.boot = 0, True, wish.boot
        member.token = hmac.new(self.secret, f"report\0{row.name}\0{self.nonce()}".encode(), "sha256").hexdigest()
        key = key_for(self.secret, row.name, member.boot).hex()
        self._out.append(Reply(event.call, Registered(row.name, key, member.token, self.config.interval)))

    def _alive(self, member: Member) -> None:
        if not member.alive:
            new = member.heard is None and not member.remembered
            member.alive = True
            self._open(member)
            text = f"{member.name} at {member.row.url}"
            self._out.append(Note("joined" if new else "returned", text, target=member.name))

    def _bury(self) -> None:
        """Brokers that were not heard for too long, by how regularly they used to be and how late this one is."""
        for member in self.members.values():
            if member.alive and member.heard is not None:
                silent = self._now - member.heard
                if silent > member.patience(self.config.gone_after, self._lag):
                    self._died(member, f"was not heard for {silent:.3g} s")

    def _died(self, member: Member, why: str) -> None:
        member.alive, member.behind = False, True
        member.drop, member.promised = {}, 0
        self._call_off_all(lambda each: member in (each.source, each.target), f"{member.name} is gone")
        names = self.picture.claimed(member.number)
        back = sum(self.picture.at(name) != member.number for name in names)
        for name in names:
            self._left(member, name)
        self.load.mark(member.number, Status.GONE)
        text = f"{member.name} {why}; of its {len(names)} subscribers {back} are back elsewhere already"
        self._out.append(Note("died", text, source=member.name))

    def _leave(self, event: ev.Leave) -> None:
        member = self._authentic(event.call, event.broker, event.token)
        if member is not None:
            member.token = ""  # a report that is still under way does not bring it back
            if member.alive:
                self._died(member, "has left")
            self._out.append(Reply(event.call, {"broker": member.name}))

    def _drain(self, event: ev.Drain) -> None:
        member = self._known(event.call, event.broker)
        if member is None:
            return
        member.row = msgspec.structs.replace(member.row, draining=not event.undo)
        self._open(member)
        self._out.append(ev.KeepBroker(member.row))
        self._out.append(Note("undrained" if event.undo else "draining", member.name, source=member.name))
        if not event.undo:
            self._call_off_all(lambda each: each.target is member, f"{member.name} is drained")
        self._balanced = float("-inf")  # look at the balance with the next tick
        self._out.append(Reply(event.call, {"broker": member.name, "state": member.state}))

    def _forget(self, event: ev.Forget) -> None:
        member = self._known(event.call, event.broker)
        if member is None:
            return
        if member.alive:
            hint = f"stop it first, or tocsin drain {member.name}"
            self._out.append(Refuse(event.call, Busy(f"{member.name} is alive", hint=hint)))
            return
        del self.members[member.name]
        del self._by_number[member.number]
        self._numbers.forget(member.name)
        self._out.append(ev.DropBroker(member.name))
        self._out.append(Note("forgotten", member.name, source=member.name))
        self._out.append(Reply(event.call, {"broker": member.name}))
