"""A coordinator whose store is in PostgreSQL, with a server that dies, returns, hangs or is unreachable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psycopg
import pytest
from coordinator_lab import Coordinator, coordinator

from eventually import eventually
from postgres import Server
from served import environment


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    """A server that tests may stop and crash."""
    with Server() as server:
        yield server


class StoreClient:
    """A coordinator process and a broker that reports what the test says."""

    def __init__(self, running: Coordinator) -> None:
        self.running = running
        self.token, self.number = "", 0

    def post(self, path: str, token: str = "", **body: Any) -> httpx.Response:
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return httpx.post(self.running.url + path, json=body, headers=headers, timeout=60)

    def register(self, name: str = "north") -> httpx.Response:
        return self.post("/registerbroker", broker=name, url="http://x")

    def join(self) -> None:
        self.token, self.number = self.register().json()["token"], 0
        self.report(full=True)

    def report(self, **fields: Any) -> None:
        self.number += 1
        answer = self.post("/brokers/north/report", self.token, number=self.number, **fields)
        assert answer.status_code == 200, answer.text

    def place(self) -> None:
        answer = self.post("/requestbroker", subscriber="subscriber-1".ljust(22, "-"))
        assert answer.status_code == 200 and answer.json()["broker"] == "north", answer.text

    def get(self, path: str) -> Any:
        answer = httpx.get(self.running.url + path, timeout=60)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def brokers(self) -> dict[str, str]:
        return {each["name"]: each["state"] for each in self.get("/topology")["brokers"]}

    def texts(self) -> list[str]:
        return [each["text"] for each in self.get("/balance/log")["log"]]


@pytest.fixture
def harness(own_server: Server, tmp_path: Path) -> Iterator[StoreClient]:
    with coordinator(tmp_path, store=own_server.fresh(), gone_after=600) as running:
        yield StoreClient(running)


def storage_error(answer: httpx.Response) -> dict[str, str]:
    assert answer.status_code == 507, answer.text
    error: dict[str, str] = answer.json()["error"]
    assert error["code"] == "storage"
    return error


def test_a_killed_coordinator_has_lost_nothing(harness: StoreClient) -> None:
    harness.join()
    assert harness.post("/brokers/north/drain").status_code == 200
    ann = {"user": "ann", "password": "correct horse"}
    assert harness.post("/registeruser", **ann).status_code == 201
    harness.running.kill()
    harness.running.start()
    assert harness.brokers() == {"north": "gone"}
    harness.join()
    assert harness.brokers() == {"north": "draining"}
    assert harness.post("/login", **ann).status_code == 200
    assert not (harness.running.home / "secret").exists()


def test_a_coordinator_on_another_machine_signs_with_the_same_secret(harness: StoreClient, tmp_path: Path) -> None:
    key = harness.register().json()["key"]
    harness.running.kill()
    harness.running.home = tmp_path / "another"
    harness.running.start()
    assert harness.register().json()["key"] == key


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT])
def test_the_coordinator_works_without_its_server_and_reports_the_failure(
    harness: StoreClient, own_server: Server, how: signal.Signals
) -> None:
    harness.join()
    own_server.stop(how)
    try:
        harness.place()
        harness.report(subscribers={"subscriber-1": [1]})
        for answer in (harness.register("south"), harness.post("/brokers/north/drain")):
            error = storage_error(answer)
            assert "the store cannot be reached" in error["message"]
            assert error["hint"] == "check that the server runs and that the address is right"
        for path in ("/balance/log", "/history"):
            storage_error(httpx.get(harness.running.url + path, timeout=60))
        storage_error(harness.post("/registeruser", user="ann", password="correct horse"))
        assert harness.get("/topology")["subscribers"] == 1
    finally:
        own_server.start()
    # The next write includes the changes that could not be written before.
    assert harness.post("/brokers/north/drain").status_code == 200
    assert "north" in harness.texts() and "two-choices" in harness.texts()
    harness.running.kill()
    harness.running.start()
    assert harness.brokers() == {"north": "gone"}  # the other one was refused


def test_failed_writes_are_retried_when_the_server_is_back(harness: StoreClient, own_server: Server) -> None:
    harness.join()
    url = harness.running.settings["store"]
    own_server.stop(signal.SIGQUIT)
    harness.place()
    storage_error(harness.post("/brokers/north/drain"))
    own_server.start()
    with psycopg.connect(url, autocommit=True) as server:
        eventually(lambda: server.execute(PLACED).fetchone(), lambda found: found == (1,))
        assert not row_of(server)["draining"]  # what was answered with an error has not happened


PLACED = "SELECT count(*) FROM tocsin_coordinator.log WHERE kind = 'placed'"


def row_of(server: psycopg.Connection[tuple[Any, ...]]) -> dict[str, Any]:
    rows = server.execute("SELECT row FROM tocsin_coordinator.brokers").fetchall()
    found: dict[str, Any] = json.loads(rows[0][0])
    return found


def test_a_hanging_server_delays_only_requests_that_need_it(harness: StoreClient) -> None:
    harness.join()
    url = harness.running.settings["store"]
    with psycopg.connect(url, autocommit=True) as server:
        sessions = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        pids = [pid for (pid,) in server.execute(sessions).fetchall()]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            harness.place()
            error = storage_error(harness.post("/brokers/north/drain"))
            assert "the store does not answer within" in error["message"]
            harness.report(subscribers={"subscriber-1": [1]})
            assert harness.brokers() == {"north": "up"}
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)
        eventually(lambda: server.execute(PLACED).fetchone(), lambda found: found == (1,))
        assert not row_of(server)["draining"]


def test_a_coordinator_that_lost_its_lease_refuses_and_exits(own_server: Server, tmp_path: Path) -> None:
    url = own_server.fresh()
    first = Coordinator(tmp_path / "first", store=url)
    # As if a firewall dropped the connection: the first coordinator does not notice that it lost the lease.
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'")
    with coordinator(tmp_path / "second", store=url) as second:
        with suppress(httpx.TransportError):  # it may have noticed and exited before the request
            assert StoreClient(first).register().status_code == 409
        assert first.process.wait(60) == 1
        first.killed = True
        assert StoreClient(second).register().status_code == 200


def started(home: Path, store: str) -> tuple[int, dict[str, str]]:
    """Runs a ``tocsin coordinator`` that cannot start: its exit code and its error."""
    command = [sys.executable, "-m", "tocsin.cli", "coordinator", "--json", "--port", "0", "--home", str(home)]
    env = environment(TOCSIN_COORDINATOR_STORE=store)
    ran = subprocess.run(command, capture_output=True, env=env, timeout=120)
    return ran.returncode, json.loads(ran.stderr.splitlines()[-1])["error"]


@pytest.mark.parametrize(
    "store, words",
    [
        ("postgresql://127.0.0.1:1/x", "the store cannot be reached"),
        ("postgresql://u@localhost:99999/x", "the store"),
        ("postgresql://no.such.host.invalid/x", "the store cannot be reached"),
        ("postgresql://?a=b", "the store"),
        ("mysql://localhost/x", "the store must be '' or a postgresql:// address"),
    ],
)
def test_a_wrong_address_is_a_clear_error(tmp_path: Path, store: str, words: str) -> None:
    code, error = started(tmp_path, store)
    assert code == 1 and words in error["message"]


def with_(url: str, **parts: str) -> str:
    """The address with another password or database."""
    found = urlsplit(url)
    password = parts.get("password", found.password)
    netloc = f"{found.username}:{password}@{found.hostname}:{found.port}"
    return found._replace(netloc=netloc, path=parts.get("path", found.path)).geturl()


@pytest.mark.parametrize("parts", [{"password": "hidden"}, {"path": "/no_such_database"}])
def test_a_refusal_of_the_server_is_a_clear_error(own_server: Server, tmp_path: Path, parts: dict[str, str]) -> None:
    code, error = started(tmp_path, with_(own_server.url, **parts))
    assert code == 1 and "the store" in error["message"] and "hidden" not in str(error)


def test_a_missing_permission_to_create_tables_is_reported(fresh_postgres: Callable[[], str], tmp_path: Path) -> None:
    url = fresh_postgres()
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD 'guest'")
    parts = urlsplit(url)
    code, error = started(tmp_path, parts._replace(netloc=f"guest:guest@{parts.hostname}:{parts.port}").geturl())
    assert code == 1 and "permission denied" in error["message"]


def test_a_server_of_a_newer_schema_version_is_refused(fresh_postgres: Callable[[], str], tmp_path: Path) -> None:
    url = fresh_postgres()
    with coordinator(tmp_path, store=url):
        pass
    with psycopg.connect(url, autocommit=True) as server:
        server.execute("UPDATE tocsin_coordinator.meta SET value = 99 WHERE name = 'version'")
    code, error = started(tmp_path, url)
    assert code == 1 and "the store has schema version 99" in error["message"]
