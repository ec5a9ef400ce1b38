"""A connection with the guarantees of TCP: bytes arrive in order and without loss, but it may stall and break.

Each side detects a break by itself: the other one may stay half-open until it sends something or gives up.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.wire.frames import FrameDecoder

#: Bytes in the buffers of the two systems; beyond them the writer's own buffer fills.
WINDOW = 2048
#: Seconds after which a system gives up a stalled connection.
GIVE_UP = (6.0, 20.0)
#: Bytes a second from a client to a broker.
UP = 1e7


class Ended(Struct, frozen=True):
    """A close frame, or no ``code`` if the connection just broke."""

    code: int | None = None
    reason: str = ""


class Opened(Struct, frozen=True):
    """The other side has accepted the connection."""


BROKEN = Ended(None, "the connection was reset")


class Part(Struct, eq=False):
    due: float
    size: int
    what: bytes | Ended | Opened


class Owner:
    """The process that a side of a connection belongs to: a client is ``opened``, a server has to ``accept``."""

    def opened(self, side: Side) -> None:
        raise NotImplementedError

    def accept(self, side: Side) -> None:
        raise NotImplementedError

    def arrived(self, side: Side, data: bytes) -> None:
        raise NotImplementedError

    def ended(self, side: Side, how: Ended) -> None:
        raise NotImplementedError

    def eased(self, side: Side) -> None:
        """The other side has read something, and ``most`` is set."""


class Pipe:
    """One direction. ``waiting`` bytes were written and not read yet. ``bandwidth`` is in bytes a second."""

    def __init__(self, network: Network, writer: Side, bandwidth: float) -> None:
        self.network, self.writer, self.bandwidth = network, writer, bandwidth
        self.reader: Side
        self.waiting = 0
        self.paused = False
        self.open = True
        self._parts: deque[Part] = deque()
        self._free = 0.0
        self._latest = 0.0
        self._pumping = False
        self._stalled: float | None = None

    @property
    def backlog(self) -> int:
        """Bytes in the writer's own buffer."""
        return max(0, self.waiting - WINDOW)

    def write(self, what: bytes | Ended | Opened) -> None:
        if not self.open:
            return
        network, size = self.network, len(what) if isinstance(what, bytes) else 0
        self._free = max(self._free, network.clock.now) + size / self.bandwidth
        due = self._free + network.delay(self.writer.node.name, self.reader.node.name)
        self._latest = max(self._latest, due)
        self.waiting += size
        self._parts.append(Part(self._latest, size, what))
        self._pump_at(self._latest)

    def pause(self, paused: bool) -> None:
        self.paused = paused
        if not paused and self._parts:
            self._pump_at(self._parts[0].due)

    def cut(self) -> None:
        """Discards what has not arrived yet."""
        self.open = False
        self.waiting = 0
        self._parts.clear()

    def _pump_at(self, time: float) -> None:
        if not self._pumping and self._stalled is None:
            self._pumping = True
            self.network.clock.at(time, self._pump)

    def _pump(self) -> None:
        self._pumping = False
        parts, now = self._parts, self.network.clock.now
        while parts and parts[0].due <= now and not self._held():
            part = parts.popleft()
            self.waiting -= part.size
            self.reader.receive(part.what)
            if part.size:
                self.writer.ease()
        if parts and not self.paused:
            self._pump_at(parts[0].due)

    def _held(self) -> bool:
        """By a reader that does not read, a partition, or a machine that is down."""
        if self.paused:
            return True
        writer, reader = self.writer.node, self.reader.node
        if self.network.reaches(writer.name, reader.name) and not reader.silent:
            return False
        if self._stalled is None:
            self._stalled = self.network.clock.now
            self.network.stalled.append(self._flow)
            self.network.clock.after(self.network.rng.uniform(*GIVE_UP), self._give_up, self._stalled)
        return True

    def _flow(self) -> None:
        if self._stalled is not None and self.open:
            self._stalled = None
            if self._parts:
                self._pump_at(self.network.clock.now + self.network.quality.furthest)

    def _give_up(self, since: float) -> None:
        if self.open and self._stalled == since:
            self.cut()
            self.writer.end(Ended(None, "the connection timed out"))


class Side:
    """One end of a connection. ``alive``: its process uses it, under the name ``number``.

    ``most``: the writer is over its buffer limit, and closes the connection from this many bytes on.
    """

    def __init__(self, node: Node, owner: Owner, number: int = 0, alive: bool = True) -> None:
        self.node, self.owner, self.number, self.alive = node, owner, number, alive
        self.most: int | None = None
        self.decoder: FrameDecoder | None = None
        self.out: Pipe
        self.other: Side

    def receive(self, what: bytes | Ended | Opened) -> None:
        if not self.alive:
            if isinstance(what, bytes) and self.node.network.reaches(self.node.name, self.other.node.name):
                self.other.end(BROKEN)  # there is no such connection here
        elif isinstance(what, bytes):
            self.node.take(self._arrived, what)
        elif isinstance(what, Opened):
            self.node.take(self.owner.opened, self)
        else:
            self.end(what)

    def _arrived(self, data: bytes) -> None:
        if self.alive:
            self.owner.arrived(self, data)

    def end(self, how: Ended) -> None:
        """This side learns that the connection has ended."""
        self.out.cut()
        self.node.take(self._ended, how)

    def _ended(self, how: Ended) -> None:
        if self.alive:
            self.alive = False
            self.owner.ended(self, how)

    def ease(self) -> None:
        if self.most is not None and self.alive:
            self.node.take(self.owner.eased, self)

    # -- for its process

    def close(self, how: Ended, timeout: float) -> None:
        """After what was written before; aborted if that takes too long."""
        self.alive = False
        self.out.write(how)
        self.node.clock.after(timeout, self._linger)

    def _linger(self) -> None:
        if self.out.open and self.out.waiting:
            self.abort()
        self.out.cut()

    def abort(self) -> None:
        """At once. The other side learns of it if it is reachable now; this is not repeated."""
        self.alive = False
        self.out.cut()
        network = self.node.network
        if network.reaches(self.node.name, self.other.node.name) and not self.node.silent:
            network.clock.after(network.delay(self.node.name, self.other.node.name), self.other.end, BROKEN)


def pair(client: Side, node: Node, owner: Owner, down: float) -> Side:
    """The other side of ``client``, at ``node``, before it accepts; ``down`` is the bandwidth to the client."""
    network, server = node.network, Side(node, owner, alive=False)
    client.other, server.other = server, client
    client.out, server.out = Pipe(network, client, UP), Pipe(network, server, down)
    client.out.reader, server.out.reader = server, client
    return server


def connect(client: Side, node: Node, owner: Owner, down: float) -> None:
    """Asks ``owner`` at ``node`` to accept. Without an answer, nothing happens."""
    server, source, network = pair(client, node, owner, down), client.node.name, node.network

    def reach() -> None:
        if node.up:
            node.take(owner.accept, server)
        elif not node.silent and network.reaches(node.name, source):
            refused = Ended(None, "connection refused")
            network.clock.after(network.delay(node.name, source), client.end, refused)

    if network.reaches(source, node.name):
        network.clock.after(network.delay(source, node.name), reach)
