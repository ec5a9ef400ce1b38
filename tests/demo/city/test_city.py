from __future__ import annotations

import json
from collections import Counter

import msgspec
import numpy as np
import pytest
from location_records import NOON, locations

from tocsin.demo.application import channels
from tocsin.demo.city import City
from tocsin.demo.city.districts import NAMES
from tocsin.demo.city.ground import BOUNDS
from tocsin.demo.city.interests import LOGIN, SUBSCRIBE, plans
from tocsin.demo.city.people import DRIVING
from tocsin.demo.city.reports import KINDS, ndjson

CHANNELS = channels()


@pytest.fixture(scope="module")
def city() -> City:
    return City(seed=3, people=300)


# -- people ------------------------------------------------------------------------------------------------------------


def test_people_stay_on_the_streets_and_within_their_speed() -> None:
    city = City(seed=3, people=500)
    points, before, walked = city.streets.points, city.people.positions(), np.zeros(500)
    for _ in range(600):
        city.people.step()
        here, there = city.people.streets_of()
        for a, b in zip(here[:25].tolist(), there[:25].tolist(), strict=True):
            assert a == b or b in city.streets.neighbours(a)
        now = city.people.positions()
        along = np.hypot(*(points[here] - now).T) + np.hypot(*(points[there] - now).T)
        assert np.allclose(along, np.hypot(*(points[here] - points[there]).T), atol=1e-6), "between two crossings"
        step = np.hypot(*(now - before).T)
        assert (step <= city.people.speed + 1e-6).all()
        walked, before = walked + step, now
    assert (walked > 100).mean() > 0.5, "most people have moved"
    assert walked.max() < 600 * DRIVING[1] * 1.5


def test_some_people_walk_and_some_ride(city: City) -> None:
    assert 0.25 < city.people.riding.mean() < 0.5


def test_people_come_home_and_set_out_again() -> None:
    city = City(seed=3, people=100)
    at_home, was = np.zeros(100, int), np.zeros(100, bool)
    for _ in range(3_600):
        city.people.step()
        here, there = city.people.streets_of()
        now = (here == city.people.home) & (there == here)
        at_home, was = at_home + (now & ~was), now
    assert (at_home > 0).mean() > 0.4


# -- emergencies -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def half_hour() -> tuple[City, list[dict[str, object]], dict[int, list[str]]]:
    city, reports, phases = City(seed=1, people=5), [], {}
    for _ in range(1_800):
        reports += city.advance(1)
        for each in city.emergencies.news():
            phases.setdefault(each.id, []).append(each.phase)
    return city, reports, phases


def test_half_an_hour_has_about_ten_thousand_reports_of_all_eight_kinds(half_hour) -> None:
    _, reports, _ = half_hour
    assert 8_500 < len(reports) < 11_500
    counted = Counter(each["kind"] for each in reports)
    assert set(counted) == set(KINDS) and min(counted.values()) > 400
    assert {each["location"] for each in reports} <= set(NAMES)
    assert len({each["report_id"] for each in reports}) == len(reports)


def test_reports_have_the_size_of_those_in_the_papers(half_hour) -> None:
    sizes = [len(msgspec.json.encode(each | {"time": NOON})) for each in half_hour[1]]
    assert min(sizes) >= 200 and max(sizes) <= 700


def test_emergencies_break_out_spread_fade_and_end(half_hour) -> None:
    phases = half_hour[2]
    whole = [each for each in phases.values() if each[-1] == "over"]
    assert len(whole) > 20
    assert all(each == ["new", "spreading", "fading", "over"] for each in whole)


def test_an_emergency_grows_and_shrinks() -> None:
    city = City(seed=3, people=1)
    city.advance(40)
    one = city.emergencies.active[0]
    radii = [one.radius(t) for t in np.linspace(one.begins, one.ends, 50)]
    assert radii[0] < max(radii) == pytest.approx(one.reach, rel=0.05) and radii[-1] < one.reach / 2


def test_reports_come_from_inside_an_emergency() -> None:
    city = City(seed=3, people=1)
    for _ in range(900):
        for each in city.advance(1):
            mine = [e for e in city.emergencies.active if e.kind == each["kind"]]
            shown = [city.show(e) for e in mine]
            far = min(111_195 * np.hypot(each["lat"] - s["lat"], (each["lon"] - s["lon"]) * 0.52) for s in shown)
            assert any(far <= max(61.0, e.radius(city.now) + 1) for e in mine)


def test_a_raised_flood_causes_many_reports_in_its_district() -> None:
    city = City(seed=3, people=1)
    city.advance(60)
    flood = city.emergencies.flood("Larkmoor")
    assert (flood.kind, flood.severity, flood.phase) == ("flood", 5, "new")
    assert flood in city.emergencies.news()
    reports = [each for each in city.advance(60) if each["kind"] == "flood"]
    assert len(reports) > 200
    assert Counter(each["location"] for each in reports).most_common(1)[0][0] == "Larkmoor"


@pytest.mark.parametrize("name", ["", "Atlantis", "larkmoor"])
def test_a_flood_in_an_unknown_district_is_an_error(city: City, name: str) -> None:
    with pytest.raises(KeyError):
        city.emergencies.flood(name)


# -- the whole city ----------------------------------------------------------------------------------------------------


def everything(seed: int, steps: list[int]) -> bytes:
    city = City(seed, 50)
    reports = [each for step in steps for each in city.advance(step)]
    planned = plans(seed, city.users, CHANNELS, city.districts)
    parts = [ndjson(reports), ndjson(city.shelters), ndjson(locations(city)), msgspec.json.encode(planned)]
    return b"".join(parts) + json.dumps(city.map()).encode()


def test_the_same_seed_gives_the_same_bytes_in_any_time_steps() -> None:
    assert everything(3, [300]) == everything(3, [1, 99, 200])
    assert everything(3, [300]) != everything(1, [300])


def test_more_people_change_neither_streets_nor_emergencies() -> None:
    few, many = City(3, 10), City(3, 200)
    assert few.map() == many.map()
    assert few.advance(100) == many.advance(100)


@pytest.mark.parametrize(("people", "shelters"), [(-1, 10), (10, -1)])
def test_a_negative_number_of_people_or_shelters_is_an_error(people: int, shelters: int) -> None:
    with pytest.raises(ValueError, match="negative"):
        City(1, people, shelters)


def test_a_city_without_people_runs() -> None:
    city = City(1, 0, 0)
    city.advance(30)
    assert locations(city) == [] and city.shelters == []


def test_shelters_have_unique_names_districts_and_capacities(city: City) -> None:
    assert len(city.shelters) == 200
    assert len({each["name"] for each in city.shelters}) == 200
    assert {each["location"] for each in city.shelters} <= set(NAMES)
    assert all(50 <= each["capacity"] <= 2_000 for each in city.shelters)


def test_the_map_contains_every_street_once(city: City) -> None:
    found = city.map()
    assert found["bounds"] == BOUNDS._asdict()
    kinds = Counter(each["kind"] for each in found["streets"])
    assert set(kinds) == {"avenue", "street", "lane", "bridge", "river"}
    assert sum(len(each["points"]) - 1 for each in found["streets"] if each["kind"] != "river") == len(
        city.streets.edges
    )
    for line in found["streets"]:
        for lon, lat in line["points"]:
            slack = 0.01 if line["kind"] == "river" else 0.0
            assert BOUNDS.west - slack <= lon <= BOUNDS.east + slack and BOUNDS.south <= lat <= BOUNDS.north


def test_brokers_have_different_stations(city: City) -> None:
    stations = city.stations(16)
    assert len(set(stations)) == 16
    assert stations[:5] == city.stations(5)


def test_outer_brokers_stand_as_far_out_as_they_reach(city: City) -> None:
    near, far = (np.diff(city.stations(5, reach), axis=0) for reach in (0.3, 0.9))
    assert far == pytest.approx(3 * near, abs=1e-5)


# -- interests ---------------------------------------------------------------------------------------------------------


def test_everyone_subscribes_to_one_to_five_channels_one_to_three_times(city: City) -> None:
    planned = plans(1, [f"user-{n:05}" for n in range(400)], CHANNELS, city.districts)
    for plan in planned:
        counted = Counter(each.channel for each in plan.interests)
        assert 1 <= len(counted) <= 5 and max(counted.values()) <= 3
        assert 0 <= plan.login <= LOGIN < plan.login + SUBSCRIBE + 1
        assert plan.login < plan.subscribe <= plan.login + SUBSCRIBE
    made = [each for plan in planned for each in plan.interests]
    assert 2_000 < len(made) < 2_500, "the papers have about 2,200 FE subscriptions"
    assert 500 < len(set(made)) < 700, "and about 600 BE subscriptions"


def test_interests_fit_the_parameters(city: City) -> None:
    users = city.users[:200]
    for user, plan in zip(users, plans(2, users, CHANNELS, city.districts), strict=True):
        for each in plan.interests:
            for name, value in zip(CHANNELS[each.channel], each.args, strict=True):
                known = {"kind": {*KINDS, "any"}, "location": set(NAMES), "user": {user}}[name]
                assert value in known
                assert value != "any" or each.channel == "EmergenciesNearMe"
