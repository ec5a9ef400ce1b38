"""A broker's part in the overlay as a pure state machine: ``handle(event, now) -> [instruction]``."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tocsin.errors import TocsinError
from tocsin.overlay.content import events as ev
from tocsin.overlay.content import messages as ms
from tocsin.overlay.content import roles
from tocsin.overlay.content.clients import Clients
from tocsin.overlay.content.context import Context
from tocsin.overlay.content.gaps import Gaps
from tocsin.overlay.content.instructions import Deliver, Instruction, LinkRefused, Published, Refused
from tocsin.overlay.content.link.links import Links
from tocsin.overlay.content.routing.routing import Routing
from tocsin.overlay.content.routing.space import Forward, Key
from tocsin.overlay.content.settings import Settings
from tocsin.overlay.content.topology import Topology

DEFAULTS = Settings()


class Router:
    """``epoch`` is higher than in all earlier runs of this name. ``pin``: a role whatever the topology is. ``url`` is
    for clients."""

    def __init__(
        self,
        name: str,
        *,
        epoch: int,
        rng: Random,
        settings: Settings = DEFAULTS,
        pin: ms.Role | None = None,
        url: str = "",
    ) -> None:
        self.context = Context(name, epoch, settings, rng)
        self.topology = Topology(name, epoch, url)
        self.links = Links(self.context, self.topology, self)
        self.routing = Routing()
        self.gaps = Gaps(self.context, self.routing, self._offer)
        self.clients = Clients(self.context, self.target)
        self.role: ms.Role = pin or "both"
        self._pin = pin
        self._overloaded = False
        #: The role has changed, and clients have not got their targets yet.
        self._converting = False
        self._sequence = 0
        #: By head: the epoch and sequence of its last publication.
        self.seen: dict[str, tuple[int, int]] = {}
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            ev.Tick: self._tick,
            ev.Received: lambda event: self.links.receive(event.source, event.message),
            ev.Connect: lambda event: self.links.connect(event.neighbour),
            ev.Disconnect: lambda event: self.links.disconnect(event.neighbour),
            ev.Broken: lambda event: self.links.broken(event.neighbour),
            ev.Leave: lambda event: self.links.leave(),
            ev.Overload: self._overload,
            ev.Attach: lambda event: self.clients.attach(event, self.role),
            ev.Detach: self._detach,
            ev.AdvertiseFeed: self._announce,
            ev.SubscribeFeed: self._announce,
            ev.Withdraw: self._withdraw,
            ev.Publish: self._publish,
        }
        self._bodies: dict[type[Any], Callable[[str, Any], None]] = {
            ms.Publication: self._publication,
            ms.Advertise: self._announced,
            ms.Subscribe: self._announced,
            ms.Unadvertise: self._withdrawn,
            ms.Unsubscribe: self._withdrawn,
            ms.Records: self._records,
            ms.Summary: self._summary,
            ms.Missed: lambda name, body: self.gaps.announce(name, body.reason),
            ms.Inquiry: lambda name, body: self._offer(name, self.routing.inventory(name)),
            ms.Inventory: lambda name, body: self._forward(self.routing.missing(name, body)),
        }

    @property
    def name(self) -> str:
        return self.context.name

    def handle(self, event: ev.Event, now: float) -> list[Instruction]:
        out = self.context.begin(now)
        try:
            self._handlers[type(event)](event)
        except TocsinError as error:
            who = getattr(event, "client", None)
            neighbour = event.source if isinstance(event, ev.Received) else getattr(event, "neighbour", "")
            return [Refused(who, error) if who is not None else LinkRefused(neighbour, error)]
        if self._converting and self._knows_neighbours():
            self._converting = False
            self.clients.migrate(self.role, at_once=True)
        self.links.flush()
        return out

    def _knows_neighbours(self) -> bool:
        """Before, the nearest broker might not be known; a tick does not wait for that."""
        return all(each.established and each.name in self.topology.records for each in self.links.joined)

    def _tick(self, event: ev.Tick) -> None:
        self.links.tick()
        self.gaps.tick()
        self.topology.prune(self.context.now, self.context.settings.forget_after)
        self.clients.migrate(self.role)

    def _offer(self, neighbour: str, body: ms.Body) -> None:
        link = self.links.all.get(neighbour)
        if link is not None:
            link.offer(body)

    def _forward(self, forwards: list[Forward]) -> None:
        for neighbour, body in forwards:
            self._offer(neighbour, body)

    # -- clients

    def _announce(self, event: ev.AdvertiseFeed | ev.SubscribeFeed) -> None:
        space = self.clients.announce(event)
        what = event.advertisement if isinstance(event, ev.AdvertiseFeed) else event.condition
        self._forward(self.routing.add(Key(False, event.client, event.id), space, what))

    def _withdraw(self, event: ev.Withdraw) -> None:
        self.clients.withdraw(event.client, event.id)
        self._forward(self.routing.remove([Key(False, event.client, event.id)]))

    def _detach(self, event: ev.Detach) -> None:
        client = self.clients.find(event.client)
        del self.clients.all[event.client]
        self._forward(self.routing.remove([Key(False, client.name, id) for id in client.announced]))

    def _publish(self, event: ev.Publish) -> None:
        space = self.clients.checked(event)
        self._sequence += 1
        id = ms.PublicationId(self.name, self.context.epoch, self._sequence)
        self.context.out.append(Published(event.client, id))
        self._route(ms.Publication(id, space, event.values, event.data))

    def target(self, kind: ev.Kind) -> str | None:
        """The broker that a client of this kind belongs at, if it is another one."""
        return roles.target(kind, self.topology, self.links.reachable, self.context.rng)

    # -- publications

    def _publication(self, source: str, publication: ms.Publication) -> None:
        """Once: a neighbour sends again what it does not know to have arrived."""
        head, *number = publication.id
        place = (number[0], number[1])
        if head == self.name or self.seen.get(head, (0, 0)) >= place:
            return
        self.seen.pop(head, None)
        self.seen[head] = place
        self._route(publication, source)

    def _route(self, publication: ms.Publication, source: str = "") -> None:
        links, clients = self.routing.route(publication, source)
        for name in links:
            self._offer(name, publication)
        for client, subscriptions in clients.items():
            self.context.out.append(Deliver(client, tuple(sorted(subscriptions)), publication))

    # -- links

    def joined(self, name: str) -> None:
        self.routing.add_neighbour(name)
        self.gaps.back(name)
        self._topology_changed()

    def restarted(self, name: str) -> None:
        self.gaps.restarted(name)

    def left(self, name: str) -> None:
        self.gaps.lost(name)
        self._forward(self.routing.remove_neighbour(name))
        self._topology_changed()

    def established(self, name: str) -> None:
        self._offer(name, ms.Summary(self.routing.held(name), self.topology.versions()))

    def arrived(self, name: str, body: ms.Body) -> None:
        if name in self.routing.neighbours:
            self._bodies[type(body)](name, body)

    def _announced(self, name: str, body: ms.Announcement) -> None:
        self._forward(self.routing.announced(name, body))

    def _withdrawn(self, name: str, body: ms.Withdrawal) -> None:
        self._forward(self.routing.withdrawn(name, body))

    def _summary(self, name: str, summary: ms.Summary) -> None:
        records = self.topology.newer_than(summary.versions)
        if records:
            self._offer(name, ms.Records(records))
        if self.routing.differs(name, summary.digest):
            self._offer(name, ms.Inquiry())

    # -- the topology and roles

    def _overload(self, event: ev.Overload) -> None:
        self._overloaded = event.overloaded
        self._topology_changed()

    def _records(self, name: str, body: ms.Records) -> None:
        new = tuple(each for each in body.records if self.topology.learn(each))
        if new:
            self._flood(new, name)
            self._topology_changed()

    def _flood(self, records: tuple[ms.Record, ...], source: str = "") -> None:
        for link in self.links.joined:
            if link.name != source:
                link.offer(ms.Records(records))

    def _topology_changed(self) -> None:
        self._describe()
        for name in self.topology.superfluous():
            if name in self.links.all and self.links.all[name].joined:
                self.links.cut(name)
        self.topology.look_for_astray(self.context.now)
        self._forget_heads()
        role = self._pin or roles.role_of(len(self.links.joined), len(self.topology))
        if role != self.role:
            self.role = role
            self._converting = True
            self.clients.postpone()
            self._describe()

    def _describe(self) -> None:
        """Floods this broker's own record if it has changed."""
        links = [(each.name, each.stamp) for each in self.links.joined]
        if self.topology.describe(links, self.role, self._overloaded):
            self._flood((self.topology.me,))

    def _forget_heads(self) -> None:
        """Those that have left, beginning with the one that published longest ago."""
        departed = [each for each in self.seen if self.topology.find(each) is None]
        for head in departed[: max(0, len(departed) - self.context.settings.most_departed)]:
            del self.seen[head]
