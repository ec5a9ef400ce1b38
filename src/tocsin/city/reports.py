"""A small city made from a seed: shelters, people on the move, emergency reports. The same seed, the same city."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec

KINDS = ("fire", "flood", "storm", "gas leak", "power cut", "road accident", "chemical spill", "missing person")

#: Parts of Helsinki, the city of the papers' experiments, and roughly where they are.
DISTRICTS: dict[str, tuple[float, float]] = {
    "Kamppi": (60.168, 24.931),
    "Kallio": (60.184, 24.950),
    "Töölö": (60.180, 24.920),
    "Pasila": (60.199, 24.933),
    "Eira": (60.156, 24.938),
    "Punavuori": (60.161, 24.936),
    "Kruununhaka": (60.172, 24.957),
    "Katajanokka": (60.167, 24.968),
    "Lauttasaari": (60.159, 24.877),
    "Munkkiniemi": (60.198, 24.876),
    "Meilahti": (60.191, 24.902),
    "Vallila": (60.196, 24.955),
    "Arabia": (60.206, 24.977),
    "Käpylä": (60.213, 24.950),
    "Kulosaari": (60.187, 25.009),
    "Herttoniemi": (60.195, 25.033),
}
SOUTH_WEST = (60.150, 24.860)
NORTH_EAST = (60.220, 25.050)
METRES_PER_DEGREE = 111_195.0

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


class Point(NamedTuple):
    lat: float
    lon: float


class Mover:
    """Goes straight to a random place, then to the next (random waypoint), at its own speed in metres a second."""

    def __init__(self, randomness: random.Random, speed: float) -> None:
        self._randomness = randomness
        self.speed = speed
        self.at = _anywhere(randomness)
        self._goal = _anywhere(randomness)

    def move(self, seconds: float) -> None:
        left = seconds * self.speed
        while (distance := metres(self.at, self._goal)) <= left:
            left -= distance
            self.at, self._goal = self._goal, _anywhere(self._randomness)
        part = left / distance
        self.at = Point(
            self.at.lat + (self._goal.lat - self.at.lat) * part,
            self.at.lon + (self._goal.lon - self.at.lon) * part,
        )


class City:
    """Each part has its own stream of randomness, so that more people do not change the shelters or the reports."""

    def __init__(self, seed: int = 1, people: int = 400, shelters: int = 200) -> None:
        if people < 0 or shelters < 0:
            raise ValueError("a city has no negative number of people or shelters")
        walking = random.Random(f"people {seed}")
        self._reporting = random.Random(f"reports {seed}")
        self._reported = 0
        self._people = {f"user-{n:05}": Mover(walking, walking.choice((1.4, 1.4, 5.0, 12.0))) for n in range(people)}
        # The papers' publishers: one a kind, crossing the city fast.
        self._publishers = {kind: Mover(self._reporting, 300.0) for kind in KINDS}
        self._shelters = _shelters(random.Random(f"shelters {seed}"), shelters)

    @property
    def users(self) -> list[str]:
        return list(self._people)

    def shelters(self) -> list[dict[str, Any]]:
        return [dict(shelter) for shelter in self._shelters]

    def move(self, seconds: float) -> None:
        """Lets this much time pass for everybody."""
        for mover in (*self._people.values(), *self._publishers.values()):
            mover.move(seconds)

    def locations(self, now: float) -> list[dict[str, Any]]:
        """Where everybody is."""
        time = timestamp(now)
        return [
            {"user_id": user, "lat": round(mover.at.lat, 6), "lon": round(mover.at.lon, 6), "time": time}
            for user, mover in self._people.items()
        ]

    def report(self, now: float) -> dict[str, Any]:
        """The next emergency, 200 to 700 bytes as JSON."""
        randomness = self._reporting
        self._reported += 1
        kind = randomness.choice(KINDS)
        point = self._publishers[kind].at
        place = district(point)
        severity = randomness.randint(1, 5)
        sentences = randomness.sample(_SENTENCES, randomness.randint(1, 7))
        return {
            "report_id": f"report-{self._reported:07}",
            "kind": kind,
            "location": place,
            "lat": round(point.lat, 6),
            "lon": round(point.lon, 6),
            "severity": severity,
            "message": f"{kind.capitalize()} in {place}, level {severity} of 5. {' '.join(sentences)}",
            "time": timestamp(now),
        }


def district(point: Point) -> str:
    """The part of the city whose middle is nearest."""
    return min(DISTRICTS, key=lambda name: metres(Point(*DISTRICTS[name]), point))


def metres(a: Point, b: Point) -> float:
    """Distance in the plane, which is near enough within a city."""
    across = (b.lon - a.lon) * math.cos(math.radians((a.lat + b.lat) / 2))
    return METRES_PER_DEGREE * math.hypot(b.lat - a.lat, across)


def timestamp(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ndjson(records: Iterable[dict[str, Any]]) -> bytes:
    """One record a line, as feeds take it."""
    return msgspec.json.Encoder().encode_lines(list(records))


def _anywhere(randomness: random.Random) -> Point:
    return Point(
        randomness.uniform(SOUTH_WEST[0], NORTH_EAST[0]),
        randomness.uniform(SOUTH_WEST[1], NORTH_EAST[1]),
    )


def _shelters(randomness: random.Random, count: int) -> list[dict[str, Any]]:
    out = []
    for n in range(count):
        point = _anywhere(randomness)
        place = district(point)
        out.append(
            {
                "shelter_id": f"shelter-{n:04}",
                "name": f"{place} {randomness.choice(_SHELTERS)} {n}",
                "location": place,
                "lat": round(point.lat, 6),
                "lon": round(point.lon, 6),
                "capacity": randomness.randrange(50, 2001, 50),
            }
        )
    return out
