"""A member of a ring, as others know it, and the part of the key space between two of them."""

from __future__ import annotations

from msgspec import Struct

#: A key: one coordinate in a ring, d of them in a CAN.
Point = tuple[int, ...]
#: Half-open intervals, one for each dimension.
Box = tuple[tuple[int, int], ...]


class Step(Struct, frozen=True):
    """One cut on the way from the whole space to a zone: ``high`` is the side at or above the cut."""

    dimension: int
    cut: int
    high: bool


class Contact(Struct, frozen=True, eq=False):
    """``position`` is where its part of the space begins. ``generation`` grows when a member moves to another host:
    of two members at one position the later one owns the part. ``leaf``: the cuts that lead to a CAN's zone.
    """

    position: int
    generation: int
    id: str
    host: str
    leaf: tuple[Step, ...] = ()

    @property
    def rank(self) -> tuple[int, int, str]:
        return (self.position, self.generation, self.id)


class Region(Struct, frozen=True, eq=False):
    """From ``start`` up to, but not including, ``end``; around the ring if they are the same member."""

    start: Contact
    end: Contact

    @property
    def alone(self) -> bool:
        return self.start.id == self.end.id

    @property
    def empty(self) -> bool:
        """Another member is at the same position and counts instead."""
        return self.start.position == self.end.position and self.start.rank < self.end.rank


def between(low: Contact, it: Contact, high: Contact) -> bool:
    """Whether one meets ``it`` before ``high`` on the way up from ``low``; ends do not count."""
    a, x, b = low.rank, it.rank, high.rank
    return a < x < b if a < b else x > a or x < b


def clockwise(start: Contact, contacts: list[Contact]) -> list[Contact]:
    """In the order in which one meets them after ``start``, each once, without ``start`` itself."""
    known = {each.id: each for each in contacts if each.id != start.id}
    return sorted(known.values(), key=lambda each: (each.rank < start.rank, each.rank))


def inside(point: Point, box: Box) -> bool:
    return all(low <= x < high for x, (low, high) in zip(point, box, strict=True))
