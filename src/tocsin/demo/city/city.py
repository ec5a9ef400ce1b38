"""A whole city and its clock."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.demo.city.districts import outline
from tocsin.demo.city.emergencies import Emergencies, Emergency
from tocsin.demo.city.ground import BOUNDS, Points, degrees, latitude, longitude, stream
from tocsin.demo.city.people import People
from tocsin.demo.city.reports import shelters
from tocsin.demo.city.routes import Routes
from tocsin.demo.city.streets import KINDS, Streets

NAME = "Tocsin Bay"
HUBS = 40
SHELTERS = 200


class City:
    """Made from its seed. Time passes in steps of one second, so it does not matter how many are taken together."""

    def __init__(self, seed: int = 1, people: int = 400, shelters_wanted: int = SHELTERS) -> None:
        if people < 0 or shelters_wanted < 0:
            raise ValueError("a city has no negative number of people or shelters")
        self.seed = seed
        self.streets, self.routes = _built(seed)
        weights = self.streets.crowding()
        self.people = People(seed, people, self.routes)
        self.emergencies = Emergencies(seed, self.routes)
        places = [self.streets.districts[each].name for each in self.streets.district]
        self.shelters = shelters(seed, shelters_wanted, self.streets.points, weights, places)

    @property
    def now(self) -> float:
        return self.people.now

    @property
    def districts(self) -> list[str]:
        return [each.name for each in self.streets.districts]

    @cached_property
    def users(self) -> list[str]:
        return [f"user-{n:05}" for n in range(self.people.count)]

    def whereabouts(self) -> NDArray[np.int64]:
        """The number of each person's district."""
        here, _ = self.people.streets_of()
        found: NDArray[np.int64] = self.streets.district[here]
        return found

    def advance(self, seconds: int) -> list[dict[str, Any]]:
        """Lets time pass; the reports that were sent meanwhile, without their time."""
        found = []
        for _ in range(seconds):
            self.people.step()
            found += self.emergencies.step()
        return found

    def stations(self, count: int, reach: float = 0.6) -> list[tuple[float, float]]:
        """Where brokers may stand: far from each other, the first in the middle. Latitudes and longitudes."""
        points = self.streets.points
        found = [self.streets.near(np.array(self.streets.middle))]
        away = np.hypot(*(points - points[found[0]]).T)
        while len(found) < count:
            found.append(int(np.argmax(away)))
            away = np.minimum(away, np.hypot(*(points - points[found[-1]]).T))
        # Part of the way from the middle: not at the edge of the map.
        middle = np.array(self.streets.middle)
        return [degrees(middle + (points[at] - middle) * reach) for at in found]

    def map(self) -> dict[str, Any]:
        """Streets, river, districts and shelters, for drawing."""
        streets = self.streets
        lines: list[dict[str, Any]] = [{"kind": "river", "points": _line(streets.river)}]
        for kind, path in _paths(streets):
            lines.append({"kind": KINDS[kind], "points": _line(streets.points[path])})
        return {
            "bounds": BOUNDS._asdict(),
            "streets": lines,
            "districts": [
                {"name": each.name, "density": each.density, "polygon": _line(np.array(outline(n, streets.districts)))}
                for n, each in enumerate(streets.districts)
            ],
            "shelters": [
                {"id": each["shelter_id"], **{name: each[name] for name in ("name", "lat", "lon", "capacity")}}
                for each in self.shelters
            ],
        }

    def show(self, emergency: Emergency) -> dict[str, Any]:
        lat, lon = degrees(np.array([emergency.east, emergency.north]))
        return {
            "id": emergency.id,
            "kind": emergency.kind,
            "lat": lat,
            "lon": lon,
            "radius": round(emergency.radius(self.now), 1),
            "severity": emergency.severity,
            "phase": emergency.phase,
            "at": self.now,
            "district": emergency.district,
        }


@lru_cache(maxsize=4)
def _built(seed: int) -> tuple[Streets, Routes]:
    """They never change, so cities of one seed share them."""
    streets = Streets(seed)
    hubs = stream(seed, "hubs").choice(len(streets.points), HUBS, replace=False, p=streets.crowding())
    return streets, Routes(streets, hubs)


def _line(points: Points) -> list[list[float]]:
    return np.column_stack([longitude(points).round(6), latitude(points).round(6)]).tolist()  # type: ignore[no-any-return]


def _paths(streets: Streets) -> list[tuple[int, list[int]]]:
    """Streets of a kind that follow each other as one line: fewer to draw."""
    left = {
        (min(a, b), max(a, b)): int(kind) for (a, b), kind in zip(streets.edges.tolist(), streets.kinds, strict=True)
    }
    found = []
    while left:
        (a, b), kind = next(iter(left.items()))
        del left[a, b]
        path = [a, b]
        while (further := _straight(streets, left, path, kind)) is not None:
            del left[min(path[-1], further), max(path[-1], further)]
            path.append(further)
        found.append((kind, path))
    return found


def _straight(streets: Streets, left: dict[tuple[int, int], int], path: list[int], kind: int) -> int | None:
    """The neighbour of the last crossing that lies most nearly ahead."""
    before, here = streets.points[path[-2]], streets.points[path[-1]]
    heading = (here - before) / max(1e-6, float(np.hypot(*(here - before))))
    best, found = 0.7, None
    for other in streets.neighbours(path[-1]).tolist():
        if left.get((min(path[-1], other), max(path[-1], other))) == kind:
            turn = streets.points[other] - here
            ahead = float(turn @ heading) / max(1e-6, float(np.hypot(*turn)))
            if ahead > best:
                best, found = ahead, other
    return found
