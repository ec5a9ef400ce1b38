"""Chord (Stoica et al.), mirrored: a member owns the keys from its own position up to the next member's."""

from __future__ import annotations

from hashlib import blake2b
from random import Random

from msgspec import structs

from tocsin.overlay.keyspace.chord.fingers import Fingers
from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.division import divided, place
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.messages import Join
from tocsin.overlay.keyspace.model.contact import Contact, Point, Region
from tocsin.overlay.keyspace.model.order import RingOrder
from tocsin.overlay.keyspace.overlay import Links

BITS = 48


def hashed(key: str, function: int = 0, bits: int = BITS) -> int:
    """The place of a key under one of many independent hash functions."""
    digest = blake2b(key.encode(), digest_size=8, salt=function.to_bytes(4, "big")).digest()
    return int.from_bytes(digest, "big") >> (64 - bits)


class Chord:
    def __init__(self, bits: int = BITS) -> None:
        self.bits = bits
        self.order = RingOrder(1 << bits)

    def links(self, member: Member) -> Links:
        return Fingers(member, self.bits)

    def first(self, id: str, host: str) -> Contact:
        return Contact(hashed(id, bits=self.bits), 0, id, host)

    def anywhere(self, rng: Random) -> Point:
        return (rng.getrandbits(self.bits),)

    def prepare(self, join: Join) -> Join:
        return structs.replace(join, position=hashed(join.id, bits=self.bits))

    def divide(self, member: Member, join: Join) -> tuple[Contact, Contact] | str:
        return divided(member, join, place(member, join, self.order.size))

    def adjust(self, region: Region) -> Contact:
        return region.start

    def mirror(self, ring: str, id: str, owner: Contact, context: Context) -> None:
        return None

    def loses(self, me: Contact, other: Contact) -> bool:
        return False
