"""A broker's messages to other brokers over the simulated network, and what an observer of all of them sees."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

import msgspec

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.host import Host
from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.balancing.peer_balancer import Means
from tocsin.simulation.network.process import Done
from tocsin.wire.reports import MigrationOrder
from tocsin.wire.tickets import TicketVerifier

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode

#: Seconds for a message.
TIMEOUT = 5.0

_message = msgspec.json.Decoder(ms.Message)

#: Called with the sender, the receiver and the message, before it is sent.
Sent = Callable[["BrokerNode", "BrokerNode", ms.Message], None]


class PeerNetwork:
    """``accepted``: sessions that a target has agreed to. ``complaints``: what no broker may do.

    ``harm``: what a swap of components has done to sessions and pulls of the strategy before.
    """

    def __init__(self) -> None:
        self.brokers: dict[str, BrokerNode] = {}
        self.on_message: list[Sent] = []
        self.accepted: set[tuple[str, str]] = set()  # session, by whom
        self.complaints: list[str] = []
        self.harm: list[str] = []
        self._swaps: Counter[str] = Counter()
        self._pulled: dict[tuple[str, int], int] = {}  # by whom, its number: swaps before
        self.messages = self.migrations = 0
        self.last_migration = 0.0
        self._waited: dict[str, str] = {}
        self._used: set[str] = set()

    def sent(self, source: BrokerNode, target: BrokerNode, message: ms.Message) -> None:
        self.messages += 1
        if isinstance(message, ms.Accept):
            self.accepted.add((message.session, source.name))
        if isinstance(message, ms.Done):
            self._ended(source, target, message)
        if isinstance(message, ms.Pull) and message.origin == source.name:
            self._pulled[source.name, message.number] = self._swaps[source.name]
        for each in list(self.on_message):
            each(source, target, message)

    def _ended(self, source: BrokerNode, target: BrokerNode, message: ms.Done) -> None:
        waited = message.reason == "time-out while waiting"
        if waited and self._waited.setdefault(message.session, source.name) != source.name:
            self.complaints.append(f"{source.name} and {target.name} waited for each other: {message.session}")

    def swap(self, broker: BrokerNode, event: ev.UseStrategy) -> None:
        """Open sessions go on with the components that come."""
        before = {each.number for each in _host(broker).sessions}
        self._swaps[broker.name] += 1
        broker.handle(event)
        for number in sorted(before - {each.number for each in _host(broker).sessions}):
            self.harm.append(f"{broker.name} has forgotten the session {number}")

    def receive(self, target: BrokerNode, sender: str, message: ms.Message) -> None:
        """A report that answers a pull of an earlier strategy changes nothing."""
        swaps = self._pulled.get((target.name, message.number)) if isinstance(message, ms.Report) else None
        before = known(target) if swaps is not None and swaps < self._swaps[target.name] else None
        target.handle(ev.PeerMessage(sender, message))
        if before is not None and not known(target) <= before:
            self.harm.append(f"{target.name} believes an answer to a pull of an earlier strategy")

    def migrates(self, source: BrokerNode, order: MigrationOrder, session: str) -> None:
        self.migrations += 1
        self.last_migration = source.clock.now
        if (session, order.broker) not in self.accepted:
            self.complaints.append(f"{source.name} sends {order.subscriber} to {order.broker}, which has not agreed")

    def used(self, broker: str, ticket: str) -> None:
        if ticket in self._used:
            self.complaints.append(f"{broker} has accepted a ticket twice")
        self._used.add(ticket)

    def show_again(self, broker: BrokerNode, subscriber: str, ticket: str) -> None:
        if broker.up and ticket in self._used:
            broker.link.refuses(ticket, subscriber)


class PeerLink:
    """Of one life of a broker."""

    def __init__(self, node: BrokerNode) -> None:
        self.node, self.observer = node, node.network_of_peers
        rng = Random(f"{node.rng.random() if node.config.balancing.mode == 'peers' else 0} peers of {node.name}")
        self.tickets = TicketVerifier(node.name, node.wall_clock, rng.randbytes(32))
        self.means = Means(
            lambda subscriber, seconds: self.tickets.issue(subscriber, seconds, rng.randbytes(9).hex()),
            rng,
            f"life {node.life}",
        )

    def refuses(self, ticket: str, subscriber: str) -> str | None:
        problem = self.tickets.refuses(ticket, subscriber)
        if problem is None:
            self.observer.used(self.node.name, ticket)
        return problem

    def start(self) -> None:
        if self.node.saved_peers and self.node.state.balancing is not None:
            self.node.handle(ev.PeersKnown(self.node.saved_peers))

    def carry_out(self, it: do.ToPeers) -> None:
        node = self.node
        if isinstance(it, do.SavePeers):
            node.saved_peers = it.peers
            return
        if isinstance(it, do.Departing):
            self.observer.migrates(node, it.order, it.session)
            node.moving(it.order)
            return
        target, life = self.observer.brokers[it.broker], node.life
        if node.trace:
            node.trace.say(node.name, str(it.message)[:300], it.broker)
        self.observer.sent(node, target, it.message)

        def done(value: object, error: Exception | None) -> None:
            if life == node.life:
                found = ev.PeerAnswered(it.broker) if error is None else ev.PeerUnreachable(it.broker)
                node.take(node.handle, found)

        body = (node.name, msgspec.json.encode(it.message))
        node.network.request(node, target, receive_at(target), body, TIMEOUT)(done)


def receive_at(target: BrokerNode) -> Callable[[tuple[str, bytes], Done], None]:
    """The network has verified the sender, as part keys do."""

    def receive(body: tuple[str, bytes], done: Done) -> None:
        sender, data = body
        if target.state.balancing is not None:
            target.network_of_peers.receive(target, sender, _message.decode(data))
        done(None, None)

    return receive


def _host(broker: BrokerNode) -> Host:
    assert broker.state.balancing is not None
    return broker.state.balancing.host


def known(broker: BrokerNode) -> set[int]:
    """The load information that it has, each by its identity."""
    host = _host(broker)
    return {id(each) for criterion in host.balancing.criteria for each in host.registry.get_load_report(criterion)}
