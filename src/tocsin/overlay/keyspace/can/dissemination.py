"""Subscriptions with wildcards: from neighbour to neighbour, to every owner of a key that the fixed terms allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from tocsin.overlay.keyspace.messages import Busy
from tocsin.overlay.keyspace.model.item import Item

if TYPE_CHECKING:
    from tocsin.overlay.keyspace.can.neighbours import Neighbours
    from tocsin.overlay.keyspace.member import Member

#: Disseminations that a member remembers, so that it takes part in each of them once.
REMEMBERED = 512


class Subscribe(Struct, frozen=True, eq=False):
    """To the owner of any key of the item's span. The item's value is the subscriber's host, or None to end it."""

    item: Item


class Spread(Struct, frozen=True, eq=False):
    item: Item
    token: int


class Reached(Struct, frozen=True, eq=False):
    """All owners have stored it: ``peers`` in this branch."""

    peers: int


class Dissemination:
    def __init__(self, member: Member, neighbours: Neighbours) -> None:
        self._member, self._neighbours = member, neighbours
        self._seen: dict[int, None] = {}

    def handle(self, body: Any, respond: Callable[[Any], None]) -> bool:
        if isinstance(body, Subscribe):
            self._spread(Spread(body.item, self._member.context.rng.getrandbits(63)), respond)
        elif isinstance(body, Spread):
            self._spread(body, respond)
        else:
            return False
        return True

    def _spread(self, spread: Spread, respond: Callable[[Any], None]) -> None:
        """Stores it, passes it on, and answers when all branches have."""
        span = spread.item.span
        if spread.token in self._seen or span is None:
            respond(Reached(0))
            return
        self._seen[spread.token] = None
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        onward = self._neighbours.meeting(span)
        waiting, peers, fine = len(onward) + 1, 1, True

        def ended(success: bool, more: int) -> None:
            nonlocal waiting, peers, fine
            waiting, peers, fine = waiting - 1, peers + more, fine and success
            if not waiting:
                respond(Reached(peers) if fine else Busy())

        def answered(answer: Any, hops: int) -> None:
            ended(isinstance(answer, Reached), answer.peers if isinstance(answer, Reached) else 0)

        for each in onward:
            self._member.ring.ask(each, spread, answered, nested=True)
        self._member.replication.put([spread.item], lambda copied: ended(copied, 0))
