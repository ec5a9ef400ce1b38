"""The records of a city: emergency reports, shelters, locations."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np

from tocsin.demo.city.ground import Points, degrees, stream

KINDS = ("fire", "flood", "storm", "gas leak", "power cut", "road accident", "chemical spill", "missing person")

_SHELTERS = (
    "School",
    "Library",
    "Sports Hall",
    "Church",
    "Metro Station",
    "Community Centre",
    "Parking Cave",
    "Theatre",
)
_SENTENCES = (
    "Keep doors and windows closed until further notice.",
    "Rescue services are on their way; leave the street free for them.",
    "Leave the area on foot towards the nearest open shelter.",
    "Public transport through this part of the city is interrupted.",
    "Do not use lifts, and help neighbours who cannot walk on their own.",
    "The hospital nearby takes in the injured; call ahead if you can.",
    "Witnesses are asked to stay and to speak with the police.",
    "Drinking water may be affected; boil it before use.",
    "Further information follows as soon as the situation is clear.",
)


def report(
    rng: np.random.Generator, number: int, kind: str, severity: int, place: str, point: Points
) -> dict[str, Any]:
    """200 to 700 bytes as JSON, with the time that is added when it is published."""
    lat, lon = degrees(point)
    sentences = [_SENTENCES[n] for n in rng.permutation(len(_SENTENCES))[: rng.integers(1, 7)]]
    return {
        "report_id": f"report-{number:07}",
        "kind": kind,
        "location": place,
        "lat": lat,
        "lon": lon,
        "severity": severity,
        "message": f"{kind.capitalize()} in {place}, level {severity} of 5. {' '.join(sentences)}",
    }


def shelters(seed: int, count: int, points: Points, weights: Any, places: list[str]) -> list[dict[str, Any]]:
    """Where people live there are more of them. ``places``: the district of each point."""
    rng = stream(seed, "shelters")
    found = []
    for n, at in enumerate(rng.choice(len(points), count, replace=False, p=weights)):
        lat, lon = degrees(points[at])
        found.append(
            {
                "shelter_id": f"shelter-{n:04}",
                "name": f"{places[at]} {_SHELTERS[rng.integers(len(_SHELTERS))]} {n}",
                "location": places[at],
                "lat": lat,
                "lon": lon,
                "capacity": int(rng.integers(1, 41)) * 50,
            }
        )
    return found


def ndjson(records: Iterable[dict[str, Any]]) -> bytes:
    """One record a line, as feeds take it."""
    return msgspec.json.Encoder().encode_lines(list(records))
