"""Circles on the earth: ``within`` of a condition, with the meaning it has in a channel's query.

A distance is haversine on the mean sphere. Latitudes beyond 90° and longitudes beyond 360° are not places: for them
``within`` is unknown.
"""

from __future__ import annotations

import math

from msgspec import Struct

RADIUS = 6371008.8  # metres, the mean radius
DEGREE = math.pi * RADIUS / 180  # metres
_SLACK = 1e-3  # metres: above the rounding errors of a distance


class Circle(Struct, frozen=True):
    """``latitude`` and ``longitude`` are the names of attributes."""

    latitude: str
    longitude: str
    lat: float
    lon: float
    metres: float

    @property
    def is_empty(self) -> bool:
        """Whether ``within`` is true nowhere."""
        return self.metres < 0 or not self.is_known

    @property
    def is_known(self) -> bool:
        return is_place(self.lat, self.lon)

    def distance(self, lat: float, lon: float) -> float | None:
        """In metres; None from what is not a place."""
        if not self.is_known or not is_place(lat, lon):
            return None
        return _distance(self.lat, self.lon, lat, lon)

    def covers(self, other: Circle) -> bool:
        """Whether surely every place of the other is in this one."""
        if not self._same_attributes(other):
            return False
        return self == other or _apart(self, other) + other.metres + _SLACK <= self.metres

    def is_disjoint(self, other: Circle) -> bool:
        return self._same_attributes(other) and _apart(self, other) > self.metres + other.metres + _SLACK

    def _same_attributes(self, other: Circle) -> bool:
        return (self.latitude, self.longitude) == (other.latitude, other.longitude)

    def latitudes(self) -> tuple[float, float]:
        """A range that surely has the latitude of every place in it."""
        height = (self.metres + _SLACK) / DEGREE
        return max(-90.0, self.lat - height), min(90.0, self.lat + height)


def is_place(lat: float, lon: float) -> bool:
    return abs(lat) <= 90 and abs(lon) <= 360


def _apart(one: Circle, other: Circle) -> float:
    return _distance(one.lat, one.lon, other.lat, other.lon)


def _distance(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    side = math.sin(math.radians(lat2 - lat1) / 2)
    across = math.sin(math.radians(lon2 - lon1) / 2)
    half_chord = side * side + math.cos(math.radians(lat1)) * math.cos(math.radians(lat2)) * across * across
    return 2 * RADIUS * math.asin(min(1.0, math.sqrt(half_chord)))
