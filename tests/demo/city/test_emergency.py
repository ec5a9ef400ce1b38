"""The seven channels of ``examples/emergency.sql`` against the same queries in plain Python."""

from __future__ import annotations

import math
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from location_records import NOON, locations
from tiny_broker import Delivery, FESubscription, TinyBroker

from served import served
from tocsin.demo.application import channels, script
from tocsin.demo.city import City
from tocsin.demo.city.interests import plans
from tocsin.demo.city.reports import ndjson

CHANNELS = channels()
#: A user whose report comes last: once it is delivered, so is everything before it.
SENTINEL = {"kind": "end", "location": "End", "user": "sentinel"}
Place = dict[str, Any]


def metres(a: Place, b: Place) -> float:
    """Haversine."""
    north, east = math.radians(b["lat"] - a["lat"]), math.radians(b["lon"] - a["lon"])
    both = math.cos(math.radians(a["lat"])) * math.cos(math.radians(b["lat"]))
    return 2 * 6_371_008.8 * math.asin(math.sqrt(math.sin(north / 2) ** 2 + both * math.sin(east / 2) ** 2))


class EmergencyRun:
    """Runs the application in rounds, between which people move, and computes the expected results itself.

    There are no shelters in the first round.
    """

    def __init__(self, client: httpx.Client, folder: Path) -> None:
        self.client = client
        self.city = City(seed=11, people=40)
        self.folder = folder
        self.shelters: list[dict[str, Any]] = []
        self.expected: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = defaultdict(list)
        self.found: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = defaultdict(list)
        self.closest = math.inf
        self._ended: set[tuple[str, str]] = set()
        self._change = threading.Condition()
        self._sql(script(20))
        self.broker = TinyBroker(client, self._deliver)
        self.broker.start()
        planned = zip(self.city.users, plans(11, self.city.users, CHANNELS, self.city.districts), strict=True)
        self.subscriptions = [
            FESubscription(user, each.channel, each.args) for user, plan in planned for each in plan.interests
        ]
        sentinels = [
            FESubscription("sentinel", name, tuple(SENTINEL[each] for each in names))
            for name, names in CHANNELS.items()
        ]
        self.broker.subscribe([*self.subscriptions, *sentinels])

    def open_shelters(self) -> None:
        self.shelters = self.city.shelters
        (self.folder / "shelters.json").write_bytes(ndjson(self.shelters))
        self._sql(f"LOAD DATASET Shelters FROM '{self.folder / 'shelters.json'}' FORMAT json")

    def round(self, number: int) -> None:
        self.city.advance(300)
        users = [
            *locations(self.city),
            {"user_id": "sentinel", "lat": 0.0, "lon": 0.0, "time": NOON},
        ]
        self._post("UserLocationFeed", users)
        for _ in range(3):
            reports = [each | {"time": NOON} for each in self.city.advance(60)[::3]]
            self._post("EmergencyReportFeed", reports)
            self._expect(reports, {user["user_id"]: user for user in users})
        last = f"end-{number}"
        self._post("EmergencyReportFeed", [{"report_id": last, **_without(SENTINEL, "user"), "lat": 0.0, "lon": 0.0}])
        with self._change:
            assert self._change.wait_for(lambda: {(name, last) for name in CHANNELS} <= self._ended, timeout=600)

    def _expect(self, reports: list[dict[str, Any]], users: dict[str, Place]) -> None:
        # A subscription that several people share is delivered once to all of them.
        for channel, args in {(each.channel, each.args) for each in self.subscriptions}:
            parameters = dict(zip(CHANNELS[channel], args, strict=True))
            for report in reports:
                if parameters.get("kind", "any") not in ("any", report["kind"]):
                    continue
                if parameters.get("location", report["location"]) != report["location"]:
                    continue
                found = dict(report)
                if "user" in parameters:
                    found["metres"] = metres(report, users[parameters["user"]])
                    self.closest = min(self.closest, abs(found["metres"] - 2000))
                    if found["metres"] > 2000:
                        continue
                if "WithShelter" in channel:
                    found["shelters"] = self._nearest(users[parameters["user"]] if "user" in parameters else report)
                self.expected[channel, args].append(found)

    def _nearest(self, place: Place) -> list[Place]:
        """The application rounds to whole metres and orders equal distances by name."""
        three = sorted(self.shelters, key=lambda shelter: metres(shelter, place))[:3]
        return sorted(three, key=lambda shelter: (math.floor(metres(shelter, place) + 0.5), shelter["name"]))

    def _deliver(self, delivery: Delivery) -> None:
        with self._change:
            for line in delivery.lines:
                if line.people == ("sentinel",):
                    self._ended |= {(delivery.channel, each["report_id"]) for each in line.results}
                else:
                    self.found[delivery.channel, line.args] += line.results
            self._change.notify_all()

    def _sql(self, text: str) -> None:
        answer = self.client.post("/sql", content=text, headers={"content-type": "text/plain"})
        assert answer.is_success, answer.text

    def _post(self, feed: str, records: list[dict[str, Any]]) -> None:
        headers = {"content-type": "application/x-ndjson"}
        answer = self.client.post(f"/feeds/{feed}", content=ndjson(records), headers=headers)
        assert answer.json()["accepted"] == len(records), answer.text


def _without(values: dict[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in values.items() if key != name}


@pytest.fixture(scope="module")
def emergency(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmergencyRun]:
    folder = tmp_path_factory.mktemp("emergency")
    with served(folder) as address, httpx.Client(base_url=address, timeout=600) as client:
        emergency = EmergencyRun(client, folder)
        try:
            emergency.round(1)
            emergency.open_shelters()
            emergency.round(2)
        finally:
            emergency.broker.stop()
        yield emergency


def of(channel: str, answers: dict[tuple[str, tuple[str, ...]], list[Any]]) -> dict[tuple[str, ...], list[Any]]:
    """The results by arguments, in the order of the reports."""
    mine = {args: found for (name, args), found in answers.items() if name == channel and found}
    return {args: sorted(found, key=lambda each: each["report_id"]) for args, found in mine.items()}


def test_the_sample_covers_every_channel_without_rounding_doubts(emergency):
    """No report is so close to two kilometres that rounding decides, and every channel has results."""
    assert emergency.closest > 0.01
    assert {channel for channel, _ in emergency.expected} == set(CHANNELS)
    for channel in (name for name in CHANNELS if "WithShelter" in name):
        rows = [row for (name, _), found in emergency.expected.items() if name == channel for row in found]
        assert {len(row["shelters"]) for row in rows} == {0, 3}


@pytest.mark.parametrize("channel", CHANNELS)
def test_everyone_receives_exactly_their_reports_once(emergency, channel):
    found, expected = of(channel, emergency.found), of(channel, emergency.expected)
    ids = [{args: [each["report_id"] for each in rows] for args, rows in side.items()} for side in (found, expected)]
    assert ids[0] == ids[1]


@pytest.mark.parametrize("channel", CHANNELS)
def test_reports_arrive_as_they_were_sent(emergency, channel):
    found, expected = of(channel, emergency.found), of(channel, emergency.expected)
    for args, rows in expected.items():
        for got, sent in zip(found[args], rows, strict=True):
            for name in ("kind", "location", "lat", "lon", "severity", "message", "time"):
                assert got[name] == sent[name]


@pytest.mark.parametrize("channel", [name for name, names in CHANNELS.items() if "user" in names])
def test_the_distance_is_measured_from_the_users_location(emergency, channel):
    found, expected = of(channel, emergency.found), of(channel, emergency.expected)
    for args, rows in expected.items():
        for got, sent in zip(found[args], rows, strict=True):
            assert got["metres"] == pytest.approx(sent["metres"], abs=0.6)


@pytest.mark.parametrize("channel", [name for name in CHANNELS if "WithShelter" in name])
def test_the_three_nearest_shelters_are_included_nearest_first(emergency, channel):
    found, expected = of(channel, emergency.found), of(channel, emergency.expected)
    for args, rows in expected.items():
        for got, sent in zip(found[args], rows, strict=True):
            assert [each["name"] for each in got["shelters"]] == [each["name"] for each in sent["shelters"]]
            for shelter, place in zip(got["shelters"], sent["shelters"], strict=True):
                assert {name: shelter[name] for name in ("location", "lat", "lon", "capacity")} == {
                    name: place[name] for name in ("location", "lat", "lon", "capacity")
                }
