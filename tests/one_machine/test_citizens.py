"""What a city answers before anything but itself is there: its people are known, though nobody has connected yet."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from hamlet import options

from tocsin.demo.city_api import CityApp
from tocsin.demo.loop import DemoLoop
from tocsin.demo.replay_buffer import HEAD, ReplayBuffer
from tocsin.local import CityOptions
from tocsin.local.supervisor import Supervisor

PEOPLE = 60


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> CityApp:
    home = tmp_path_factory.mktemp("before")
    city = CityOptions(seed=3, subscribers=PEOPLE)
    parts = Supervisor(options(home, city=city), Path(home), "", lambda news: None, lambda pid: None)
    life = DemoLoop(city, parts, lambda news: None)
    life.build()
    return CityApp(life)


def get(app: CityApp, path: str, **params: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://town", timeout=60) as client:
            return await client.get(path, params=params)

    return asyncio.run(ask())


def found(app: CityApp, who: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = get(app, "/find", who=who).json()["found"]
    return answer


def test_a_person_is_known_before_anybody_has_connected(app: CityApp) -> None:
    answer = get(app, "/people/7")
    person = answer.json()
    assert answer.status_code == 200
    assert person["number"] == 7 and person["id"] == "user-00007" and person["district"] in app.life.city.districts
    assert person["broker"] is None and person["notifications"] == [] and person["subscriptions"]


def test_people_are_found_by_number(app: CityApp) -> None:
    assert [each["number"] for each in found(app, "42")] == [42]
    assert found(app, "60") == [] and found(app, "99999999999999") == []


def test_people_are_found_by_name(app: CityApp) -> None:
    name = app.life.city.people.name(31)
    first, last = name.split()
    assert [each["number"] for each in found(app, name)] == [31]
    assert 31 in [each["number"] for each in found(app, f"  {last.upper()}")]
    everyone = found(app, first)
    assert 31 in [each["number"] for each in everyone] and all(first in each["name"] for each in everyone)


def test_people_are_found_by_where_they_are(app: CityApp) -> None:
    city = app.life.city
    busiest = city.districts[int(max(city.whereabouts().tolist(), key=city.whereabouts().tolist().count))]
    there = found(app, busiest[:6])
    assert there and all(each["district"] == busiest for each in there)


def test_no_more_are_told_of_than_one_looks_at(app: CityApp) -> None:
    assert len(found(app, "e")) == 8


@pytest.mark.parametrize("query", ["", "?who=", "?who=" + "x" * 61, "?name=Ada"])
def test_a_search_for_nothing_is_refused(app: CityApp, query: str) -> None:
    answer = get(app, f"/find{query}")
    assert answer.status_code == 400 and isinstance(answer.json()["error"], str)


def test_names_do_not_come_twice_among_a_thousand(app: CityApp) -> None:
    assert len({app.life.city.people.name(number) for number in range(1_000)}) == 1_000


def test_the_past_is_empty_at_first(app: CityApp) -> None:
    answer = get(app, "/people/past")
    assert answer.status_code == 200 and answer.content == b""


def test_the_past_is_kept_from_its_beginning_and_thinned_where_it_is_old() -> None:
    past = ReplayBuffer(most=1_000)
    for second in range(400):
        past.saw(float(second), b"%010d" % second)
    kept, text = [], past.moments()
    while text:
        at, size = HEAD.unpack_from(text)
        assert text[HEAD.size : HEAD.size + size] == b"%010d" % at
        kept.append(at)
        text = text[HEAD.size + size :]
    assert len(kept) <= 100 and kept[0] == 0.0 and kept[-1] == 399.0 and kept == sorted(kept)
    assert kept[-1] - kept[-2] < kept[1] - kept[0], "the newest are the closest"


def test_events_of_the_past_come_in_their_order() -> None:
    past = ReplayBuffer()
    past.heard("latency", {"at": 2.0})
    past.heard("emergency", {"at": 1.0})
    past.heard("latency", {"at": 3.0})
    assert [(event, data["at"]) for event, data in past.events()] == [
        ("emergency", 1.0),
        ("latency", 2.0),
        ("latency", 3.0),
    ]
