"""Boxes of the space: where they touch, how far a key is from them, and what of one is not covered by others."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from tocsin.overlay.keyspace.model.contact import Box, Point


class Space(Struct, frozen=True):
    """Coordinates are integers below ``size``. On a ``torus`` the last one is followed by the first."""

    dimensions: int
    size: int
    torus: bool = True

    @property
    def box(self) -> Box:
        return ((0, self.size),) * self.dimensions

    def distance(self, point: Point, box: Box) -> int:
        """The sum over all dimensions; 0 within the box."""
        total = 0
        for x, (low, high) in zip(point, box, strict=True):
            if x < low:
                gap = low - x
                if self.torus and (around := x + self.size - high + 1) < gap:
                    gap = around
            elif x >= high:
                gap = x - high + 1
                if self.torus and (around := low + self.size - x) < gap:
                    gap = around
            else:
                continue
            total += gap
        return total

    def nearest(self, point: Point, boxes: Iterable[Box]) -> int:
        return min((self.distance(point, box) for box in boxes), default=self.size * self.dimensions)

    def touch(self, a: Box, b: Box) -> bool:
        """They share part of a side, or more."""
        meeting = 0
        for (low, high), (lower, higher) in zip(a, b, strict=True):
            if low < higher and lower < high:
                continue
            if high == lower or higher == low or (self.torus and self._around(low, high, lower, higher)):
                meeting += 1
                if meeting > 1:
                    return False
            else:
                return False
        return True

    def _around(self, low: int, high: int, lower: int, higher: int) -> bool:
        return (low == 0 and higher == self.size) or (lower == 0 and high == self.size)

    def uncovered(self, boxes: Iterable[Box], around: Iterable[Box]) -> Point | None:
        """A key just outside of ``boxes`` that is in none of those ``around`` them."""
        boxes, around = list(boxes), list(around)
        for box in boxes:
            for dimension, (low, high) in enumerate(box):
                for beyond in (low - 1, high):
                    if self.torus:
                        beyond %= self.size
                    elif not 0 <= beyond < self.size:
                        continue
                    side = (*box[:dimension], (beyond, beyond + 1), *box[dimension + 1 :])
                    left = remainder([side], [*boxes, *around])
                    if left:
                        return tuple(low for low, _ in left[0])
        return None


def volume(box: Box) -> int:
    found = 1
    for low, high in box:
        found *= high - low
    return found


def meet(a: Box, b: Box) -> bool:
    return all(low < higher and lower < high for (low, high), (lower, higher) in zip(a, b, strict=True))


def remainder(boxes: list[Box], covers: Iterable[Box]) -> list[Box]:
    """What is left of the boxes without the parts that are covered."""
    for cover in covers:
        boxes = [piece for box in boxes for piece in _without(box, cover)]
        if not boxes:
            break
    return boxes


def _without(box: Box, cover: Box) -> list[Box]:
    if not meet(box, cover):
        return [box]
    pieces = []
    for dimension, ((low, high), (lower, higher)) in enumerate(zip(box, cover, strict=True)):
        if low < lower:
            pieces.append((*box[:dimension], (low, lower), *box[dimension + 1 :]))
        if higher < high:
            pieces.append((*box[:dimension], (higher, high), *box[dimension + 1 :]))
        box = (*box[:dimension], (max(low, lower), min(high, higher)), *box[dimension + 1 :])
    return pieces
