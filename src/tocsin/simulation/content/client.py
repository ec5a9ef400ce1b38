"""A simulated client: it announces, publishes or receives, follows redirections, and attaches again when it has to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tocsin.content import Advertisement, Condition
from tocsin.overlay.content import events as ev
from tocsin.overlay.content.instructions import Attached, Deliver, Instruction, Published, Redirect, Refused
from tocsin.overlay.content.messages import Publication

if TYPE_CHECKING:
    from tocsin.simulation.content.node import BrokerNode
    from tocsin.simulation.content.world import World

#: Seconds until a client looks for another broker, and for which one that migrates is attached at both.
RETRY, OVERLAP = 0.7, 2.0
FEED = "feed"


class SimulatedClient:
    """``home``: the broker that it is attached to, since ``since``. ``announced``: by id, with the time of it."""

    def __init__(self, name: str, kind: ev.Kind, world: World, *, control: bool = False) -> None:
        self.name, self.kind, self.world, self.control = name, kind, world, control
        self.home: BrokerNode | None = None
        self.next: BrokerNode | None = None
        self.wanted: dict[str, Condition | Advertisement] = {}
        self.announced: dict[str, float] = {}
        self._redirects = 0
        self._last: dict[str, tuple[int, int]] = {}
        self._raw: dict[tuple[str, int, str], tuple[int, int]] = {}
        self.ended = False

    @property
    def settled(self) -> bool:
        return self.home is not None and self.next is None

    # -- brokers

    def look_for(self, node: BrokerNode | None = None) -> None:
        """Attaches to a broker, or to any that is up."""
        if self.home is not None or self.next is not None or self.ended:
            return
        self._go(node if node is not None and node.up else self.world.any_broker())

    def _go(self, node: BrokerNode | None) -> None:
        self.world.clock.after(RETRY * 4, self._check, node)
        self.next = node
        if node is not None and node.up:
            node.take(self._attach_at, node)

    def _attach_at(self, node: BrokerNode) -> None:
        if node is self.next and self.name not in node.router.clients.all:
            node.event(ev.Attach(self.name, self.kind, self.control, self._redirects))

    def _check(self, node: BrokerNode | None) -> None:
        """A broker that died or was frozen has not answered."""
        if self.next is node and not self.ended:
            self.next = None
            self._redirects = 0
            if node is not None and node.up:
                node.take(self._detach_at, node)
            self.look_for()

    def done(self, node: BrokerNode, instruction: Instruction) -> None:
        if isinstance(instruction, Attached):
            self._attached(node)
        elif isinstance(instruction, Redirect):
            self._redirected(node, self.world.nodes.get(instruction.target))
        elif isinstance(instruction, Deliver):
            self._deliver(node, instruction)
        elif isinstance(instruction, Published):
            self.world.witness.published(self, node, instruction.id)
        elif isinstance(instruction, Refused):
            self.world.witness.broken("no command is refused", f"{self.name}: {instruction.error}")

    def _attached(self, node: BrokerNode) -> None:
        if node is not self.next or self.ended:
            self._detach_at(node)
            return
        migrates = self.home is not None
        self._redirects = 0
        for id, what in self.wanted.items():
            self._announce(node, id, what)
        node.on_death.append(lambda: self._lost(node))
        if migrates and self.kind == "publisher":
            # Publishers stay with their old head until subscriptions have found the new one.
            self.world.clock.after(OVERLAP, self._settle, node, node.life)
        else:
            self._settle(node, node.life)

    def _settle(self, node: BrokerNode, life: int) -> None:
        there = node.up and node.life == life and self.name in node.router.clients.all
        if there and not self.ended:
            self.home, self.next = node, None
            self.announced = dict.fromkeys(self.wanted, self.world.clock.now)
            self.world.clock.after(OVERLAP, self._tidy)

    def _tidy(self) -> None:
        """It leaves all brokers but its own."""
        for node in self.world.up:
            if node not in (self.home, self.next):
                node.take(self._detach_at, node)

    def _redirected(self, node: BrokerNode, target: BrokerNode | None) -> None:
        self._redirects += 1
        if self.next is node and self.home is None:
            self.next = None
            self.world.clock.after(0.05, self._follow, target)
        elif node is self.home and self.next is None and target is not None and target.up and not self.ended:
            self.world.witness.disturbed_client(self)
            self._go(target)

    def _follow(self, target: BrokerNode | None) -> None:
        if self.home is None and self.next is None and not self.ended:
            self._go(target if target is not None and target.up else self.world.any_broker())

    def _detach_at(self, node: BrokerNode) -> None:
        if self.name in node.router.clients.all and node not in (self.home, self.next):
            node.event(ev.Detach(self.name))

    def _lost(self, node: BrokerNode) -> None:
        if self.next is node:
            self.next = None
        if self.home is node:
            self.world.witness.disturbed_client(self)
            self.home = None
            self.announced.clear()
            self.world.clock.after(RETRY, self.look_for)

    def relocate(self) -> None:
        """Its broker is about to leave."""
        home = self.home
        if home is not None:
            self.world.witness.disturbed_client(self)
            self.home = self.next = None
            self.announced.clear()
            if self.name in home.router.clients.all:
                home.event(ev.Detach(self.name))
            self.world.clock.after(RETRY, self.look_for)

    def end(self) -> None:
        """Disconnects for good."""
        self.world.witness.disturbed_client(self)
        self.ended = True
        self.home = self.next = None
        self.wanted.clear()
        self.announced.clear()
        self._tidy()

    # -- announcements

    def announce(self, id: str, what: Condition | Advertisement) -> None:
        """Also at the broker that it migrates to."""
        self.wanted[id] = what
        for node in (self.home, self.next):
            if node is not None and node.up:
                node.take(self._announce, node, id, what)

    def _announce(self, node: BrokerNode, id: str, what: Condition | Advertisement) -> None:
        client = node.router.clients.all.get(self.name)
        if client is None or id in client.announced or self.wanted.get(id) is not what:
            return
        make: Any = ev.AdvertiseFeed if isinstance(what, Advertisement) else ev.SubscribeFeed
        node.event(make(self.name, id, FEED, what))
        if node is self.home:
            self.announced[id] = self.world.clock.now

    def withdraw(self, id: str) -> None:
        self.world.witness.withdrawn(self, id)
        self.wanted.pop(id, None)
        self.announced.pop(id, None)
        for node in self.world.nodes.values():
            client = node.router.clients.all.get(self.name) if node.up else None
            if client is not None:
                node.take(self._withdraw, node, id)

    def _withdraw(self, node: BrokerNode, id: str) -> None:
        client = node.router.clients.all.get(self.name)
        if client is not None and id in client.announced and id not in self.wanted:
            node.event(ev.Withdraw(self.name, id))

    # -- publications

    def publish(self, id: str, values: dict[str, Any]) -> None:
        home = self.home
        if home is not None and home.up:
            home.take(self._publish, home, id, values)

    def _publish(self, home: BrokerNode, id: str, values: dict[str, Any]) -> None:
        client = home.router.clients.all.get(self.name)
        if home is self.home and client is not None and id in client.announced:
            self.world.witness.publishing = (id, values)
            home.event(ev.Publish(self.name, id, values))

    def _deliver(self, node: BrokerNode, deliver: Deliver) -> None:
        publication = deliver.publication
        self.world.witness.check_match(self, deliver)
        head, *place = publication.id
        number = (place[0], place[1])
        attachment = (node.name, node.life, head)
        if self._raw.get(attachment, (0, 0)) >= number:
            self.world.witness.broken(
                "each publication arrives once and in order", f"{self.name} got {publication.id} again or late"
            )
        self._raw[attachment] = number
        if self._last.get(head, (0, 0)) < number:
            self._last[head] = number
            self._receive(publication)

    def _receive(self, publication: Publication) -> None:
        self.world.witness.delivered(self, publication.id)
