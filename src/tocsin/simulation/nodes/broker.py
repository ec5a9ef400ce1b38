"""A broker: the production state machine, driven here by simulated sockets, clock and capacity."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.state import BrokerState
from tocsin.broker.transport.rest_request import RestRequest
from tocsin.config import BrokerConfig
from tocsin.errors import Malformed
from tocsin.simulation.identity.witness import Witness
from tocsin.simulation.network.connection import Ended, Opened, Owner, Side
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done
from tocsin.simulation.network.trace import spoken
from tocsin.simulation.nodes.peer_link import PeerLink, PeerNetwork
from tocsin.simulation.nodes.reporter import Reporter
from tocsin.simulation.nodes.rest_server import RestServer
from tocsin.simulation.nodes.upstream import Upstream
from tocsin.simulation.nodes.users import Users
from tocsin.wire import close_codes
from tocsin.wire.frames import FrameDecoder, frame
from tocsin.wire.messages import decode
from tocsin.wire.reports import MigrationOrder, PeerAddress

if TYPE_CHECKING:
    from tocsin.simulation.nodes.cluster import DataCluster
    from tocsin.simulation.nodes.coordinator import CoordinatorNode

#: Seconds that the other side has to read a close frame.
CLOSING = 5.0


class BrokerNode(Node, Owner):
    """``service`` is what one event costs in seconds, and ``delivery`` one frame to one subscriber."""

    def __init__(
        self, config: BrokerConfig, network: Network, rng: Random, cluster: DataCluster, coordinator: CoordinatorNode
    ) -> None:
        super().__init__(config.name, network)
        self.config, self.rng, self.cluster, self.coordinator = config, rng, cluster, coordinator
        self.url = f"http://{config.name}"
        self.usual()
        self.sides: dict[int, Side] = {}
        self.masked = False
        self.moving: Callable[[MigrationOrder], None] = lambda order: None  # for those who wait for a move
        self._peers = count(1)
        self.network_of_peers = PeerNetwork()
        self.saved_peers: dict[str, PeerAddress] = {}  # on its disk
        identity = coordinator.identity
        self.witness = None if identity is None else Witness(self, identity.people)

    # -- life

    def usual(self) -> None:
        self.service, self.delivery = 0.0001, 0.00002

    def boot(self) -> None:
        super().boot()
        self.sides = {}
        self.link = PeerLink(self)
        self.tickets = self.link.tickets
        self.state = BrokerState(self.config, self.link.refuses, self.link.means)
        self.upstream = Upstream(self, self.cluster, self.rng)
        self.reporter = Reporter(self, self.coordinator, self.rng)
        self.link.start()
        self.upstream.start()
        self.reporter.start()
        if self.witness is not None and self.coordinator.identity is not None:
            self.witness.boot()
            self.users = Users(self, self.witness, self.coordinator.identity, self.rng)
            self.rest = RestServer(self, self.witness, self.users)
            self.users.start()
        self._tick()
        self.network.retry_stalled()

    def die(self, *, silent: bool = False) -> None:
        super().die(silent=silent)
        sides, self.sides = self.sides, {}
        for side in sides.values():
            side.abort()

    def stop(self) -> None:
        """As it should be: every client is sent away."""
        self.reporter.leave()
        self.handle(ev.Stopping())
        if self.witness is not None:
            self.users.stop()
        self.die()

    def _tick(self) -> None:
        self.handle(ev.Tick())
        self.later(1.0, self._tick)

    # -- the state machine

    def now(self) -> float:
        return self.clock.now

    def at(self, wall_clock: float) -> float:
        return self.clock.now + wall_clock + self.config.identity.clock_skew - self.wall_clock()

    def handle(self, event: ev.Event) -> None:
        if self.witness is not None:
            self.witness.handles(event)
        self._carry_out(self.state.handle(event, self.clock.now), self.service)

    def on_notify(self, notifications: list[ev.Notified]) -> None:
        self._carry_out(self.state.on_notify(notifications, self.clock.now), self.service * len(notifications))

    def _carry_out(self, instructions: list[do.Instruction], cost: float) -> None:
        writes: dict[int, list[bytes]] = {}
        for it in instructions:
            if isinstance(it, do.Send):
                cost += self.delivery * len(it.peers)
                if self.witness is not None:
                    self.witness.sent(it.peers, it.messages)
                for peer in it.peers:
                    if isinstance(peer, RestRequest):
                        peer.send(it.messages, b"")
                    else:
                        writes.setdefault(peer, []).extend(map(frame, it.messages))  # type: ignore[arg-type]
            elif isinstance(it, do.Close):
                self._flush(writes)  # what was sent before comes before the end
                self._close(it)
            elif isinstance(it, do.Failed):
                raise it.error
            elif isinstance(it, do.Upstream):
                self.upstream.carry_out(it)
            elif isinstance(it, do.ToPeers):
                self.link.carry_out(it)
            else:
                self.users.carry_out(it)
        self.busy_until = max(self.busy_until, self.clock.now) + cost
        self._flush(writes)

    def _flush(self, writes: dict[int, list[bytes]]) -> None:
        """One write a connection; one that then holds too much makes its subscriber a slow one."""
        full = [self.sides[peer] for peer, frames in writes.items() if self._write(self.sides[peer], b"".join(frames))]
        writes.clear()
        for side in full:
            if side.alive:
                self.handle(ev.Congested(side.number))

    def _write(self, side: Side, data: bytes) -> bool:
        if self.trace:
            self.trace.say(self.name, spoken(data), side.other.node.name)
        side.out.write(data)
        backlog = side.out.backlog
        if side.most is None:
            if backlog > self.config.buffer_bytes:
                side.most = backlog + self.config.buffer_bytes
                return True
        elif backlog > side.most:
            self.clock.after(0.0, self.take, self._flooded, side)
        return False

    def _flooded(self, side: Side) -> None:
        if side.alive:
            self.handle(ev.Closed(side.number))
            self._shut(side, close_codes.FLOOD.code, "answers are not read")

    def _close(self, it: do.Close) -> None:
        side = self.sides.get(it.peer)  # type: ignore[call-overload]
        if isinstance(it.peer, RestRequest):
            it.peer.close(it.close, it.reason)
        elif side is not None:
            self._shut(side, it.close.code, it.reason)

    def _shut(self, side: Side, code: int, reason: str) -> None:
        if self.trace:
            self.trace.say(self.name, f"closes the connection, {code} {reason}", side.other.node.name)
        self.sides.pop(side.number, None)
        side.close(Ended(code, reason), CLOSING)

    def notify(self, notifications: list[ev.Notified], done: Done) -> None:
        for each in notifications if self.trace else ():
            with_results = " with results" if each.lines is not None else ""
            self.trace.say("cluster", f"notifies of {each.channel}/{each.execution}{with_results}", self.name)
        self.upstream.notify(notifications, done)

    # -- subscribers

    def accept(self, side: Side) -> None:
        """A connection has arrived, and is taken as soon as the process comes to it."""
        if not side.other.alive:
            return
        side.alive, side.number = True, next(self._peers)
        self.sides[side.number] = side
        if self.masked:
            side.decoder = FrameDecoder(self.config.limits.frame_bytes)
        side.out.write(Opened())
        self.handle(ev.Opened(side.number, side.other.node.name))

    def arrived(self, side: Side, data: bytes) -> None:
        texts = [data] if side.decoder is None else [payload for _, payload in side.decoder.feed(data)]
        for text in texts:
            if self.trace:
                self.trace.say(side.other.node.name, spoken(text, framed=False), self.name)
            try:
                event: Any = ev.Received(side.number, decode(text))
            except Malformed as error:
                event = ev.Unreadable(side.number, error.message, error.fields.get("id"))
            self.handle(event)

    def ended(self, side: Side, how: Ended) -> None:
        if self.sides.pop(side.number, None) is not None:
            if self.trace:
                self.trace.say(self.name, f"its connection to {side.other.node.name} ended: {how.reason or how.code}")
            self.handle(ev.Closed(side.number))

    def eased(self, side: Side) -> None:
        if side.most is not None and side.alive and side.out.backlog <= self.config.buffer_bytes // 4:
            side.most = None
            self.handle(ev.Drained(side.number))
