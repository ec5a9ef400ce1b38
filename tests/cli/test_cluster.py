"""``tocsin cluster`` as a process: how it starts, and how it stops."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from served import Process, tocsin

SCRIPT = "CREATE DATASET d (a int); CREATE FEED f; CONNECT FEED f TO DATASET d; START FEED f"


@contextmanager
def started(folder: Path) -> Iterator[Process]:
    running = Process("--home", str(folder / "home"), "--master", "local[1]", "--ready-file", str(folder / "ready"))
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


@pytest.fixture
def process(tmp_path) -> Iterator[Process]:
    with started(tmp_path) as running:
        yield running


def error(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def stop(process: Process, number: signal.Signals = signal.SIGTERM) -> None:
    process.process.send_signal(number)
    process.event("stopped")
    assert process.process.wait(120) == 0
    assert process.errors() == ""


def test_records_are_accepted_before_queries_can_run(process, tmp_path):
    url = process.event("listening")["url"]
    with httpx.Client(base_url=url, timeout=100) as client:
        assert error(client.get("/readyz")) == (503, "not_ready")
        assert error(client.post("/query", content="SELECT 1")) == (503, "not_ready")
        assert client.get("/healthz").status_code == 200
        assert not (tmp_path / "ready").exists()
        process.event("ready")
        assert json.loads((tmp_path / "ready").read_text())["url"] == url
        assert client.get("/readyz").status_code == 200
        client.post("/sql", content=SCRIPT).raise_for_status()
    stop(process)
    assert not (tmp_path / "ready").exists()
    with started(tmp_path) as again:
        url = again.event("listening")["url"]
        assert httpx.post(url + "/feeds/f", json={"a": 1}, timeout=120).json()["accepted"] == 1
        assert error(httpx.get(url + "/readyz", timeout=120)) == (503, "not_ready")
        stop(again)  # while Spark starts


def test_a_second_data_cluster_on_the_same_home_is_refused_and_ctrl_c_stops_the_first_while_spark_starts(
    process, tmp_path
):
    process.event("listening")
    ran = tocsin("cluster", "--home", str(tmp_path / "home"), "--port", "0", "--json")
    assert ran.returncode == 1
    assert json.loads(ran.stderr)["error"]["code"] == "lease_held"
    stop(process, signal.SIGINT)
