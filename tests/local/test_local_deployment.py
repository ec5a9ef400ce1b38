"""A local deployment: its processes, its web server, and its clean end."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from deployment_process import DeploymentProcess, descendants, options, wait_for_end

from tocsin.errors import Conflict, NotFound, TocsinError, UserError
from tocsin.local import LocalDeployment, Options, Status, Supervisor
from tocsin.local.process import ChildProcess
from tocsin.local.supervisor import CLUSTER


class Statuses(queue.Queue[Status]):
    def until(self, kind: str) -> Status:
        while True:
            status = self.get(timeout=300)
            if status.kind == kind:
                return status


@pytest.fixture(scope="module")
def statuses() -> Statuses:
    return Statuses()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("local")


@pytest.fixture(scope="module")
def deployment(home: Path, statuses: Statuses) -> Iterator[LocalDeployment]:
    with LocalDeployment(options(home, brokers=2), statuses.put) as found:
        yield found


def states(deployment: LocalDeployment) -> dict[str, str]:
    brokers = httpx.get(deployment.coordinator + "/topology", timeout=60).json()["brokers"]
    return {each["name"]: each["state"] for each in brokers}


def test_every_process_runs_and_knows_the_others(deployment: LocalDeployment) -> None:
    assert httpx.get(deployment.cluster + "/readyz", timeout=60).status_code in (200, 503)
    assert set(states(deployment)) == {"broker-1", "broker-2"}
    for url in deployment.brokers.values():
        assert httpx.get(url + "/readyz", timeout=60).status_code == 200


def test_the_data_cluster_knows_the_users_of_the_coordinator(deployment: LocalDeployment) -> None:
    with httpx.Client(base_url=deployment.coordinator, timeout=60) as http:
        who = {"user": "ann", "password": "correct horse battery"}
        assert http.post("/registeruser", json=who).status_code == 201
        token = http.post("/login", json=who).json()["token"]

    def status(token: str) -> int:
        headers = {"authorization": f"Bearer {token}"}
        return httpx.get(deployment.cluster + "/channels", headers=headers, timeout=60).status_code

    assert (status(token), status(token[:-9] + "forgotten")) == (200, 401)


def test_another_process_of_this_machine_is_not_a_part(deployment: LocalDeployment, home: Path) -> None:
    address = "http://127.0.0.1:9/notify"
    assert httpx.put(f"{deployment.cluster}/brokers/evil", json={"url": address}, timeout=60).status_code == 401
    body = {"broker": "evil", "url": address}
    assert httpx.post(f"{deployment.coordinator}/registerbroker", json=body, timeout=60).status_code == 401
    assert stat.S_IMODE((home / "join.secret").stat().st_mode) == 0o600


def test_every_process_has_a_log(deployment: LocalDeployment, home: Path) -> None:
    names = {path.name for path in (home / "logs").iterdir()}
    assert names >= {"data-cluster.log", "coordinator.log", "broker-1.log", "broker-2.log"}


def test_the_page_has_the_actions_of_a_local_deployment(deployment: LocalDeployment) -> None:
    page = httpx.get(deployment.url, follow_redirects=True, timeout=60)
    assert page.url == deployment.page and '<meta name="features" content="local">' in page.text
    own = httpx.get(f"{deployment.coordinator}/ui/", timeout=60)
    assert '<meta name="features" content="">' in own.text, "the coordinator cannot start or kill processes"


def test_other_requests_are_forwarded_to_the_coordinator(deployment: LocalDeployment) -> None:
    assert httpx.get(f"{deployment.url}/topology", timeout=60).json()["brokers"]
    drained = httpx.post(f"{deployment.url}/brokers/broker-2/drain", timeout=60)
    assert drained.status_code == 200 and states(deployment)["broker-2"] == "draining"
    assert httpx.post(f"{deployment.url}/brokers/broker-2/undrain", timeout=60).status_code == 200
    with httpx.stream("GET", f"{deployment.url}/events?backlog=10", timeout=60) as events:
        assert events.headers["content-type"].startswith("text/event-stream")
        assert any(line == "event: topology" for line in events.iter_lines())


def test_a_process_that_ends_by_itself_is_restarted_at_its_address(
    deployment: LocalDeployment, statuses: Statuses
) -> None:
    before = deployment.brokers["broker-1"]
    os.kill(deployment.supervisor.processes["broker-1"].pid, signal.SIGKILL)
    assert statuses.until("ended").subject == "broker-1"
    assert statuses.until("again").subject == "broker-1"
    assert deployment.brokers["broker-1"] == before
    assert httpx.get(before + "/healthz", timeout=60).status_code == 200


def test_the_coordinator_is_restarted_too(deployment: LocalDeployment, statuses: Statuses) -> None:
    os.kill(deployment.supervisor.processes["coordinator"].pid, signal.SIGKILL)
    assert statuses.until("again").subject == "coordinator"
    assert httpx.get(deployment.coordinator + "/healthz", timeout=60).status_code == 200


def test_a_broker_is_added_and_killed_over_http_and_stays_dead(deployment: LocalDeployment, statuses: Statuses) -> None:
    answer = httpx.post(deployment.url + "/local/brokers", timeout=60)
    name = answer.json()["broker"]
    assert answer.status_code == 201 and name in deployment.brokers
    assert name in deployment.supervisor.brokers
    pid = deployment.supervisor.processes[name].pid
    assert httpx.post(f"{deployment.url}/local/brokers/{name}/kill", timeout=60).status_code == 200
    wait_for_end({pid})
    assert statuses.until("killed").subject == name
    assert name not in deployment.brokers
    assert name in deployment.supervisor.brokers, "a name always means the same broker"
    assert httpx.post(f"{deployment.url}/local/brokers/{name}/kill", timeout=60).status_code == 409
    with pytest.raises(Conflict):
        deployment.kill_broker(name)


def test_a_strange_broker_cannot_join(deployment: LocalDeployment) -> None:
    body = {"broker": "evil", "url": "http://evil", "capacity": 1e9}
    assert httpx.post(f"{deployment.coordinator}/registerbroker", json=body, timeout=60).status_code == 401
    body = {"url": "http://127.0.0.1:9/notify"}
    assert httpx.put(f"{deployment.cluster}/brokers/evil", json=body, timeout=60).status_code == 401
    assert "evil" not in states(deployment)


OTHER_SITE, REBOUND = {"origin": "http://elsewhere.example"}, {"host": "elsewhere.example"}


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("POST", "/local/brokers/unknown/kill", {}, 404),
        ("POST", "/local/brokers/data%20cluster/kill", {}, 404),
        ("POST", "/local/brokers", OTHER_SITE, 403),
        ("POST", "/local/brokers/broker-1/kill", OTHER_SITE, 403),
        ("POST", "/local/brokers/broker-1/kill", REBOUND, 403),
        ("POST", "/brokers/broker-1/drain", OTHER_SITE, 403),
        ("POST", "/brokers/broker-1/drain", REBOUND, 403),
        ("GET", "/topology", REBOUND, 403),
        ("GET", "/ui/", REBOUND, 403),
        ("GET", "/topology", OTHER_SITE, 403),
        ("PUT", "/placement", REBOUND, 403),
        ("DELETE", "/brokers/broker-1", OTHER_SITE, 403),
        ("GET", "/city", {}, 404),
        ("POST", "/city/floods", {}, 404),
        ("GET", "/nothing", {}, 404),
        ("GET", "/ui/nothing.js", {}, 404),
        ("GET", "/brokers/%2e%2e/topology", {}, 404),
        ("DELETE", "/local/brokers", {}, 405),
    ],
)
def test_invalid_requests_are_refused(
    deployment: LocalDeployment, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = httpx.request(method, deployment.url + path, headers=headers, timeout=60)
    assert answer.status_code == status
    assert status == 405 or answer.json()["error"]["message"]
    assert "broker-1" in deployment.brokers and states(deployment)["broker-1"] == "up"


def test_an_unreachable_coordinator_is_a_bad_gateway(deployment: LocalDeployment, statuses: Statuses) -> None:
    os.kill(deployment.supervisor.processes["coordinator"].pid, signal.SIGKILL)
    statuses.until("ended")
    answer = httpx.post(f"{deployment.url}/brokers/broker-1/drain", timeout=60)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "unreachable")
    # Only what changes nothing is repeated until the coordinator is back.
    assert httpx.get(f"{deployment.url}/topology", timeout=60).status_code == 200


def test_a_server_with_an_admin_token_requires_and_forwards_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOCSIN_COORDINATOR_ADMIN_TOKEN", "sesame")
    with LocalDeployment(options(tmp_path, host="0.0.0.0")) as deployment:
        for path in ("/local/brokers/broker-1/kill", "/brokers/broker-1/drain"):
            assert httpx.post(deployment.url + path, timeout=60).status_code == 401
        assert httpx.get(deployment.url + "/ui/", timeout=60).status_code == 200
        assert httpx.get(deployment.url + "/topology", timeout=60).status_code == 401
        headers = {"authorization": "Bearer sesame"}
        assert httpx.get(deployment.url + "/topology", headers=headers, timeout=60).status_code == 200
        for path in ("/brokers/broker-1/drain", "/local/brokers/broker-1/kill"):
            assert httpx.post(deployment.url + path, headers=headers, timeout=60).status_code == 200


def test_an_unknown_broker_cannot_be_killed(deployment: LocalDeployment) -> None:
    with pytest.raises(NotFound, match="broker-1"):
        deployment.kill_broker("west")


def test_a_home_in_use_is_refused(deployment: LocalDeployment, home: Path) -> None:
    with pytest.raises(UserError, match=f"in use by process {os.getpid()}"):
        LocalDeployment(options(home)).__enter__()


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"port {port} of 127.0.0.1 is in use"):
            LocalDeployment(options(tmp_path, port=port)).__enter__()


def test_the_error_of_a_process_that_cannot_start_is_shown(tmp_path: Path) -> None:
    before = descendants(os.getpid())
    with pytest.raises(TocsinError, match=r"coordinator: .*'nowhere'"):
        LocalDeployment(options(tmp_path, placement="nowhere")).__enter__()
    assert descendants(os.getpid()) <= before


def test_a_command_that_is_not_a_data_cluster_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TocsinError, match="data cluster did not start"):
        LocalDeployment(Options(home=str(tmp_path), cluster=("true",))).__enter__()


def test_the_error_of_a_spark_that_does_not_start_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUIET_SPARK", "never")
    before = descendants(os.getpid())
    with pytest.raises(TocsinError, match="no Spark today") as caught:
        LocalDeployment(options(tmp_path)).__enter__()
    assert "spark.log" in caught.value.hint
    assert descendants(os.getpid()) <= before


def test_stopping_does_not_wait_for_a_spark_that_is_still_starting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QUIET_SPARK", "after 1000")
    pids: list[int] = []

    async def begin_and_end() -> ChildProcess:
        supervisor = Supervisor(options(tmp_path), tmp_path, lambda status: None, pids.append)
        await supervisor.start()
        await supervisor.stop()
        return supervisor.processes[CLUSTER]

    cluster = asyncio.run(begin_and_end())
    assert cluster.code == -signal.SIGKILL
    assert len(pids) == 3
    wait_for_end(set(pids))


@pytest.mark.parametrize("brokers", [0, -1, 65])
def test_a_number_of_brokers_out_of_range_is_refused(brokers: int) -> None:
    with pytest.raises(UserError, match="1 to 64"):
        LocalDeployment(options(brokers=brokers))


def create(deployment: LocalDeployment) -> httpx.Response:
    return httpx.post(deployment.cluster + "/sql", content="CREATE DATASET Kept (a int)", timeout=60)


def test_the_same_home_keeps_its_data_and_forgets_added_brokers(tmp_path: Path) -> None:
    with LocalDeployment(options(tmp_path)) as deployment:
        deployment.add_broker()
        create(deployment).raise_for_status()
    with LocalDeployment(options(tmp_path)) as deployment:
        assert set(states(deployment)) == {"broker-1"}
        assert create(deployment).status_code == 409


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_or_file_is_left_after_any_kind_of_end(tmp_path: Path, number: signal.Signals) -> None:
    running = DeploymentProcess(tmp_path)
    while "local" not in (started := running.line()):
        pass
    assert Path(started["home"]).parent == tmp_path
    processes = descendants(running.process.pid)
    assert len(processes) >= 4
    running.process.send_signal(number)
    assert running.process.wait() == (0 if number is not signal.SIGKILL else -9)
    wait_for_end(processes)
    assert list(tmp_path.iterdir()) == []


def test_no_process_or_file_is_left_after_an_interrupted_start(tmp_path: Path) -> None:
    running = DeploymentProcess(tmp_path)
    assert running.line()["kind"] == "starting"
    processes = descendants(running.process.pid)
    running.process.send_signal(signal.SIGINT)
    while running.line()["kind"] != "stopping":
        pass  # shown at once: stopping may take a while
    assert running.process.wait() == 0
    wait_for_end(processes)
    assert list(tmp_path.iterdir()) == []
