"""What happens in a city: emergencies break out, spread and fade; publishers ride there and report."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from tocsin.demo.city.ground import Points, stream
from tocsin.demo.city.reports import KINDS, report
from tocsin.demo.city.routes import Routes

#: Reports a second that are due from one publisher; it sends none while there is no emergency of its kind. Eight
#: publishers send about 10,000 in half an hour.
RATE = 11_000 / 1_800 / len(KINDS)
#: Most reports that a publisher sends in a second.
AT_ONCE = 3
#: Metres a second, with blue light.
SPEED = 19.0
#: Seconds between two emergencies of a kind.
BETWEEN = (140.0, 420.0)
#: Reports a second from a flood that a user has raised.
WITNESSES = 6.0


class Emergency(Struct):
    """``reach``: its radius at its greatest. Times are seconds of the city's clock."""

    id: int
    kind: str
    crossing: int
    east: float
    north: float
    district: str
    severity: int
    reach: float
    begins: float
    peaks: float
    ends: float
    raised: bool = False
    phase: str = ""

    def radius(self, now: float) -> float:
        if now < self.peaks:
            return self.reach * (0.15 + 0.85 * (now - self.begins) / (self.peaks - self.begins))
        return self.reach * max(0.0, 1.0 - 0.8 * (now - self.peaks) / (self.ends - self.peaks))

    def phase_at(self, now: float) -> str:
        if now >= self.ends:
            return "over"
        if now >= self.peaks:
            return "fading"
        return "new" if now < self.begins + 15.0 else "spreading"


class Publisher(Struct):
    """Reports emergencies of one kind from where it is. Reports that are due while it is on its way are sent there."""

    kind: str
    crossing: int
    way: list[int] = []
    along: float = 0.0
    due: float = 0.0
    target: Emergency | None = None


class Emergencies:
    """Second by second the same for the same seed, unless a user raises a flood."""

    def __init__(self, seed: int, routes: Routes) -> None:
        self._rng = rng = stream(seed, "emergencies")
        self._routes, self._streets = routes, routes.streets
        self._weights = self._streets.crowding()
        self.now = 0.0
        self.active: list[Emergency] = []
        self.changed: list[Emergency] = []
        self.reported = 0
        self._begun = 0
        # The first of each kind within half a minute.
        self._next = {kind: float(rng.uniform(0, 30)) for kind in KINDS}
        self.publishers = [Publisher(kind, int(rng.integers(len(self._streets.points)))) for kind in KINDS]

    def step(self) -> list[dict[str, Any]]:
        """One second passes; the reports that are sent in it, without their time."""
        self.now += 1.0
        for kind in KINDS:
            if self.now >= self._next[kind]:
                self._break_out(kind)
        for each in self.active:
            phase = each.phase_at(self.now)
            if phase != each.phase:
                each.phase = phase
                self.changed.append(each)
        self.active = [each for each in self.active if each.phase != "over"]
        found = []
        for publisher in self.publishers:
            found += self._publish(publisher)
        for each in self.active:
            if each.raised:
                for crossing in [self._somewhere(each) for _ in range(self._rng.poisson(WITNESSES))]:
                    found.append(self._report(each, self._streets.points[crossing], crossing))
        return found

    def news(self) -> list[Emergency]:
        """Those whose phase has changed since this was last asked."""
        found, self.changed = self.changed, []
        return found

    def flood(self, district: str) -> Emergency:
        """A strong one in the middle of a district, now."""
        names = [each.name for each in self._streets.districts]
        if district not in names:
            raise KeyError(district)
        at = self._streets.near(np.array(self._streets.districts[names.index(district)].centre))
        found = self._begin("flood", at, severity=5, reach=1_100.0, growth=60.0, fading=150.0, raised=True)
        found.phase = "new"
        self.changed.append(found)
        return found

    def position(self, publisher: Publisher) -> Points:
        here: Points = self._streets.points[publisher.crossing]
        if not publisher.way:
            return here
        ahead = self._streets.points[publisher.way[0]]
        found: Points = here + (ahead - here) * (publisher.along / max(1e-6, float(np.hypot(*(ahead - here)))))
        return found

    def _break_out(self, kind: str) -> None:
        rng = self._rng
        self._next[kind] = self.now + float(rng.uniform(*BETWEEN))
        severity = int(rng.integers(1, 6))
        self._begin(
            kind,
            int(rng.choice(len(self._weights), p=self._weights)),
            severity=severity,
            reach=float(rng.uniform(120, 260)) * (1 + 0.45 * severity),
            growth=float(rng.uniform(90, 260)),
            fading=float(rng.uniform(150, 420)),
        )

    def _begin(
        self, kind: str, at: int, *, severity: int, reach: float, growth: float, fading: float, raised: bool = False
    ) -> Emergency:
        self._begun += 1
        east, north = self._streets.points[at]
        place = self._streets.districts[self._streets.district[at]].name
        peaks = self.now + growth
        found = Emergency(
            self._begun,
            kind,
            at,
            float(east),
            float(north),
            place,
            severity,
            reach,
            self.now,
            peaks,
            peaks + fading,
            raised,
        )
        self.active.append(found)
        return found

    def _publish(self, publisher: Publisher) -> list[dict[str, Any]]:
        target = publisher.target
        if target is None or target.phase == "over":
            mine = [each for each in self.active if each.kind == publisher.kind]
            target = publisher.target = max(mine, key=lambda each: (each.severity, each.id), default=None)
            publisher.way = []
        publisher.due += RATE * self._rng.uniform(0.5, 1.5)
        if target is None:
            return []
        self._ride(publisher, target)
        point = self.position(publisher)
        if np.hypot(point[0] - target.east, point[1] - target.north) > max(60.0, target.radius(self.now)):
            return []
        count = min(AT_ONCE, int(publisher.due))
        publisher.due -= count
        return [self._report(target, point, publisher.crossing) for _ in range(count)]

    def _ride(self, publisher: Publisher, target: Emergency) -> None:
        """To the emergency, and about in it."""
        left = SPEED
        while left > 0:
            if not publisher.way:
                goal = self._somewhere(target)
                publisher.way = self._routes.way(publisher.crossing, goal)[1:]
                if not publisher.way:
                    return
            length = float(
                np.hypot(*(self._streets.points[publisher.way[0]] - self._streets.points[publisher.crossing]))
            )
            if publisher.along + left < length:
                publisher.along += left
                return
            left -= length - publisher.along
            publisher.along, publisher.crossing = 0.0, publisher.way.pop(0)

    def _somewhere(self, target: Emergency) -> int:
        """A crossing inside of it."""
        away = np.hypot(self._streets.points[:, 0] - target.east, self._streets.points[:, 1] - target.north)
        inside = np.nonzero(away <= target.radius(self.now))[0]
        return int(self._rng.choice(inside)) if len(inside) else target.crossing

    def _report(self, target: Emergency, point: Points, crossing: int) -> dict[str, Any]:
        self.reported += 1
        place = self._streets.districts[self._streets.district[crossing]].name
        return report(self._rng, self.reported, target.kind, target.severity, place, point)
