"""The demo without Spark: people with real clients, a coordinator and brokers; only channels do not run."""

from __future__ import annotations

import asyncio
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
from deployment_process import descendants, options

from tocsin.demo import CityOptions, Demo, loop
from tocsin.demo.city.ground import BOUNDS
from tocsin.errors import Busy, TocsinError
from tocsin.local import Status

PEOPLE = 24
STATUSES: list[Status] = []


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    city = CityOptions(seed=3, subscribers=PEOPLE, speed=24)
    with pytest.MonkeyPatch.context() as patch:
        # Spark is not up before the application has been created.
        patch.setenv("QUIET_SPARK", "after 10")
        local = options(tmp_path_factory.mktemp("demo"), brokers=2, placement="nearest")
        with Demo(local, city, STATUSES.append) as found:
            yield found


def test_the_application_is_created_and_people_connect_while_spark_starts(demo: Demo) -> None:
    """This Spark waits for all channels: a demo that waited for Spark first would never start."""
    assert {"application", "people", "Spark"} <= {each.subject for each in STATUSES if each.kind == "up"}


def get(demo: Demo, path: str, **more: Any) -> httpx.Response:
    return httpx.get(demo.deployment.url + path, timeout=60, **more)


def people(demo: Demo, after: int = 0) -> tuple[int, list[tuple[int, int, int, int]]]:
    body = get(demo, "/city/people", params={"after": after}).content
    tick, count = struct.unpack("<II", body[:8])
    assert len(body) == 8 + 6 * count
    return tick, list(struct.iter_unpack("<HHBB", body[8:]))


def when(demo: Demo, condition: Callable[[list[tuple[int, int, int, int]]], bool]) -> list[tuple[int, int, int, int]]:
    """The people once they meet the condition: each answer waits for the next tick."""
    tick = 0
    while True:
        tick, found = people(demo, tick)
        if condition(found):
            return found


def events(demo: Demo, path: str) -> Iterator[tuple[str, Any]]:
    with httpx.stream("GET", demo.deployment.url + path, timeout=60) as answer:
        event = ""
        for line in answer.iter_lines():
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                yield event, json.loads(line[6:])


def test_the_city_describes_itself(demo: Demo) -> None:
    found = get(demo, "/city").json()
    assert (
        found["name"] == "Tocsin Bay" and found["seed"] == 3 and found["speed"] == 24 and found["subscribers"] == PEOPLE
    )
    assert found["brokers"][:2] == ["broker-1", "broker-2"]


def test_the_map_has_districts_and_shelters(demo: Demo) -> None:
    found = get(demo, "/city/map").json()
    assert found["bounds"] == BOUNDS._asdict() and len(found["shelters"]) == 200 and len(found["districts"]) == 16


def test_everyone_logs_in_and_publishes_their_location(demo: Demo) -> None:
    before = when(demo, lambda found: all(each[2] < 2 and not each[3] & 4 for each in found))
    after = when(demo, lambda found: sum(a[:2] != b[:2] for a, b in zip(found, before, strict=True)) > PEOPLE / 3)
    assert len(after) == PEOPLE
    while demo.loop.statistics.sums["locations"] < PEOPLE or demo.loop.statistics.sums["reports"] < 20:
        people(demo, demo.loop.tick)
    topology = httpx.get(demo.deployment.coordinator + "/topology", timeout=60).json()
    assert sum(each["subscribers"] for each in topology["brokers"]) >= PEOPLE


def test_everyone_subscribes_according_to_their_plan(demo: Demo) -> None:
    expected = sum(len(plan.interests) for plan in demo.loop.plans)
    while demo.loop.statistics.sums["confirmed"] < expected:
        people(demo, demo.loop.tick)
    assert demo.loop.statistics.sums["confirmed"] == expected


def test_a_person_has_a_place_and_subscriptions(demo: Demo) -> None:
    found = get(demo, "/city/people/5").json()
    assert found["id"] == "user-00005" and found["notifications"] == []
    assert BOUNDS.south <= found["lat"] <= BOUNDS.north and BOUNDS.west <= found["lon"] <= BOUNDS.east
    assert found["subscriptions"] and all(set(each) == {"channel", "params"} for each in found["subscriptions"])


def test_a_flood_is_sent_to_the_readers_of_events(demo: Demo) -> None:
    reading = events(demo, "/city/events")
    assert next(reading)[0] == "brokers"
    answer = httpx.post(demo.deployment.url + "/city/floods", json={"district": "Tannery"}, timeout=60)
    assert answer.status_code == 202
    flood = answer.json()
    assert (flood["kind"], flood["severity"], flood["phase"], flood["district"]) == ("flood", 5, "new", "Tannery")
    expected = {"latency", "spreading"}
    for event, data in reading:
        expected.discard(event)
        if event == "emergency" and data["id"] == flood["id"]:
            expected.discard(data["phase"])
        if not expected:
            break
    assert not expected


def test_people_of_a_killed_broker_reconnect_and_their_phone_shows_it(demo: Demo) -> None:
    name = demo.deployment.add_broker()
    assert name == "broker-3"
    assert any(event == "brokers" and name in data["brokers"] for event, data in events(demo, "/city/events"))
    found = when(demo, lambda found: any(each[2] == 0 for each in found))
    one = next(n for n, each in enumerate(found) if each[2] == 0)
    with httpx.stream("GET", f"{demo.deployment.url}/city/people/{one}/phone", timeout=60) as answer:
        lines = answer.iter_lines()
        assert next(lines) == ": connected"
        demo.deployment.kill_broker("broker-1")
        migrations = []
        for line in lines:
            if line.startswith("data: "):
                migrations.append(json.loads(line[6:]))
                if migrations[-1]["to"]:
                    break
    assert migrations[0]["from"] == "broker-1" and migrations[-1]["to"] in ("broker-2", "broker-3")
    when(demo, lambda found: all(each[2] in (1, 2) for each in found))


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/city/people/24", None, 404),
        ("GET", "/city/people/-1", None, 404),
        ("GET", "/city/people/unknown", None, 404),
        ("GET", "/city/people/99999999999999999999", None, 404),
        ("GET", "/city/people/24/phone", None, 404),
        ("GET", "/city/people?after=soon", None, 400),
        ("GET", "/city/people?before=1", None, 400),
        ("POST", "/city/floods", b'{"district": "Atlantis"}', 404),
        ("POST", "/city/floods", b'{"place": "Tannery"}', 400),
        ("POST", "/city/floods", b'{"district": 7}', 400),
        ("POST", "/city/floods", b"water", 400),
        ("POST", "/city/floods", b"", 400),
        ("POST", "/city/floods", b'{"district": "' + b"x" * 20_000 + b'"}', 413),
    ],
)
def test_invalid_requests_are_refused(demo: Demo, method: str, path: str, body: bytes | None, status: int) -> None:
    headers = {"content-type": "application/json"} if body is not None else {}
    answer = httpx.request(method, demo.deployment.url + path, content=body, headers=headers, timeout=60)
    assert answer.status_code == status and answer.json()["error"]["message"]


@pytest.mark.parametrize("headers", [{"origin": "http://elsewhere.example"}, {"host": "elsewhere.example"}])
def test_a_request_from_another_site_cannot_start_a_flood(demo: Demo, headers: dict[str, str]) -> None:
    answer = httpx.post(f"{demo.deployment.url}/city/floods", json={"district": "Tannery"}, headers=headers, timeout=60)
    assert answer.status_code == 403


def test_only_the_page_of_the_demo_has_the_city_panel(demo: Demo) -> None:
    assert '<meta name="features" content="local city">' in httpx.get(demo.deployment.page, timeout=60).text
    url = demo.deployment.coordinator
    assert '<meta name="features" content="">' in httpx.get(f"{url}/ui/", timeout=60).text
    assert httpx.get(f"{url}/city", timeout=60).status_code == 404


def test_the_summary_counts_people_notifications_and_channels(demo: Demo) -> None:
    began = time.monotonic()
    facts = demo.run(0.1)
    assert time.monotonic() - began >= 0.1
    assert facts["people_connected"] == PEOPLE and facts["notifications"] == facts["people_reached"] == 0
    assert facts["latency_ms"]["count"] == 0 and facts["first_notification_seconds"] is None
    assert facts["cov"] is None, "without load there is no imbalance"
    assert {each["channel"] for each in facts["channels"]} >= set(demo.loop.channels)


def test_people_of_a_client_process_that_ended_are_shown_as_disconnected(demo: Demo) -> None:
    os.kill(demo.deployment.supervisor.processes["clients 1"].pid, signal.SIGKILL)
    when(demo, lambda found: all(each[2] == 255 and each[3] & 4 for each in found))
    assert any(status.kind == "note" and "clients" in status.text for status in STATUSES)
    assert get(demo, "/city/people/3").json()["notifications"] == []
    assert demo.summary()["people_connected"] == 0


@pytest.mark.parametrize(
    ("people", "speed", "least_move", "metres"),
    [(400, 10, -1, 0), (2_000, 10, -1, 0), (5_000, 2, -1, 100), (20_000, 1, -1, 100), (20_000, 1, 0, 0), (9, 1, 7, 7)],
)
def test_many_people_publish_their_location_less_often(
    people: int, speed: float, least_move: float, metres: float
) -> None:
    assert CityOptions(subscribers=people, speed=speed, least_move=least_move).metres_between_locations == metres


def test_the_error_of_a_spark_that_does_not_start_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIET_SPARK", "never")
    before = descendants(os.getpid())
    with pytest.raises(TocsinError, match="no Spark today"):
        Demo(options(tmp_path), CityOptions(subscribers=3)).__enter__()
    assert descendants(os.getpid()) <= before


class SilentWriter:
    """The connection to a process of clients that reads and never answers."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def test_clients_that_do_not_answer_cause_a_busy_error_and_leave_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "TIMEOUT", 0.0)

    async def ask() -> None:
        found = loop.DemoLoop(CityOptions(subscribers=2), lambda status: None)
        found._writers[0] = silent = SilentWriter()  # type: ignore[assignment]
        with pytest.raises(Busy, match="too busy"):
            await found._notifications(1)
        assert silent.written and found._asked == {}

    asyncio.run(ask())
