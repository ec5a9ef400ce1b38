"""The districts of a city: where they are, how they are built, how many people live there."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.demo.city.ground import HEIGHT, WIDTH, Points, stream

#: From the middle outwards; the first is the old town.
NAMES = (
    "Bellgate",
    "Millbank",
    "Harbourside",
    "Ropewalk",
    "Northbridge",
    "Castle Hill",
    "Tannery",
    "Weavers' Row",
    "Ferryfield",
    "Orchard Park",
    "Quarry End",
    "Larkmoor",
    "Saltmarsh",
    "Beacon Heath",
    "Foxhollow",
    "Elmstead",
)
#: How many of them are old town, then grid; the others are suburbs.
OLD, GRID = 1, 8


class District(Struct, frozen=True):
    """``kind``: old, grid or suburb. ``density``: people by area, the densest has 1. ``angle``: of its streets."""

    name: str
    kind: str
    density: float
    centre: tuple[float, float]
    angle: float
    spacing: float


def districts(seed: int, middle: tuple[float, float]) -> list[District]:
    """The old town lies in the ``middle``, the grids around it, the suburbs beyond them."""
    rng = stream(seed, "districts")
    found = []
    suburbs = len(NAMES) - OLD - GRID
    for number, name in enumerate(NAMES):
        if number < OLD:
            kind, reach, turn, spacing = "old", 0.0, 0.0, 62.0
        elif number < OLD + GRID:
            kind, reach, spacing = "grid", 0.36, float(rng.uniform(95, 135))
            turn = 2 * np.pi * (number - OLD) / GRID
        else:
            kind, reach, spacing = "suburb", 0.80, float(rng.uniform(165, 220))
            turn = 2 * np.pi * (number - OLD - GRID + 0.5) / suburbs
        turn += rng.uniform(-0.18, 0.18)
        reach *= rng.uniform(0.88, 1.08)
        east = float(np.clip(middle[0] + np.cos(turn) * reach * WIDTH / 2, 250, WIDTH - 250))
        north = float(np.clip(middle[1] + np.sin(turn) * reach * HEIGHT / 2, 250, HEIGHT - 250))
        density = {"old": 1.0, "grid": float(rng.uniform(0.35, 0.7)), "suburb": float(rng.uniform(0.05, 0.15))}[kind]
        angle = float(rng.uniform(-0.45, 0.45))
        found.append(District(name, kind, round(density, 3), (east, north), angle, spacing))
    return found


def district_of(points: Points, all_of_them: list[District]) -> NDArray[np.int64]:
    """The number of the district whose middle is nearest; suburbs reach a little further in."""
    centres = np.array([each.centre for each in all_of_them])
    away = np.hypot(points[:, None, 0] - centres[None, :, 0], points[:, None, 1] - centres[None, :, 1])
    away[:, [each.kind == "suburb" for each in all_of_them]] *= 0.92
    found: NDArray[np.int64] = np.argmin(away, axis=1)
    return found


def outline(number: int, all_of_them: list[District], step: float = 60.0) -> list[tuple[float, float]]:
    """The edge of a district as a polygon: how far it reaches in each direction."""
    centre = np.array(all_of_them[number].centre)
    turns = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    reaches = np.arange(step / 2, WIDTH, step / 2)
    rays = centre + reaches[None, :, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)[:, None, :]
    flat = rays.reshape(-1, 2)
    inside = (flat[:, 0] >= 0) & (flat[:, 0] <= WIDTH) & (flat[:, 1] >= 0) & (flat[:, 1] <= HEIGHT)
    inside &= district_of(flat, all_of_them) == number
    last = np.argmin(np.column_stack([inside.reshape(len(turns), -1), np.zeros(len(turns), bool)]), axis=1)
    edge = centre + (last * step / 2)[:, None] * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return [(float(x), float(y)) for x, y in edge]
