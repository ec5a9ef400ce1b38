"""What clients were promised, seen from outside of the brokers.

A publication is promised to a subscriber if, before it, the subscription, the advertisement and all brokers between
them were there together for a calm while. The promise ends with one of these; until then, a calm while is enough to
deliver it, whatever happened in between.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tocsin.content import Condition
from tocsin.overlay.content.instructions import Deliver
from tocsin.overlay.content.messages import PublicationId
from tocsin.simulation.violation import Violation

if TYPE_CHECKING:
    from tocsin.simulation.content.client import SimulatedClient
    from tocsin.simulation.content.node import BrokerNode
    from tocsin.simulation.content.world import World

#: Seconds without a disturbance in which the overlay agrees, and everything on its way arrives.
CALM = 8.0


class Promise(Struct, eq=False):
    client: SimulatedClient
    subscription: str
    id: PublicationId
    at: float
    path: tuple[str, ...]


class Witness:
    """``publishing``: the advertisement and values of the publication that is being published.

    ``disturbances``: times from and to which messages were lost or late, or machines slow."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.violations: list[Violation] = []
        self.publishing: tuple[str, dict[str, Any]] = ("", {})
        self.disturbances: list[tuple[float, float]] = []
        self.promises: dict[tuple[str, PublicationId], Promise] = {}
        self.values: dict[PublicationId, dict[str, Any]] = {}
        self.promised = self.kept = self.deliveries = 0

    def broken(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(invariant, what))

    # -- times

    def disturb(self, seconds: float) -> None:
        now = self.world.clock.now
        self.disturbances.append((now, now + seconds))

    def calm_within(self, begin: float, end: float) -> bool:
        """Whether there was a calm while between two times."""
        for since, until in sorted(self.disturbances):
            if until <= begin:
                continue
            if min(since, end) - begin >= CALM:
                return True
            begin = max(begin, until)
        return end - begin >= CALM

    # -- publications

    def published(self, publisher: SimulatedClient, home: BrokerNode, id: PublicationId) -> None:
        advertisement, values = self.publishing
        self.values[id] = values
        now = self.world.clock.now
        since = publisher.announced.get(advertisement)
        if since is None or not publisher.settled:
            return
        for client in self.world.clients.values():
            if client.kind != "subscriber" or not client.settled or client.home is None:
                continue
            path = self.world.path(home.name, client.home.name)
            if path is None:
                continue
            began = max([since, *(self.world.ready(name) for name in path), self.world.changed(path)])
            for subscription, when in client.announced.items():
                what = client.wanted[subscription]
                if isinstance(what, Condition) and what.matches(values) and self.calm_within(max(began, when), now):
                    self.promised += 1
                    self.promises[client.name, id] = Promise(client, subscription, id, now, path)

    def delivered(self, client: SimulatedClient, id: PublicationId) -> None:
        self.deliveries += 1
        if self.promises.pop((client.name, id), None) is not None:
            self.kept += 1

    def check_match(self, client: SimulatedClient, deliver: Deliver) -> None:
        for id in deliver.subscriptions:
            what = client.wanted.get(id)
            if isinstance(what, Condition) and not what.matches(deliver.publication.values):
                self.broken("only what matches is delivered", f"{client.name} got {deliver.publication.id} for {id}")

    # -- ends of promises

    def disturbed_client(self, client: SimulatedClient) -> None:
        """It leaves its broker; a publisher's publications are on their way and stay promised."""
        self._end(lambda each: each.client is client)

    def withdrawn(self, client: SimulatedClient, id: str) -> None:
        self._end(lambda each: each.client is client and each.subscription == id)

    def broker_ends(self, name: str) -> None:
        self._end(lambda each: name in each.path)

    def _end(self, ends: Any) -> None:
        for key, each in list(self.promises.items()):
            if ends(each):
                self._check(each)
                del self.promises[key]

    def _check(self, each: Promise) -> None:
        if self.calm_within(each.at, self.world.clock.now):
            what = f"{each.id} of {each.at:.2f} did not reach {each.client.name} over {'-'.join(each.path)}"
            self.broken("every promised publication is delivered", what)

    def finish(self) -> None:
        for each in self.promises.values():
            self._check(each)
        self.promises.clear()
