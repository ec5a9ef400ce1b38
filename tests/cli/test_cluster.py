"""``tocsin cluster`` as a process: how it starts, and how it stops."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator

import httpx
import pytest

from served import Process, tocsin


@pytest.fixture
def process(tmp_path) -> Iterator[Process]:
    running = Process("--home", str(tmp_path / "home"), "--master", "local[1]", "--ready-file", str(tmp_path / "ready"))
    yield running
    running.process.kill()
    running.process.wait()


def test_it_takes_records_before_spark_is_up_and_says_when_it_is(process, tmp_path):
    url = process.event("listening")["url"]
    assert not (tmp_path / "ready").exists()
    with httpx.Client(base_url=url, timeout=60) as client:
        early = client.get("/readyz")
        assert (early.status_code, early.json()["error"]["code"]) == (503, "not_ready")
        assert client.get("/healthz").status_code == 200
        script = "CREATE DATASET d (a int); CREATE FEED f; CONNECT FEED f TO DATASET d; START FEED f"
        client.post("/sql", content=script).raise_for_status()
        assert client.post("/feeds/f", json={"a": 1}).json()["taken"] == 1
        refused = client.post("/query", content="SELECT 1")
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "not_ready")
        process.event("ready")
        assert json.loads((tmp_path / "ready").read_text())["url"] == url
        assert client.get("/readyz").status_code == 200
        assert client.post("/query", content="SELECT * FROM d").json() == [{"a": 1}]
    process.process.send_signal(signal.SIGTERM)
    process.event("stopped")
    assert process.process.wait(60) == 0
    assert not (tmp_path / "ready").exists()
    assert process.errors() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_while_spark_starts(process, number):
    process.event("listening")
    process.process.send_signal(number)
    process.event("stopped")
    assert process.process.wait(60) == 0
    assert "Traceback" not in process.errors()


def test_a_second_one_on_the_same_home_is_refused(process, tmp_path):
    process.event("listening")
    ran = tocsin("cluster", "--home", str(tmp_path / "home"), "--port", "0", "--json")
    assert ran.returncode == 1
    assert json.loads(ran.stderr)["error"]["code"] == "lease_held"
