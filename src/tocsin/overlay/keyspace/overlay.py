"""What differs between key spaces: the order of keys, the shortcuts between members, and how a region is divided."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Any, Protocol

from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.messages import Join, Route
from tocsin.overlay.keyspace.model.contact import Contact, Point, Region
from tocsin.overlay.keyspace.model.item import Item
from tocsin.overlay.keyspace.model.load import Load
from tocsin.overlay.keyspace.model.order import KeyOrder

if TYPE_CHECKING:
    from tocsin.overlay.keyspace.member import Member


class Links(Protocol):
    """The shortcuts of one member. A lookup that fails goes along the ring instead."""

    def contacts(self) -> Iterable[Contact]: ...

    def next_hop(self, point: Point, left: int | None) -> tuple[Contact, int | None] | None:
        """The next member, and how far it is from the key: less than ``left``, or a message could go in circles.

        None if only the ring leads further.
        """
        ...

    def tick(self) -> None: ...

    def moved(self) -> None:
        """The member's region has changed."""
        ...

    def recorded(self, item: Item, sign: int) -> None:
        """An item has come (1) or gone (-1)."""
        ...

    def legacy(self) -> Any:
        """What a member that joins should know."""
        ...

    def inherit(self, legacy: Any) -> None: ...

    def handle(self, body: Any, source: str, reply: Callable[[Any], None]) -> bool:
        """Whether the message was one of its own."""
        ...


class Mirroring(Protocol):
    """Serves the region of a member on another host."""

    @property
    def ended(self) -> bool: ...

    def load(self) -> Load: ...

    def serve(self, body: Any, source: str, respond: Callable[[Any], None]) -> None: ...

    def route(self, route: Route, respond: Callable[[Any], None]) -> None: ...


class Overlay(Protocol):
    @property
    def order(self) -> KeyOrder: ...

    def links(self, member: Member) -> Links: ...

    def first(self, id: str, host: str) -> Contact:
        """The first member of all."""
        ...

    def anywhere(self, rng: Random) -> Point:
        """A random key, at whose owner a new member enters."""
        ...

    def prepare(self, join: Join) -> Join:
        """A new member chooses its position itself in some overlays."""
        ...

    def divide(self, member: Member, join: Join) -> tuple[Contact, Contact] | str:
        """The member afterwards and the new one, whose region is the later part; or why it cannot be divided."""
        ...

    def adjust(self, region: Region) -> Contact:
        """How the member at the start of a region describes itself."""
        ...

    def mirror(self, ring: str, id: str, owner: Contact, context: Context) -> Mirroring | None:
        """None if members of this overlay cannot be mirrored."""
        ...

    def loses(self, me: Contact, other: Contact) -> bool:
        """Both cannot be right about the space, and the other one counts."""
        ...
