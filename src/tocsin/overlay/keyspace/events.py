"""What happens to a peer, and what its application commands."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from tocsin.overlay.keyspace.model.contact import Contact, Point


class Received(Struct, frozen=True, eq=False):
    source: str
    message: Any


class Tick(Struct, frozen=True, eq=False):
    """Time has passed; a few of them each period."""


class Create(Struct, frozen=True, eq=False):
    """This peer is the first of the ring."""

    ring: str


class Aim(Struct, frozen=True, eq=False):
    """From now on the peer has this many members of a ring: it enters again when it has lost one."""

    ring: str
    members: int


class Enter(Struct, frozen=True, eq=False):
    """One more member on this host: at the owner of ``point``, or exactly at the member ``beside``.

    ``position``, ``cut`` and ``rule`` say where the region is divided, as in Join. ``call``: see Done.
    """

    ring: str
    point: Point | None = None
    beside: Contact | None = None
    position: int | None = None
    generation: int = 0
    cut: tuple[int, int] | None = None
    rule: str = "middle"
    call: int = 0


class Withdraw(Struct, frozen=True, eq=False):
    """The member leaves; Done when its items are handed over. ``then``: where the host enters again."""

    member: str
    call: int = 0
    then: Enter | None = None


class HandOver(Struct, frozen=True, eq=False):
    """A virtual server moves to another host, which is asked to enter at its place."""

    member: str
    host: str
    call: int = 0


class Invite(Struct, frozen=True, eq=False):
    """A host without members is asked to take part of this member's region over, or (``mirror``) to serve it too."""

    member: str
    host: str
    rule: str = "middle"
    cut: tuple[int, int] | None = None
    mirror: bool = False
    call: int = 0


class Request(Struct, frozen=True, eq=False):
    """``body`` to the owner of a key; Done with its answer, or with Failed after a bounded number of attempts."""

    call: int
    ring: str
    point: Point
    body: Any


class RangeRequest(Struct, frozen=True, eq=False):
    """All items with keys from ``low`` up to ``high``; Done with one Part, or with Failed."""

    call: int
    ring: str
    low: int
    high: int


class InsertChoice(Struct, frozen=True, eq=False):
    """Stores an item at the least loaded of its places (Byers et al.)."""

    call: int
    ring: str
    key: str
    value: Any
    functions: int = 2


class PlaceChoice(Struct, frozen=True, eq=False):
    """Stores an item at one of its places, and pointers to it at the others."""

    call: int
    ring: str
    key: str
    value: Any
    choice: int = 0
    functions: int = 2


class FindChoice(Struct, frozen=True, eq=False):
    """Looks such an item up by one random function."""

    call: int
    ring: str
    key: str
    functions: int = 2


class Redirect(Struct, frozen=True, eq=False):
    """Moves such an item to another of its places: stealing and shedding."""

    call: int
    ring: str
    key: str
    choice: int
    functions: int = 2


Membership = Create | Aim | Enter | Withdraw | HandOver | Invite
Application = Request | RangeRequest | InsertChoice | PlaceChoice | FindChoice | Redirect
Event = Received | Tick | Membership | Application
