"""Peers without a network: messages arrive at once, in the order in which they were sent, and no time passes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace.context import Done, Send
from tocsin.overlay.keyspace.messages import Copy, Differs, Notification, Part, Put
from tocsin.overlay.keyspace.model.contact import Point

CARRIERS = (Put, Copy, Differs, Part)


class Machine(Protocol):
    """A peer, or one that is balanced."""

    def handle(self, event: Any, now: float) -> list[Send | Done]: ...


class Loopback:
    """``sent`` counts messages from one host to another, ``carried`` the sizes of items in them.

    ``received``: notifications, by host.
    """

    def __init__(self, peers: Mapping[str, Machine]) -> None:
        self.peers = peers
        self.now = 0.0
        self.sent = self.carried = 0
        self._calls = 0
        self.answers: dict[int, Done] = {}
        self.received: list[tuple[str, Notification]] = []

    def request(self, host: str, ring: str, point: Point, body: Any) -> Done:
        """The answer of the key's owner, and the hops to it."""
        return self.command(host, lambda call: ev.Request(call, ring, point, body))

    def command(self, host: str, event: Any) -> Done:
        """``event(call)`` is handled, and everything that follows from it; time passes until there is an answer."""
        self._calls += 1
        call = self._calls
        self.event(host, event(call))
        while call not in self.answers:
            self.run(0.25)
        return self.answers.pop(call)

    def event(self, host: str, event: Any) -> None:
        waiting: deque[tuple[str, Any]] = deque([(host, event)])
        while waiting:
            host, event = waiting.popleft()
            for each in self.peers[host].handle(event, self.now):
                if isinstance(each, Send):
                    if each.host != host:
                        self.sent += 1
                        body = getattr(each.message, "body", None)
                        if isinstance(body, CARRIERS):
                            self.carried += sum(item.size for item in body.items)
                    if each.host in self.peers:
                        waiting.append((each.host, ev.Received(host, each.message)))
                elif each.call:
                    self.answers[each.call] = each
                elif isinstance(each.body, Notification):
                    self.received.append((host, each.body))

    def run(self, seconds: float, tick: float = 0.25) -> None:
        """Time passes for all peers."""
        until = self.now + seconds
        while self.now < until:
            self.now += tick
            for host in self.peers:
                self.event(host, ev.Tick())
