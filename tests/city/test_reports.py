from __future__ import annotations

import msgspec
import pytest

from tocsin.city.reports import (
    DISTRICTS,
    KINDS,
    NORTH_EAST,
    SOUTH_WEST,
    City,
    Point,
    district,
    metres,
    ndjson,
    timestamp,
)

NOON = 1_790_000_000.0


def story(city: City) -> bytes:
    out = [ndjson(city.shelters())]
    for second in range(20):
        city.move(1)
        out += [ndjson(city.locations(NOON + second)), ndjson(city.report(NOON + second) for _ in range(5))]
    return b"".join(out)


def test_the_same_seed_gives_the_same_city():
    assert story(City(seed=7, people=10)) == story(City(seed=7, people=10))


def test_another_seed_gives_another_city():
    assert story(City(seed=7, people=10)) != story(City(seed=8, people=10))


def test_more_people_change_neither_the_shelters_nor_the_reports():
    few, many = City(seed=3, people=1), City(seed=3, people=50)
    for city in (few, many):
        city.move(10)
    assert few.shelters() == many.shelters()
    assert [few.report(NOON) for _ in range(20)] == [many.report(NOON) for _ in range(20)]


def test_there_are_two_hundred_shelters_with_different_ids():
    assert len({shelter["shelter_id"] for shelter in City().shelters()}) == 200


def test_reports_are_between_200_and_700_bytes():
    city = City(seed=5, people=0)
    sizes = [len(msgspec.json.encode(city.report(NOON))) for _ in range(2000)]
    assert min(sizes) >= 200
    assert max(sizes) <= 700


def test_reports_are_numbered_and_of_every_kind():
    city = City(seed=5, people=0)
    reports = [city.report(NOON) for _ in range(500)]
    assert len({report["report_id"] for report in reports}) == 500
    assert {report["kind"] for report in reports} == set(KINDS)
    assert len(KINDS) == 8


def test_a_report_names_the_district_it_lies_in():
    city = City(seed=5, people=0)
    for _ in range(100):
        city.move(30)
        report = city.report(NOON)
        assert report["location"] == district(Point(report["lat"], report["lon"]))
        assert report["location"] in DISTRICTS


def test_people_move_at_most_as_far_as_their_speed_allows():
    city = City(seed=2, people=30)
    before = {row["user_id"]: Point(row["lat"], row["lon"]) for row in city.locations(NOON)}
    city.move(10)
    after = {row["user_id"]: Point(row["lat"], row["lon"]) for row in city.locations(NOON)}
    assert before.keys() == after.keys() == set(city.users)
    moved = [metres(before[user], after[user]) for user in before]
    assert max(moved) <= 121
    assert min(moved) > 0


def test_nobody_leaves_the_city():
    city = City(seed=2, people=20)
    for _ in range(50):
        city.move(600)
        for row in city.locations(NOON):
            assert SOUTH_WEST[0] <= row["lat"] <= NORTH_EAST[0]
            assert SOUTH_WEST[1] <= row["lon"] <= NORTH_EAST[1]


def test_times_are_written_in_utc():
    assert timestamp(0.25) == "1970-01-01T00:00:00.250Z"


def test_ndjson_has_one_record_a_line():
    lines = ndjson([{"a": 1}, {"a": 2}]).splitlines()
    assert [msgspec.json.decode(line) for line in lines] == [{"a": 1}, {"a": 2}]


@pytest.mark.parametrize("wrong", [{"people": -1}, {"shelters": -1}])
def test_negative_numbers_are_refused(wrong):
    with pytest.raises(ValueError, match="negative"):
        City(**wrong)
