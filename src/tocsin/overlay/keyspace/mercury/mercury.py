"""Mercury (Bharambe et al.): members own ranges of an attribute's values."""

from __future__ import annotations

from random import Random

from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.division import divided, place
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.mercury.attribute import BITS
from tocsin.overlay.keyspace.mercury.long_links import LongLinks
from tocsin.overlay.keyspace.messages import Join
from tocsin.overlay.keyspace.model.contact import Contact, Point, Region
from tocsin.overlay.keyspace.model.order import RingOrder
from tocsin.overlay.keyspace.overlay import Links


class Hub:
    """``links``: how many long ones each member has."""

    def __init__(self, links: int = 6, bits: int = BITS) -> None:
        self.size, self._links = 1 << bits, links
        self.order = RingOrder(self.size)

    def links(self, member: Member) -> Links:
        return LongLinks(member, self.size, self._links)

    def first(self, id: str, host: str) -> Contact:
        return Contact(0, 0, id, host)

    def anywhere(self, rng: Random) -> Point:
        return (rng.randrange(self.size),)

    def prepare(self, join: Join) -> Join:
        return join

    def divide(self, member: Member, join: Join) -> tuple[Contact, Contact] | str:
        """Half of the range that it enters: of its items (``median``), or of its width."""
        return divided(member, join, place(member, join, self.size))

    def adjust(self, region: Region) -> Contact:
        return region.start

    def mirror(self, ring: str, id: str, owner: Contact, context: Context) -> None:
        return None

    def loses(self, me: Contact, other: Contact) -> bool:
        return False
