"""The tree of cuts. Its leaves, from left to right, are the order of a CAN's members.

A member's zone is its leaf and everything up to the leaf of the next member: one box, or several after it has taken
over from others. So the ring decides who owns what, and two members never claim the same box for long.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec import structs

from tocsin.overlay.keyspace.can.boxes import Space, meet
from tocsin.overlay.keyspace.model.contact import Box, Contact, Point, Region, Step

Leaf = tuple[Step, ...]
#: The deepest leaf there may be.
DEPTH = 1024


def position(leaf: Leaf) -> int:
    """Leaves from left to right have growing positions, and a leaf begins where its left half does."""
    found = 0
    for step in leaf:
        found = found << 1 | step.high
    return found << (DEPTH - len(leaf))


def flipped(step: Step) -> Step:
    return Step(step.dimension, step.cut, not step.high)


class ZoneOrder:
    def __init__(self, space: Space) -> None:
        self.space = space
        self._boxes = lru_cache(maxsize=100_000)(self._box)
        self._parts = lru_cache(maxsize=20_000)(self._part_boxes)

    def after(self, contact: Contact, point: Point) -> bool:
        for step in contact.leaf:
            high = point[step.dimension] >= step.cut
            if high is not step.high:
                return high
        return True

    def origin(self, contact: Contact) -> Point:
        return tuple(low for low, _ in self.box(contact.leaf))

    def overlaps(self, region: Region, span: Box) -> bool:
        return any(meet(box, span) for box in self.boxes(region))

    def box(self, leaf: Leaf) -> Box:
        return self._boxes(leaf)

    def _box(self, leaf: Leaf) -> Box:
        box = list(self.space.box)
        for step in leaf:
            low, high = box[step.dimension]
            box[step.dimension] = (step.cut, high) if step.high else (low, step.cut)
        return tuple(box)

    def boxes(self, region: Region) -> tuple[Box, ...]:
        if region.empty:
            return ()
        return self._parts(region.start.leaf, region.end.leaf, region.start.rank >= region.end.rank)

    def _part_boxes(self, start: Leaf, end: Leaf, around: bool) -> tuple[Box, ...]:
        return tuple(self.box(leaf) for leaf in parts(start, end, around))


def parts(start: Leaf, end: Leaf, around: bool) -> list[Leaf]:
    """The leaf, then the subtrees up to the end, from left to right. ``around``: past the last leaf to the first."""
    if around:
        return [start, *_right_of(start, 0), *_left_of(end, 0)]
    common = 0
    while common < min(len(start), len(end)) and start[common] == end[common]:
        common += 1
    if common == len(start):  # the end is inside of the leaf itself
        return _left_of(end, common)
    return [start, *_right_of(start, common + 1), *_left_of(end, common + 1)]


def _right_of(leaf: Leaf, above: int) -> list[Leaf]:
    return [
        (*leaf[:depth], flipped(leaf[depth])) for depth in range(len(leaf) - 1, above - 1, -1) if not leaf[depth].high
    ]


def _left_of(leaf: Leaf, above: int) -> list[Leaf]:
    return [(*leaf[:depth], flipped(leaf[depth])) for depth in range(above, len(leaf)) if leaf[depth].high]


def fitted(region: Region) -> Contact:
    """The start of a region with a leaf as large as it can be, and not larger than the region."""
    leaf, end = region.start.leaf, region.end.leaf
    if not region.alone and len(leaf) < len(end) and end[: len(leaf)] == leaf:
        for step in end[len(leaf) :]:
            leaf = (*leaf, Step(step.dimension, step.cut, False))
            if step.high:
                break
    around = region.start.rank >= region.end.rank
    while leaf and not leaf[-1].high and (around or position(leaf) + (2 << (DEPTH - len(leaf))) <= region.end.position):
        leaf = leaf[:-1]
    return region.start if leaf == region.start.leaf else structs.replace(region.start, leaf=leaf)


def contradicts(me: Leaf, other: Leaf) -> bool:
    """They know different cuts of the same box, and the other's counts."""
    for mine, theirs in zip(me, other, strict=False):
        if (mine.dimension, mine.cut) != (theirs.dimension, theirs.cut):
            return (mine.dimension, mine.cut) > (theirs.dimension, theirs.cut)
        if mine.high is not theirs.high:
            return False
    return False
