from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

from tocsin.demo.city.districts import NAMES, outline
from tocsin.demo.city.ground import BOUNDS, HEIGHT, WIDTH, latitude, longitude, stream
from tocsin.demo.city.routes import EFFORT, Routes
from tocsin.demo.city.streets import AVENUE, BRIDGE, LANE, LONGEST, RIVER, Streets, _north_of, _to_river


@pytest.fixture(scope="module")
def streets() -> Streets:
    return Streets(7)


def test_every_crossing_can_be_reached_from_every_other(streets: Streets) -> None:
    seen, todo = {0}, [0]
    while todo:
        for other in streets.neighbours(todo.pop()).tolist():
            if other not in seen:
                seen.add(other)
                todo.append(other)
    assert len(seen) == len(streets.points) > 1_500


def test_streets_have_a_plausible_length_and_are_unique(streets: Streets) -> None:
    assert streets.lengths.max() <= LONGEST
    assert streets.lengths.min() > 4
    pairs = {tuple(pair) for pair in np.sort(streets.edges, axis=1).tolist()}
    assert len(pairs) == len(streets.edges), "every street is unique"
    assert all(a != b for a, b in pairs)


def test_only_bridges_cross_the_river_and_no_crossing_lies_in_it(streets: Streets) -> None:
    assert _to_river(streets.points, streets.river).min() > RIVER
    north = _north_of(streets.points, streets.river)
    across = north[streets.edges[:, 0]] != north[streets.edges[:, 1]]
    assert (streets.kinds[across] == BRIDGE).all()
    assert 4 <= across.sum() <= 20


def test_the_city_has_avenues_lanes_and_all_its_districts(streets: Streets) -> None:
    kinds = Counter(streets.kinds.tolist())
    assert kinds[AVENUE] > 200 and kinds[LANE] > 200
    assert [each.name for each in streets.districts] == list(NAMES)
    assert set(streets.district.tolist()) == set(range(len(NAMES)))


def test_the_old_town_is_dense_and_crooked_and_the_grids_are_straight(streets: Streets) -> None:
    def lengths(kind: str) -> float:
        inside = np.array([each.kind == kind for each in streets.districts])[streets.district]
        return float(np.median(streets.lengths[inside[streets.edges].all(axis=1) & (streets.kinds < AVENUE)]))

    assert lengths("old") < 0.75 * lengths("grid") < 0.75 * lengths("suburb")

    def corner(kind: str) -> float:
        """The median deviation from right angles of crossings with four streets."""
        off = []
        for n, district in enumerate(streets.district):
            others = streets.neighbours(n)
            if streets.districts[district].kind == kind and len(others) == 4:
                arms = streets.points[others] - streets.points[n]
                angles = np.sort(np.arctan2(arms[:, 1], arms[:, 0]))
                off.append(np.abs(np.diff(angles) - np.pi / 2).mean())
        return float(np.median(off))

    assert corner("grid") < 0.6 * corner("old")


def test_more_people_live_in_dense_districts(streets: Streets) -> None:
    weights = streets.crowding()
    assert weights.sum() == pytest.approx(1)
    homes = stream(3, "test").choice(len(weights), 50_000, p=weights)
    per_crossing = {}
    for n, each in enumerate(streets.districts):
        inside = streets.district[homes] == n
        area = (streets.district == n).sum() * each.spacing**2
        per_crossing[each.kind] = [*per_crossing.get(each.kind, []), inside.sum() / area]
    assert np.mean(per_crossing["old"]) > 1.3 * np.mean(per_crossing["grid"]) > 3 * np.mean(per_crossing["suburb"])


def test_the_same_seed_gives_the_same_streets_and_another_seed_others(streets: Streets) -> None:
    one, same, other = streets, Streets(streets.seed), Streets(streets.seed + 1)
    for name in ("points", "edges", "kinds", "river"):
        assert getattr(one, name).tobytes() == getattr(same, name).tobytes()
    assert one.points.tobytes() != other.points.tobytes()


def test_everything_lies_within_the_bounds(streets: Streets) -> None:
    lats, lons = latitude(streets.points), longitude(streets.points)
    assert lats.min() >= BOUNDS.south and lats.max() <= BOUNDS.north
    assert lons.min() >= BOUNDS.west and lons.max() <= BOUNDS.east
    for n in range(len(streets.districts)):
        edge = np.array(outline(n, streets.districts))
        assert (edge >= -1).all() and (edge[:, 0] <= WIDTH + 1).all() and (edge[:, 1] <= HEIGHT + 1).all()


def test_routes_to_hubs_are_shortest_and_follow_streets(streets: Streets) -> None:
    hubs = np.array([3, 400, 900])
    routes = Routes(streets, hubs)
    starts = stream(1, "routes").integers(0, len(streets.points), 30)
    for hub in range(3):
        rows, counts = routes.chains(np.full(30, hub), starts)
        for row, count, start in zip(rows, counts, starts, strict=True):
            way = row[:count].tolist()
            assert way[0] == start and way[-1] == hubs[hub]
            assert all(b in streets.neighbours(a) for a, b in pairwise(way))
            assert effort(streets, way) == pytest.approx(effort(streets, routes.way(int(start), int(hubs[hub]))))


def effort(streets: Streets, way: list[int]) -> float:
    kinds = {tuple(sorted(pair)): kind for pair, kind in zip(streets.edges.tolist(), streets.kinds, strict=True)}
    return sum(
        float(np.hypot(*(streets.points[a] - streets.points[b]))) * EFFORT.get(kinds[min(a, b), max(a, b)], 1.0)
        for a, b in pairwise(way)
    )


def test_the_route_to_the_start_is_the_start(streets: Streets) -> None:
    assert Routes(streets, np.array([0])).way(17, 17) == [17]
