"""Which members a host has: it enters rings, leaves them, and takes members over from other hosts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from msgspec import structs

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.context import Context, Done
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.model.contact import Contact, Point
from tocsin.overlay.keyspace.overlay import Mirroring, Overlay
from tocsin.overlay.keyspace.requests import Answered, Requests

Lookup = Callable[[str, Point, Any, Answered], None]


class Membership:
    """``aims``: how many members of each ring the host is to have."""

    def __init__(self, overlays: dict[str, Overlay], context: Context, requests: Requests, lookup: Lookup) -> None:
        self.overlays, self.context, self.requests, self._lookup = overlays, context, requests, lookup
        self.members: dict[str, Member] = {}
        self.mirrors: dict[str, Mirroring] = {}
        self.aims: dict[str, int] = {}
        self._withdrawn: dict[str, ev.Withdraw] = {}
        self._entering: Counter[str] = Counter()
        self._taking: set[str] = set()
        self._serial = 0

    def of(self, ring: str) -> list[Member]:
        """Members that are not leaving."""
        return [each for each in self.members.values() if each.ring.name == ring and not each.leaving]

    # -- time

    def tick(self) -> None:
        for member in list(self.members.values()):
            member.tick()
            member.look()
            if member.gone:
                self._ended(member)
            elif not member.leaving and member.me.id in self._withdrawn:
                self._stayed(member)
        for id in [id for id, each in self.mirrors.items() if each.ended]:
            del self.mirrors[id]
        for ring, count in self.aims.items():
            if len(self.of(ring)) + self._entering[ring] < count:
                self.enter(ev.Enter(ring))

    def look(self) -> None:
        for member in list(self.members.values()):
            member.look()

    def _ended(self, member: Member) -> None:
        del self.members[member.me.id]
        withdrawn = self._withdrawn.pop(member.me.id, None)
        if withdrawn is None:
            return
        if withdrawn.then is not None:
            self._entering[member.ring.name] -= 1
            self.enter(structs.replace(withdrawn.then, call=withdrawn.call))
        else:
            self._done(withdrawn.call, ms.Gone())

    def _stayed(self, member: Member) -> None:
        withdrawn = self._withdrawn.pop(member.me.id)
        if withdrawn.then is not None:
            self._entering[member.ring.name] -= 1
        self._done(withdrawn.call, ms.Failed("no other member took the items"))

    # -- commands

    def create(self, event: ev.Create) -> None:
        self.add(event.ring, self.overlays[event.ring].first(self._name(), self.context.host))

    def aim(self, event: ev.Aim) -> None:
        self.aims[event.ring] = event.members

    def enter(self, event: ev.Enter) -> None:
        ring, overlay = event.ring, self.overlays[event.ring]
        join = ms.Join(self._name(), self.context.host, event.position, event.generation, event.cut, event.rule)
        if event.position is None and event.beside is None:
            join = overlay.prepare(join)
        self._entering[ring] += 1

        def done(body: Any, hops: int) -> None:
            self._entering[ring] -= 1
            if isinstance(body, ms.Welcome):
                self.add(ring, body.me).joined(body)
            self._done(event.call, body, hops)

        if event.beside is not None:
            self.requests.ask(event.beside.host, ring, event.beside.id, join, done)
        elif event.point is not None:
            self._lookup(ring, event.point, join, done)
        elif join.position is not None:
            self._lookup(ring, (join.position,), join, done)
        else:
            self._lookup(ring, overlay.anywhere(self.context.rng), join, done)

    def withdraw(self, event: ev.Withdraw) -> None:
        member = self.members.get(event.member)
        if member is None or member.leaving:
            self._done(event.call, ms.Failed("there is no such member on this host"))
        elif not member.ring.successors:
            self._done(event.call, ms.Failed("the last member cannot leave: its items would be lost"))
        else:
            self._withdrawn[event.member] = event
            if event.then is not None:
                self._entering[member.ring.name] += 1  # it comes back
            else:
                self._fewer(member.ring.name)
            member.leave()

    def hand_over(self, event: ev.HandOver) -> None:
        """The other host enters at the same place, one generation later; then this member owns nothing and leaves."""
        member = self.members.get(event.member)
        if member is None or member.leaving or event.host == self.context.host:
            self._done(event.call, ms.Failed("there is no such member to move to another host"))
            return
        ring = member.ring.name

        def accepted(body: Any, hops: int) -> None:
            if isinstance(body, ms.Taken):
                self._fewer(ring)
            self._done(event.call, body, hops)

        self.requests.ask(event.host, "", "", ms.Take(ring, member.me), accepted, nested=True)

    def invite(self, event: ev.Invite) -> None:
        """Asks a host without members to take part of a member's region over, or to serve it too."""
        member = self.members.get(event.member)
        if member is None or member.leaving or event.host == self.context.host:
            self._done(event.call, ms.Failed("there is no such member to share with another host"))
            return
        invite = ms.Invite(member.ring.name, member.me, event.rule, event.cut, event.mirror)
        done = self.completes(event.call)
        self.requests.ask(event.host, "", "", invite, done, nested=True)

    def invited(self, invite: ms.Invite, respond: Callable[[Any], None]) -> None:
        if invite.mirror:
            self._mirror(invite, respond)
            return
        ring = invite.ring
        if invite.beside.id in self._taking:
            return
        if any(each.ring.name == ring for each in self.members.values()) or self._entering[ring]:
            respond(ms.Failed("this host has a region of its own"))
            return
        self._taking.add(invite.beside.id)

        def done(body: Any, hops: int) -> None:
            self._taking.discard(invite.beside.id)
            if isinstance(body, ms.Welcome):
                self.add(ring, body.me).joined(body)
                self.aims[ring] = self.aims.get(ring, 0) + 1
            respond(ms.Taken() if isinstance(body, ms.Welcome) else ms.Failed("the region was not divided"))

        join = ms.Join(self._name(), self.context.host, cut=invite.cut, rule=invite.rule)
        self.requests.ask(invite.beside.host, ring, invite.beside.id, join, done)

    def _mirror(self, invite: ms.Invite, respond: Callable[[Any], None]) -> None:
        id, beside = f"{invite.beside.id} at {self.context.host}", invite.beside
        mirror = self.overlays[invite.ring].mirror(invite.ring, id, beside, self.context)
        if mirror is None:
            respond(ms.Failed("members of this ring cannot be mirrored"))
            return
        self.mirrors.setdefault(id, mirror)
        request = ms.MirrorRequest(id, self.context.host)

        def done(body: Any, hops: int) -> None:
            respond(body if isinstance(body, ms.Taken) else ms.Failed("the region has no owner there"))

        self.requests.ask(beside.host, invite.ring, beside.id, request, done)

    def take(self, take: ms.Take, respond: Callable[[Any], None]) -> None:
        """Another host hands a member over; repeated questions have the same answer."""
        it, place = take.member, (take.member.position, take.member.generation + 1)
        if any((each.me.position, each.me.generation) == place for each in self.of(take.ring)):
            respond(ms.Taken())
            return
        if it.id in self._taking:
            return
        self._taking.add(it.id)

        def done(body: Any, hops: int) -> None:
            self._taking.discard(it.id)
            if isinstance(body, ms.Welcome):
                self.add(take.ring, body.me).joined(body)
                self.aims[take.ring] = self.aims.get(take.ring, 0) + 1
                respond(ms.Taken())
            else:
                respond(ms.Failed("the member could not be taken over"))

        join = ms.Join(self._name(), self.context.host, it.position, it.generation + 1)
        self.requests.ask(it.host, take.ring, it.id, join, done)

    # -- helpers

    def _fewer(self, ring: str) -> None:
        if ring in self.aims:
            self.aims[ring] = max(0, self.aims[ring] - 1)

    def _done(self, call: int, body: Any, hops: int = 0) -> None:
        if call:
            self.context.out.append(Done(call, body, hops))

    def completes(self, call: int) -> Answered:
        return lambda body, hops: self._done(call, body, hops)

    def _name(self) -> str:
        self._serial += 1
        # A host that was restarted must not use the name of an earlier member.
        return f"{self.context.host}/{self._serial}/{self.context.rng.getrandbits(32):08x}"

    def add(self, ring: str, me: Contact) -> Member:
        member = Member(ring, me, self.overlays[ring], self.context, self.requests)
        self.members[me.id] = member
        return member
