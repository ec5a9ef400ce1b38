"""A city in a town without Spark: people with real clients, a coordinator, brokers; only channels never run."""

from __future__ import annotations

import json
import os
import signal
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hamlet import options

from tocsin.demo.city.ground import BOUNDS
from tocsin.demo.loop import least_move
from tocsin.errors import UserError
from tocsin.local import CityOptions, LocalDeployment
from tocsin.local.supervisor import News

PEOPLE = 24
HEARD: list[News] = []


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalDeployment]:
    city = CityOptions(seed=3, subscribers=PEOPLE, speed=24)
    with pytest.MonkeyPatch.context() as patch:
        # Spark is not up before the application has been made.
        patch.setenv("QUIET_SPARK", "after 10")
        with LocalDeployment(
            options(tmp_path_factory.mktemp("life"), brokers=2, placement="nearest", city=city), HEARD.append
        ) as found:
            yield found


def test_the_application_is_made_and_people_come_while_spark_starts(town: LocalDeployment) -> None:
    """This Spark waits for all channels: a town that waited for Spark first would not be there."""
    assert {"application", "people", "Spark"} <= {each.part for each in HEARD if each.kind == "up"}


def get(town: LocalDeployment, path: str, **more: Any) -> httpx.Response:
    return httpx.get(town.url + path, timeout=60, **more)


def people(town: LocalDeployment, after: int = 0) -> tuple[int, list[tuple[int, int, int, int]]]:
    body = get(town, "/people", params={"after": after}).content
    tick, count = struct.unpack("<II", body[:8])
    assert len(body) == 8 + 6 * count
    return tick, list(struct.iter_unpack("<HHBB", body[8:]))


def when(
    town: LocalDeployment, said: Callable[[list[tuple[int, int, int, int]]], bool]
) -> list[tuple[int, int, int, int]]:
    """What the people look like once it is so: each answer waits for the next tick."""
    tick = 0
    while True:
        tick, found = people(town, tick)
        if said(found):
            return found


def events(town: LocalDeployment, path: str) -> Iterator[tuple[str, Any]]:
    with httpx.stream("GET", town.url + path, timeout=60) as answer:
        event = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                yield event, json.loads(line[6:])


def test_facts(town: LocalDeployment) -> None:
    found = get(town, "/facts").json()
    assert found["city"] and found["seed"] == 3 and found["speed"] == 24 and found["subscribers"] == PEOPLE
    assert set(found["can"]) == {"add", "kill", "flood"} and found["brokers"][:2] == ["broker-1", "broker-2"]


def test_the_map(town: LocalDeployment) -> None:
    found = get(town, "/map").json()
    assert found["bounds"] == BOUNDS._asdict() and len(found["shelters"]) == 200 and len(found["districts"]) == 16


def test_everybody_logs_in_and_moves_and_their_locations_are_published(town: LocalDeployment) -> None:
    before = when(town, lambda found: all(each[2] < 2 and not each[3] & 4 for each in found))
    after = when(town, lambda found: sum(a[:2] != b[:2] for a, b in zip(found, before, strict=True)) > PEOPLE / 3)
    assert len(after) == PEOPLE
    while town.life.tally.sums["locations"] < PEOPLE or town.life.tally.sums["reports"] < 20:
        people(town, town.life.tick)
    topology = httpx.get(town.coordinator + "/topology", timeout=60).json()
    assert sum(each["subscribers"] for each in topology["brokers"]) >= PEOPLE


def test_everybody_subscribes_to_what_their_plan_says(town: LocalDeployment) -> None:
    wanted = sum(len(plan.wishes) for plan in town.life.plans)
    while town.life.tally.sums["confirmed"] < wanted:
        people(town, town.life.tick)
    assert town.life.tally.sums["confirmed"] == wanted


def test_one_person(town: LocalDeployment) -> None:
    found = get(town, "/people/5").json()
    assert found["id"] == "user-00005" and found["notifications"] == []
    assert BOUNDS.south <= found["lat"] <= BOUNDS.north and BOUNDS.west <= found["lon"] <= BOUNDS.east
    assert found["subscriptions"] and all(set(each) == {"channel", "params"} for each in found["subscriptions"])


def test_a_flood_is_told_to_those_who_watch(town: LocalDeployment) -> None:
    watching = events(town, "/stream")
    assert next(watching)[0] == "brokers"
    answer = httpx.post(town.url + "/flood", json={"district": "Tannery"}, timeout=60)
    assert answer.status_code == 202
    flood = answer.json()
    assert (flood["kind"], flood["severity"], flood["phase"], flood["district"]) == ("flood", 5, "new", "Tannery")
    wanted = {"latency", "spreading"}
    for event, data in watching:
        wanted.discard(event)
        if event == "emergency" and data["id"] == flood["id"]:
            wanted.discard(data["phase"])
        if not wanted:
            break
    assert not wanted


def test_those_of_a_killed_broker_come_to_another_and_their_phone_says_so(town: LocalDeployment) -> None:
    name = town.add_broker()
    assert name == "broker-3"
    assert any(event == "brokers" and name in data["brokers"] for event, data in events(town, "/stream"))
    found = when(town, lambda found: any(each[2] == 0 for each in found))
    one = next(n for n, each in enumerate(found) if each[2] == 0)
    with httpx.stream("GET", f"{town.url}/people/{one}/phone", timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": here"
        town.kill_broker("broker-1")
        moved = []
        for line in lines:
            if line.startswith("data: "):
                moved.append(json.loads(line[6:]))
                if moved[-1]["to"]:
                    break
    assert moved[0]["from"] == "broker-1" and moved[-1]["to"] in ("broker-2", "broker-3")
    when(town, lambda found: all(each[2] in (1, 2) for each in found))


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/people/24", None, 404),
        ("GET", "/people/-1", None, 404),
        ("GET", "/people/nobody", None, 404),
        ("GET", "/people/99999999999999999999", None, 404),
        ("GET", "/people/24/phone", None, 404),
        ("GET", "/people?after=soon", None, 400),
        ("GET", "/people?before=1", None, 400),
        ("POST", "/flood", b'{"district": "Atlantis"}', 404),
        ("POST", "/flood", b'{"place": "Tannery"}', 400),
        ("POST", "/flood", b'{"district": 7}', 400),
        ("POST", "/flood", b"water", 400),
        ("POST", "/flood", b"", 400),
        ("POST", "/flood", b'{"district": "' + b"x" * 20_000 + b'"}', 413),
    ],
)
def test_what_is_refused(town: LocalDeployment, method: str, path: str, body: bytes | None, status: int) -> None:
    headers = {"content-type": "application/json"} if body is not None else {}
    answer = httpx.request(method, town.url + path, content=body, headers=headers, timeout=60)
    assert answer.status_code == status and isinstance(answer.json()["error"], str)


def test_a_page_of_another_site_raises_no_flood(town: LocalDeployment) -> None:
    headers = {"origin": "http://elsewhere.example", "content-type": "application/json"}
    assert (
        httpx.post(town.url + "/flood", content=b'{"district": "Tannery"}', headers=headers, timeout=60).status_code
        == 403
    )


def test_the_summary_counts(town: LocalDeployment) -> None:
    began = time.monotonic()
    facts = town.run(0.1)
    assert time.monotonic() - began >= 0.1
    assert facts["people_connected"] == PEOPLE and facts["notifications"] == facts["people_reached"] == 0
    assert facts["latency_ms"]["count"] == 0 and facts["first_notification_seconds"] is None
    assert facts["cov"] is None, "there was no load to be out of balance"
    assert {each["channel"] for each in facts["channels"]} >= set(town.life.channels)


def test_a_process_of_clients_that_ends_is_told_and_its_people_are_shown_as_gone(town: LocalDeployment) -> None:
    os.kill(town.parts.parts["clients 1"].pid, signal.SIGKILL)
    when(town, lambda found: all(each[2] == 255 and each[3] & 4 for each in found))
    assert any(news.kind == "note" and "clients" in news.text for news in HEARD)
    assert get(town, "/people/3").json()["notifications"] == []
    assert town.summary()["people_connected"] == 0


@pytest.mark.parametrize(
    ("people", "speed", "wanted", "metres"),
    [(400, 10, -1, 0), (2_000, 10, -1, 0), (5_000, 2, -1, 100), (20_000, 1, -1, 100), (20_000, 1, 0, 0), (9, 1, 7, 7)],
)
def test_many_people_publish_their_location_less_often(people: int, speed: float, wanted: float, metres: float) -> None:
    assert least_move(CityOptions(subscribers=people, speed=speed, least_move=wanted)) == metres


def test_a_town_without_a_city_has_no_life(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no city"):
        _ = LocalDeployment(options(tmp_path)).life
