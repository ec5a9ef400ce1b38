"""What brokers send each other: the five kinds of content-based routing, and what keeps a link and the topology."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from tocsin.content import Advertisement, Condition

Role = Literal["head", "edge", "both"]


class Session(NamedTuple):
    """One side of a link: the broker's epoch, which grows with every start, and the number of the link in it."""

    epoch: int
    number: int


class PublicationId(NamedTuple):
    """``sequence`` counts all publications of a head in an epoch: order on one path is order of ids."""

    head: str
    epoch: int
    sequence: int


# -- the five kinds (T1): withdrawals have an id only


class Publication(Struct, frozen=True, eq=False):
    """``data`` is the JSON of the publisher: ``values`` are read from it, and it is what travels."""

    id: PublicationId
    space: str
    values: Mapping[str, Any]
    data: bytes = b""


class Advertise(Struct, frozen=True, eq=False):
    id: int
    space: str
    advertisement: Advertisement


class Subscribe(Struct, frozen=True, eq=False):
    id: int
    space: str
    condition: Condition


class Unadvertise(Struct, frozen=True, eq=False):
    id: int


class Unsubscribe(Struct, frozen=True, eq=False):
    id: int


# -- what two neighbours agree on again after a break


class Record(Struct, frozen=True):
    """A broker as all others know it. ``links``: its neighbours, and the stamp of each link; a later one is higher.

    ``url`` is where clients reach it."""

    name: str
    epoch: int
    version: int
    links: tuple[tuple[str, int], ...] = ()
    role: Role = "both"
    overloaded: bool = False
    url: str = ""


class Records(Struct, frozen=True, eq=False):
    records: tuple[Record, ...]


class Summary(Struct, frozen=True, eq=False):
    """What the sender has from its neighbour: a digest of all announcements, and the versions of all records."""

    digest: int
    versions: dict[str, tuple[int, int]]


class Inquiry(Struct, frozen=True, eq=False):
    """The digest is another one: which announcements are there?"""


class Inventory(Struct, frozen=True, eq=False):
    advertised: frozenset[int]
    subscribed: frozenset[int]


class Missed(Struct, frozen=True, eq=False):
    """Publications that the neighbour should have got over this link may be lost."""

    reason: str


Withdrawal = Unadvertise | Unsubscribe
Announcement = Advertise | Subscribe
Control = Announcement | Withdrawal | Records | Summary | Inquiry | Inventory | Missed
Body = Publication | Control


# -- what is sent on a link


class Hello(Struct, frozen=True, eq=False):
    """``peer``: the other side's session, once it is known. ``brokers``: all on the sender's side, with their epochs.

    ``stamp`` is that of the link, 0 for a new one; ``highest`` is the highest stamp that the sender knows."""

    session: Session
    peer: Session | None
    brokers: dict[str, int]
    stamp: int = 0
    highest: int = 0


class Refusal(Struct, frozen=True, eq=False):
    """Of the link with this session of the receiver."""

    session: Session
    reason: str
    message: str
    hint: str


class Reset(Struct, frozen=True, eq=False):
    """The sender does not have the link with this session of the receiver."""

    session: Session


class Goodbye(Struct, frozen=True, eq=False):
    """The sender has ended the link with this session of the receiver."""

    session: Session


class Frame(Struct, frozen=True, eq=False):
    """``body`` has the ``number``; without one, the frame only acknowledges all up to ``acknowledged``."""

    session: Session
    peer: Session
    acknowledged: int
    number: int = 0
    body: Body | None = None


Message = Hello | Refusal | Reset | Goodbye | Frame
