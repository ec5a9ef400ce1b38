from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hamlet import Hamlet, descendants, options, wait_for_end

from tocsin.errors import Conflict, NotFound, TocsinError, UserError
from tocsin.local import CityOptions, LocalDeployment, Options
from tocsin.local.process import PartProcess
from tocsin.local.supervisor import CLUSTER, News, Supervisor


class Heard(queue.Queue[News]):
    def until(self, kind: str) -> News:
        while True:
            news = self.get(timeout=300)
            if news.kind == kind:
                return news


@pytest.fixture(scope="module")
def heard() -> Heard:
    return Heard()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("town")


@pytest.fixture(scope="module")
def town(home: Path, heard: Heard) -> Iterator[LocalDeployment]:
    with LocalDeployment(options(home, brokers=2), heard.put) as found:
        yield found


def states(town: LocalDeployment) -> dict[str, str]:
    return {
        each["name"]: each["state"] for each in httpx.get(town.coordinator + "/topology", timeout=60).json()["brokers"]
    }


def facts(town: LocalDeployment) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(town.url + "/facts", timeout=60).json()
    return found


def test_every_part_runs_and_knows_the_others(town: LocalDeployment) -> None:
    assert httpx.get(town.cluster + "/readyz", timeout=60).status_code in (200, 503)
    assert set(states(town)) == {"broker-1", "broker-2"}
    for url in town.brokers.values():
        assert httpx.get(url + "/readyz", timeout=60).status_code == 200


def test_every_part_has_a_log(town: LocalDeployment, home: Path) -> None:
    names = {path.name for path in (home / "logs").iterdir()}
    assert names >= {"data-cluster.log", "coordinator.log", "broker-1.log", "broker-2.log"}


def test_a_town_without_a_city_says_so(town: LocalDeployment) -> None:
    found = facts(town)
    assert (found["city"], found["can"], found["subscribers"]) == (False, ["add", "kill"], 0)
    assert found["brokers"][:2] == ["broker-1", "broker-2"]
    for path in ("/map", "/people", "/stream"):
        answer = httpx.get(town.url + path, timeout=60)
        assert answer.status_code == 404 and "no city" in answer.json()["error"]


def test_a_part_that_ends_by_itself_is_started_again_at_its_address(town: LocalDeployment, heard: Heard) -> None:
    before = town.brokers["broker-1"]
    os.kill(town.parts.parts["broker-1"].pid, signal.SIGKILL)
    assert heard.until("ended").part == "broker-1"
    assert heard.until("again").part == "broker-1"
    assert town.brokers["broker-1"] == before
    assert httpx.get(before + "/healthz", timeout=60).status_code == 200


def test_the_coordinator_too(town: LocalDeployment, heard: Heard) -> None:
    os.kill(town.parts.parts["coordinator"].pid, signal.SIGKILL)
    assert heard.until("again").part == "coordinator"
    assert httpx.get(town.coordinator + "/healthz", timeout=60).status_code == 200


def test_a_broker_is_added_and_killed_over_http_and_stays_dead(town: LocalDeployment, heard: Heard) -> None:
    answer = httpx.post(town.url + "/brokers", timeout=60)
    name = answer.json()["broker"]
    assert answer.status_code == 201 and name in town.brokers
    assert name in facts(town)["brokers"]
    pid = town.parts.parts[name].pid
    assert httpx.post(f"{town.url}/brokers/{name}/kill", timeout=60).status_code == 200
    wait_for_end({pid})
    assert heard.until("killed").part == name
    assert name not in town.brokers
    assert name in facts(town)["brokers"], "a number stays its broker's"
    assert httpx.post(f"{town.url}/brokers/{name}/kill", timeout=60).status_code == 409
    with pytest.raises(Conflict):
        town.kill_broker(name)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/brokers/nobody/kill", {}, 404),
        ("POST", "/brokers/data%20cluster/kill", {}, 404),
        ("POST", "/brokers", {"origin": "http://elsewhere.example"}, 403),
        ("POST", "/brokers/broker-1/kill", {"origin": "http://elsewhere.example"}, 403),
        ("POST", "/flood", {}, 404),
        ("GET", "/nothing", {}, 404),
        ("DELETE", "/brokers", {}, 405),
    ],
)
def test_what_is_refused(town: LocalDeployment, method: str, path: str, headers: dict[str, str], status: int) -> None:
    answer = httpx.request(method, town.url + path, headers=headers, timeout=60)
    assert answer.status_code == status
    if status != 405:
        assert isinstance(answer.json()["error"], str)
    assert "broker-1" in town.brokers


def test_a_name_nobody_has(town: LocalDeployment) -> None:
    with pytest.raises(NotFound, match="broker-1"):
        town.kill_broker("west")


def test_a_home_in_use(town: LocalDeployment, home: Path) -> None:
    with pytest.raises(UserError, match=f"in use by process {os.getpid()}"):
        LocalDeployment(options(home)).__enter__()


def test_a_port_in_use(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} of 127.0.0.1 is in use"):
            LocalDeployment(options(tmp_path, port=port)).__enter__()


def test_a_part_that_cannot_start_says_why_in_its_own_words(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    with pytest.raises(TocsinError, match=r"coordinator: .*'nowhere'"):
        LocalDeployment(options(tmp_path, placement="nowhere")).__enter__()
    assert descendants(os.getpid()) <= before


def test_a_data_cluster_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(TocsinError, match="data cluster did not start"):
        LocalDeployment(Options(home=str(tmp_path), cluster=("true",))).__enter__()


@pytest.mark.parametrize("city", [None, CityOptions(subscribers=3)])
def test_a_spark_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, city: CityOptions | None) -> None:
    monkeypatch.setenv("QUIET_SPARK", "never")
    before = descendants(os.getpid())
    with pytest.raises(TocsinError, match="no Spark today") as caught:
        LocalDeployment(options(tmp_path, city=city)).__enter__()
    assert "spark.log" in caught.value.hint
    assert descendants(os.getpid()) <= before


def test_a_spark_that_is_still_starting_is_not_waited_for_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIET_SPARK", "after 1000")
    watched: list[int] = []

    async def begin_and_end() -> PartProcess:
        parts = Supervisor(options(tmp_path), tmp_path, "http://127.0.0.1:9", lambda news: None, watched.append)
        await parts.start()
        await parts.stop()
        return parts.parts[CLUSTER]

    cluster = asyncio.run(begin_and_end())
    assert cluster.code == -signal.SIGKILL
    assert len(watched) == 3
    wait_for_end(set(watched))


@pytest.mark.parametrize("brokers", [0, -1, 65])
def test_how_many_brokers(brokers: int) -> None:
    with pytest.raises(UserError, match="1 to 64"):
        LocalDeployment(options(brokers=brokers))


def test_the_same_home_again_goes_on_and_forgets_brokers_that_were_added(tmp_path: Path) -> None:
    with LocalDeployment(options(tmp_path)) as town:
        town.add_broker()
        httpx.post(town.cluster + "/sql", content="CREATE DATASET Kept (a int)", timeout=60).raise_for_status()
    with LocalDeployment(options(tmp_path)) as town:
        assert set(states(town)) == {"broker-1"}
        assert httpx.post(town.cluster + "/sql", content="CREATE DATASET Kept (a int)", timeout=60).status_code == 409


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_it_ends(tmp_path: Path, number: signal.Signals) -> None:
    hamlet = Hamlet(tmp_path)
    while "town" not in (said := hamlet.line()):
        pass
    assert Path(said["home"]).parent == tmp_path
    parts = descendants(hamlet.process.pid)
    assert len(parts) >= 4
    hamlet.process.send_signal(number)
    assert hamlet.process.wait() == (0 if number is not signal.SIGKILL else -9)
    wait_for_end(parts)
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_left_of_a_town_that_is_interrupted_while_it_starts(tmp_path: Path) -> None:
    hamlet = Hamlet(tmp_path)
    assert hamlet.line()["kind"] == "starting"
    parts = descendants(hamlet.process.pid)
    hamlet.process.send_signal(signal.SIGINT)
    while hamlet.line()["kind"] != "ending":
        pass  # it may take a while, and is told at once
    assert hamlet.process.wait() == 0
    wait_for_end(parts)
    assert list(tmp_path.iterdir()) == []
