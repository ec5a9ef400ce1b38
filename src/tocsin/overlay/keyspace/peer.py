"""A peer as a pure state machine: ``handle(event, now) -> [Send | Done]``. It hosts members of rings."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from msgspec import structs

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.chord.choices import Choices
from tocsin.overlay.keyspace.context import Context, Done, Send
from tocsin.overlay.keyspace.items.range_query import RangeQuery
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.membership import Membership
from tocsin.overlay.keyspace.model.contact import Point
from tocsin.overlay.keyspace.model.load import Load
from tocsin.overlay.keyspace.model.order import closeness
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.overlay import Overlay
from tocsin.overlay.keyspace.requests import Answered, Requests

#: Hosts without members that pass a route on to one another, until one has a member.
WALK = 16


class Peer:
    """``overlays``: the rings it may take part in, by name. ``bootstrap``: hosts that are known from the start."""

    def __init__(
        self, host: str, overlays: dict[str, Overlay], settings: Settings, rng: Random, bootstrap: Iterable[str] = ()
    ) -> None:
        self.host = host
        self.context = Context(host, settings, rng, bootstrap)
        self.requests = Requests(self.context)
        self.membership = Membership(overlays, self.context, self.requests, self.lookup)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            ev.Received: self._received,
            ev.Tick: self._tick,
            ev.Create: self.membership.create,
            ev.Aim: self.membership.aim,
            ev.Enter: self.membership.enter,
            ev.Withdraw: self.membership.withdraw,
            ev.HandOver: self.membership.hand_over,
            ev.Invite: self.membership.invite,
            ev.Request: self._request,
            ev.RangeRequest: self._range_request,
            ev.InsertChoice: lambda event: self._choices(event).insert(event.key, event.value, self._done(event)),
            ev.PlaceChoice: lambda event: self._choices(event).place(
                event.key, event.value, event.choice, self._done(event)
            ),
            ev.FindChoice: lambda event: self._choices(event).find(event.key, self._done(event)),
            ev.Redirect: lambda event: self._choices(event).redirect(event.key, event.choice, self._done(event)),
        }

    def handle(self, event: ev.Event, now: float) -> list[Send | Done]:
        context = self.context
        context.now, context.out = now, []
        self._handlers[type(event)](event)
        return context.out

    @property
    def members(self) -> dict[str, Member]:
        return self.membership.members

    def members_of(self, ring: str) -> list[Member]:
        """Those that are not leaving."""
        return self.membership.of(ring)

    def load(self, ring: str | None = None) -> Load:
        found = Load()
        for each in self.members.values():
            if ring is None or each.ring.name == ring:
                found = found.plus(each.load())
        for mirror in self.membership.mirrors.values():
            found = found.plus(mirror.load())
        return found

    # -- events

    def _tick(self, event: ev.Tick) -> None:
        self.requests.tick()
        self.membership.tick()

    def _received(self, event: ev.Received) -> None:
        message = event.message
        # A host that sends a route to no particular member may not be part of the overlay.
        if not isinstance(message, ms.Route) or message.member:
            self.context.met(event.source)
        if isinstance(message, ms.Reply):
            self.requests.answered(message)
        elif isinstance(message, ms.Ask):
            self._ask(event.source, message)
        elif isinstance(message, ms.Route):
            self._route(message)
        elif isinstance(message, ms.Notification):
            self.context.out.append(Done(0, message))
        self.membership.look()

    def _ask(self, source: str, ask: ms.Ask) -> None:
        def respond(body: Any) -> None:
            self.context.reply(source, ask.id, body)

        if isinstance(ask.body, ms.Take):
            self.membership.take(ask.body, respond)
            return
        if isinstance(ask.body, ms.Invite):
            self.membership.invited(ask.body, respond)
            return
        mirror = self.membership.mirrors.get(ask.member)
        if mirror is not None:
            mirror.serve(ask.body, source, respond)
            return
        member = self.members.get(ask.member) if ask.member else next(iter(self.membership.of(ask.ring)), None)
        if member is None:
            respond(ms.Gone())
        else:
            member.serve(ask.body, source, respond)

    def _route(self, route: ms.Route) -> None:
        def respond(body: Any) -> None:
            self.context.reply(route.origin, route.id, body, route.hops)

        member = self.members.get(route.member) if route.member else self._nearest(route.ring, route.point)
        mirror = self.membership.mirrors.get(route.member)
        if member is not None:
            member.route(route, respond)
        elif mirror is not None:
            mirror.route(route, respond)
        elif not route.member and route.hops < WALK and (host := self.context.someone()) is not None:
            self.context.send(host, structs.replace(route, hops=route.hops + 1))

    def _nearest(self, ring: str, point: Point) -> Member | None:
        members = self.membership.of(ring)
        return max(members, key=lambda each: closeness(each.order, each.me, point), default=None)

    def _choices(self, event: ev.InsertChoice | ev.PlaceChoice | ev.FindChoice | ev.Redirect) -> Choices:
        return Choices(self.lookup, event.ring, self.context.rng, event.functions)

    def _done(self, event: ev.InsertChoice | ev.PlaceChoice | ev.FindChoice | ev.Redirect) -> Answered:
        return self.membership.completes(event.call)

    def _request(self, event: ev.Request) -> None:
        self.lookup(event.ring, event.point, event.body, self.membership.completes(event.call))

    def _range_request(self, event: ev.RangeRequest) -> None:
        RangeQuery(self.lookup, event.ring, event.low, event.high, self.membership.completes(event.call))

    def lookup(self, ring: str, point: Point, body: Any, done: Answered) -> None:
        """``body`` to the owner of a key. From the third attempt on it goes along the ring only."""
        settings = self.context.settings

        def attempt(id: int, tried: int) -> None:
            route = ms.Route(id, ring, "", point, body, self.host, careful=tried >= 2)
            if self.membership.of(ring):
                self._route(route)
            else:
                host = self.context.someone(tried)
                if host is not None:
                    self.context.send(host, route)

        self.requests.start(attempt, done, settings.lookup_timeout, settings.lookup_attempts)
