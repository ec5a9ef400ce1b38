"""Circles by the cells of a grid of degrees: a circle touches at most four cells of its level."""

from __future__ import annotations

import math

from tocsin.content.index.buckets import Table
from tocsin.content.space.circles import DEGREE, Circle, is_place

#: Cells of level n are 360° / 2^n wide and high.
_FINEST = 22
_SLACK = 1e-6  # degrees; above the rounding errors, far below a cell


class Grid:
    """``levels``: the buckets of each level, by cell."""

    def __init__(self) -> None:
        self.levels: dict[int, Table] = {}

    def cells(self, circle: Circle) -> list[tuple[Table, tuple[int, int]]] | None:
        """The cells that it touches; None for one that is too large, or has a pole in it."""
        height = circle.metres / DEGREE + _SLACK
        if abs(circle.lat) + height >= 89:
            return None
        width = math.degrees(math.asin(min(1.0, math.sin(math.radians(height)) / math.cos(math.radians(circle.lat)))))
        width += _SLACK
        if max(height, width) > 45:
            return None
        level = min(_FINEST, math.floor(math.log2(360 / (2 * max(height, width)))))
        table = self.levels.setdefault(level, {})
        south, north = (_part(circle.lat + side * height + 90, level) for side in (-1, 1))
        west, east = (_part(circle.lon + side * width, level) for side in (-1, 1))
        rows = range(south, north + 1)
        return [(table, (row, column % (1 << level))) for row in rows for column in range(west, east + 1)]

    def look_up(self, lat: float, lon: float, found: list[int]) -> None:
        if not is_place(lat, lon):
            return
        for level, table in self.levels.items():
            number = table.get((_part(lat + 90, level), _part(lon, level) % (1 << level)))
            if number is not None:
                found.append(number)


def _part(degrees: float, level: int) -> int:
    return math.floor(degrees * (1 << level) / 360)
