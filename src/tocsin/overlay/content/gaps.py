"""Gaps: where publications may be lost, each subscription that they may be for is notified, here and further on.

A link that breaks loses nothing: what was not acknowledged is sent again. Lost is what waited in a broker that died,
what waited for too long or was too much, and what was published before a path was found again.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.overlay.content import messages as ms
from tocsin.overlay.content.context import Context
from tocsin.overlay.content.instructions import Gap
from tocsin.overlay.content.routing.routing import Routing


class Gaps:
    """``offer`` sends to a neighbour."""

    def __init__(self, context: Context, routing: Routing, offer: Callable[[str, ms.Body], None]) -> None:
        self._context, self._routing, self._offer = context, routing, offer
        #: Neighbours that were lost, and when their paths are there again; None while they are not back.
        self._lost: dict[str, float | None] = {}

    def announce(self, source: str, reason: str) -> None:
        """To all whose publications may come over this link."""
        links, clients = self._routing.fed_by(source)
        for name in links:
            self._offer(name, ms.Missed(reason))
        for client, subscriptions in clients.items():
            self._context.out.append(Gap(client, tuple(sorted(subscriptions)), reason))

    def lost(self, neighbour: str) -> None:
        """It is not a neighbour any more."""
        self._lost[neighbour] = None
        self.announce(neighbour, "unreachable")

    def restarted(self, neighbour: str) -> None:
        self.announce(neighbour, "restarted")
        self._lost[neighbour] = None
        self.back(neighbour)

    def back(self, neighbour: str) -> None:
        if neighbour in self._lost:
            self._lost[neighbour] = self._context.now + self._context.settings.settled_after

    def tick(self) -> None:
        """What was published while a path was found again is lost too."""
        for neighbour, at in list(self._lost.items()):
            if at is not None and self._context.now >= at:
                del self._lost[neighbour]
                self.announce(neighbour, "restored")
