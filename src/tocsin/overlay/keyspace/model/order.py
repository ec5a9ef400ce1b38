"""The order of keys along a ring: which member's part of the space a key falls into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tocsin.overlay.keyspace.model.contact import Box, Contact, Point, Region


class KeyOrder(Protocol):
    def after(self, contact: Contact, point: Point) -> bool:
        """Whether the key is at or after the beginning of the contact's part."""
        ...

    def origin(self, contact: Contact) -> Point:
        """A key at the very beginning of the contact's part."""
        ...

    def overlaps(self, region: Region, span: Box) -> bool: ...


class RingOrder:
    """Keys are numbers below ``size``, and so are positions."""

    def __init__(self, size: int) -> None:
        self.size = size

    def after(self, contact: Contact, point: Point) -> bool:
        return point[0] >= contact.position

    def origin(self, contact: Contact) -> Point:
        return (contact.position,)

    def overlaps(self, region: Region, span: Box) -> bool:
        ((low, high),) = span
        return owns(self, region, (low,)) or (not region.empty and low <= region.start.position < high)


def owns(order: KeyOrder, region: Region, point: Point) -> bool:
    if region.alone:
        return True
    begun, over = order.after(region.start, point), order.after(region.end, point)
    return begun and not over if region.start.rank < region.end.rank else begun or not over


def closeness(order: KeyOrder, contact: Contact, point: Point) -> tuple[bool, tuple[int, int, str]]:
    """Grows on the way up to the owner of the key."""
    return (order.after(contact, point), contact.rank)


def closest(order: KeyOrder, me: Contact, contacts: Iterable[Contact], point: Point) -> Contact | None:
    """The contact closest to the owner, if it is closer than ``me``: a message never goes in circles."""
    best = max(contacts, key=lambda each: closeness(order, each, point), default=None)
    if best is None or closeness(order, best, point) <= closeness(order, me, point):
        return None
    return best
