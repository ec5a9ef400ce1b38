"""The city API before any client has connected, and its replay buffer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from deployment_process import options

from tocsin.coordinator.admin import Admin
from tocsin.demo import CityOptions
from tocsin.demo.city_api import CityApp
from tocsin.demo.loop import DemoLoop
from tocsin.demo.replay_buffer import HEAD, ReplayBuffer
from tocsin.http.server import bind
from tocsin.local import Supervisor

PEOPLE = 60


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> CityApp:
    home = tmp_path_factory.mktemp("before")
    city = CityOptions(seed=3, subscribers=PEOPLE)
    supervisor = Supervisor(options(home), Path(home), lambda status: None, lambda pid: None)
    loop = DemoLoop(city, lambda status: None)
    loop.build()
    with bind("127.0.0.1", 0) as sock:
        return CityApp(loop, supervisor, Admin("", sock))


def get(app: CityApp, path: str, **params: str) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as client:
            return await client.get(path, params=params)

    return asyncio.run(ask())


def found(app: CityApp, query: str) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = get(app, "/city/find", who=query).json()["found"]
    return answer


def test_a_person_is_known_before_a_client_has_connected(app: CityApp) -> None:
    answer = get(app, "/city/people/7")
    person = answer.json()
    assert answer.status_code == 200
    assert person["number"] == 7 and person["id"] == "user-00007" and person["district"] in app.loop.city.districts
    assert person["broker"] is None and person["notifications"] == [] and person["subscriptions"]


def test_people_are_found_by_number(app: CityApp) -> None:
    assert [each["number"] for each in found(app, "42")] == [42]
    assert found(app, "60") == [] and found(app, "99999999999999") == []


def test_people_are_found_by_name(app: CityApp) -> None:
    name = app.loop.city.people.name(31)
    first, last = name.split()
    assert [each["number"] for each in found(app, name)] == [31]
    assert 31 in [each["number"] for each in found(app, f"  {last.upper()}")]
    everyone = found(app, first)
    assert 31 in [each["number"] for each in everyone] and all(first in each["name"] for each in everyone)


def test_people_are_found_by_their_district(app: CityApp) -> None:
    city = app.loop.city
    busiest = city.districts[int(max(city.whereabouts().tolist(), key=city.whereabouts().tolist().count))]
    there = found(app, busiest[:6])
    assert there and all(each["district"] == busiest for each in there)


def test_at_most_eight_people_are_found(app: CityApp) -> None:
    assert len(found(app, "e")) == 8


@pytest.mark.parametrize("query", ["", "?who=", "?who=" + "x" * 61, "?name=Ada"])
def test_an_invalid_search_is_refused(app: CityApp, query: str) -> None:
    answer = get(app, f"/city/find{query}")
    assert answer.status_code == 400 and answer.json()["error"]["message"]


def test_a_thousand_people_have_different_names(app: CityApp) -> None:
    assert len({app.loop.city.people.name(number) for number in range(1_000)}) == 1_000


def test_the_replay_is_empty_at_first(app: CityApp) -> None:
    answer = get(app, "/city/people/past")
    assert answer.status_code == 200 and answer.content == b""


def test_the_replay_reaches_back_to_the_beginning_with_fewer_old_frames() -> None:
    replay = ReplayBuffer(most=1_000)
    for second in range(400):
        replay.add_frame(float(second), b"%010d" % second)
    kept, text = [], replay.frames()
    while text:
        at, size = HEAD.unpack_from(text)
        assert text[HEAD.size : HEAD.size + size] == b"%010d" % at
        kept.append(at)
        text = text[HEAD.size + size :]
    assert len(kept) <= 100 and kept[0] == 0.0 and kept[-1] == 399.0 and kept == sorted(kept)
    assert kept[-1] - kept[-2] < kept[1] - kept[0], "the newest are the closest"


def test_events_of_the_replay_are_in_the_order_of_time() -> None:
    replay = ReplayBuffer()
    replay.add_event("latency", {"at": 2.0})
    replay.add_event("emergency", {"at": 1.0})
    replay.add_event("latency", {"at": 3.0})
    assert [(event, data["at"]) for event, data in replay.events()] == [
        ("emergency", 1.0),
        ("latency", 2.0),
        ("latency", 3.0),
    ]


def test_a_demo_that_is_stopping_answers_that_it_is_busy(app: CityApp) -> None:
    app.loop.stopping = True
    try:
        assert get(app, "/city/people", after="0").status_code == 503
    finally:
        app.loop.stopping = False
