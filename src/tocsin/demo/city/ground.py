"""The ground a city stands on: metres east and north of its south-western corner, and the same as degrees."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Points = NDArray[np.float64]  # (n, 2): metres east, metres north

#: The size of every city.
WIDTH, HEIGHT = 9_000.0, 7_000.0
#: In the middle of the Baltic Sea: no city is there that this one could be taken for.
SOUTH, WEST = 58.60, 20.30
METRES_PER_DEGREE = 111_195.0
_LON = METRES_PER_DEGREE * math.cos(math.radians(SOUTH + HEIGHT / METRES_PER_DEGREE / 2))


class Bounds(NamedTuple):
    west: float
    south: float
    east: float
    north: float


BOUNDS = Bounds(WEST, SOUTH, WEST + WIDTH / _LON, SOUTH + HEIGHT / METRES_PER_DEGREE)


def latitude(points: Points) -> NDArray[np.float64]:
    return SOUTH + points[..., 1] / METRES_PER_DEGREE


def longitude(points: Points) -> NDArray[np.float64]:
    return WEST + points[..., 0] / _LON


def degrees(point: Points) -> tuple[float, float]:
    """Latitude and longitude, to a tenth of a metre."""
    return round(float(latitude(point)), 6), round(float(longitude(point)), 6)


def stream(seed: int, name: str) -> np.random.Generator:
    """A random stream for each purpose, so that more people do not change the streets."""
    return np.random.default_rng([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF, *name.encode()])
