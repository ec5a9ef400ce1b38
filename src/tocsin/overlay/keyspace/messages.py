"""What peers send each other, and what they ask."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tocsin.overlay.keyspace.model.contact import Contact, Point, Region
from tocsin.overlay.keyspace.model.item import Item

# -- envelopes


class Ask(Struct, frozen=True, eq=False):
    """For a member of ``ring`` on the receiving host; for any of them if ``member`` is empty. 0: no reply expected."""

    id: int
    ring: str
    member: str
    body: Any


class Reply(Struct, frozen=True, eq=False):
    id: int
    body: Any
    hops: int = 0


class Route(Struct, frozen=True, eq=False):
    """On its way to the owner of a key, which replies to ``origin``. ``careful``: only along the ring, because a
    shorter way has failed. ``left``: how far it still was at the nearest member so far, if the overlay measures that.
    """

    id: int
    ring: str
    member: str
    point: Point
    body: Any
    origin: str
    hops: int = 0
    careful: bool = False
    left: int | None = None


# -- replies that fit every question


class Failed(Struct, frozen=True, eq=False):
    """No attempt had an answer, or the peer refused for good."""

    reason: str


class Busy(Struct, frozen=True, eq=False):
    """Try again."""


class Gone(Struct, frozen=True, eq=False):
    """There is no such member here, or it is leaving."""

    successors: tuple[Contact, ...] = ()


# -- the ring


class Ping(Struct, frozen=True, eq=False):
    pass


class Alive(Struct, frozen=True, eq=False):
    pass


class Describe(Struct, frozen=True, eq=False):
    pass


class Described(Struct, frozen=True, eq=False):
    me: Contact
    predecessor: Contact | None
    successors: tuple[Contact, ...]


class Notify(Struct, frozen=True, eq=False):
    """The sender believes that it precedes the receiver."""

    sender: Contact


class Introduce(Struct, frozen=True, eq=False):
    """There is a member that the receiver may not know."""

    contact: Contact


class Departing(Struct, frozen=True, eq=False):
    """A successor is about to leave."""


class Find(Struct, frozen=True, eq=False):
    """Who owns the key? Answered by Described."""


class Join(Struct, frozen=True, eq=False):
    """A new member takes part of the receiver's region.

    It begins at ``position``, or at ``cut`` (dimension, coordinate) of a CAN, or where the overlay's ``rule`` cuts.
    """

    id: str
    host: str
    position: int | None = None
    generation: int = 0
    cut: tuple[int, int] | None = None
    rule: str = "middle"


class Welcome(Struct, frozen=True, eq=False):
    me: Contact
    predecessor: Contact
    successors: tuple[Contact, ...]
    #: What the overlay's links want to know of the predecessor's.
    links: Any = None


class Take(Struct, frozen=True, eq=False):
    """To a host: take over this member of a ring."""

    ring: str
    member: Contact


class Invite(Struct, frozen=True, eq=False):
    """To a host without members: enter beside this member, where ``cut`` or ``rule`` divides its region.

    ``mirror``: the host serves the whole region too, and does not divide it.
    """

    ring: str
    beside: Contact
    rule: str = "middle"
    cut: tuple[int, int] | None = None
    mirror: bool = False


class MirrorRequest(Struct, frozen=True, eq=False):
    """To the owner of a region: this host will serve it too, under this id."""

    id: str
    host: str


class Mirrored(Struct, frozen=True, eq=False):
    """From the owner of a region to a host that serves it too: what it needs for that, from time to time."""

    id: str
    region: Region
    links: Any


class Taken(Struct, frozen=True, eq=False):
    pass


# -- items


class Put(Struct, frozen=True, eq=False):
    items: tuple[Item, ...]


class Stored(Struct, frozen=True, eq=False):
    """By the owner, after all copies are made."""

    ids: tuple[str, ...]


class Get(Struct, frozen=True, eq=False):
    id: str


class Found(Struct, frozen=True, eq=False):
    item: Item


class Missing(Struct, frozen=True, eq=False):
    pass


class Publish(Struct, frozen=True, eq=False):
    """An event for the subscriptions whose span contains its key. ``keep``: it is stored as well."""

    item: Item
    keep: bool = True


class Notification(Struct, frozen=True, eq=False):
    """To the host of a subscriber."""

    subscription: str
    item: Item


class Copy(Struct, frozen=True, eq=False):
    """Of the owner of ``region``, to be kept."""

    region: Region
    items: tuple[Item, ...]


class Copied(Struct, frozen=True, eq=False):
    pass


class Sync(Struct, frozen=True, eq=False):
    """``digest``: of all items that the owner of ``region`` has of it. ``keep``: the receiver is to have copies."""

    region: Region
    digest: int
    keep: bool


class Same(Struct, frozen=True, eq=False):
    pass


class Differs(Struct, frozen=True, eq=False):
    """What the receiver has of the region."""

    items: tuple[Item, ...]


class Range(Struct, frozen=True, eq=False):
    """Items with keys from ``low`` up to ``high``, as far as the receiver owns them."""

    low: int
    high: int


class Part(Struct, frozen=True, eq=False):
    """``end``: where the receiver's part ends; None if nothing of the range is left."""

    items: tuple[Item, ...]
    end: int | None


class Probe(Struct, frozen=True, eq=False):
    """How much load is at the owner of a key?"""


class Mail(Struct, frozen=True, eq=False):
    """For the application on another host, or on that of a key's owner, which gets it as Done without a call."""

    sender: str
    body: Any


class Sample(Struct, frozen=True, eq=False):
    """A random walk: the member at its end replies to ``origin``."""

    origin: str
    id: int
    ttl: int


class Measured(Struct, frozen=True, eq=False):
    """A member, the width of its part, and the load of its host."""

    me: Contact
    width: int
    load: Any
