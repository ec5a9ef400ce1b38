"""Each part as a process that cannot write to its disk: it says so, does nothing by half, and goes on by itself."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed

from eventually import eventually
from served import Process
from sparkless import sparkless
from tocsin.wire import close_codes

# For the helpers of the parts' tests.
sys.path += [str(Path(__file__).parent / folder) for folder in ("broker", "coordinator")]

from broker_lab import Speaker, broker
from coordinator_lab import coordinator
from rest_user import RestUser


@contextmanager
def full_disk(pid: int) -> Iterator[None]:
    """No file of the process may grow, as on a full disk."""
    limits = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, limits)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json().get("error", {}).get("code", "")


def test_a_data_cluster_answers_507_and_is_not_ready_until_there_is_room(tmp_path: Path) -> None:
    running = Process("--home", str(tmp_path / "data"), "--master", "local[1]")
    try:
        http = httpx.Client(base_url=running.event("ready")["url"], timeout=120, trust_env=False)
        script = "CREATE DATASET D (n bigint); CREATE FEED F; CONNECT FEED F TO DATASET D; START FEED F;"
        assert http.post("/sql", json={"script": script}).status_code == 200
        assert http.post("/feeds/F", json=[{"n": n} for n in range(2_000)]).json()["accepted"] == 2_000
        query: dict[str, Any] = {"json": {"sql": "SELECT count(*) AS c FROM D"}}
        with full_disk(running.process.pid):
            assert error_of(http.post("/feeds/F", json=[{"n": 1}])) == (507, "storage")
            assert error_of(http.post("/query", **query)) == (507, "storage")
            refused = eventually(lambda: http.get("/readyz"), lambda found: found.status_code == 503)
            assert "write to the segment path" in refused.json()["error"]["message"]
            assert http.get("/healthz").status_code == 200
        eventually(lambda: http.get("/readyz"), lambda found: found.status_code == 200)
        assert http.post("/feeds/F", json=[{"n": 1}]).json()["accepted"] == 1
        assert "2001" in http.post("/query", **query).text
    finally:
        code = running.end()
    assert code == 0, running.errors()


def test_a_token_that_cannot_be_checked_asks_the_client_to_reconnect(tmp_path: Path) -> None:
    with sparkless(tmp_path / "data") as (_, url), broker(tmp_path / "b", url) as running:
        user = RestUser(running.url)
        with full_disk(running.process.pid):
            speaker = Speaker(running.url, hello=False)
            speaker.send({"type": "hello", "id": 1, "token": user.token})
            with pytest.raises(ConnectionClosed) as closed:
                speaker.next()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == close_codes.UNVERIFIED.code
            assert close_codes.reconnect(closed.value.rcvd.code)
            found = user.http.get("/readyz")
            assert found.status_code == 503 and "users" in found.json()["users"]
        speaker = Speaker(running.url, token=user.token)
        assert speaker.welcome["user"]
        assert user.http.get("/readyz").status_code == 200
        speaker.close()


def test_a_drain_that_could_not_be_stored_has_not_happened(tmp_path: Path) -> None:
    with coordinator(tmp_path / "coordinator") as running, httpx.Client(base_url=running.url, timeout=60) as http:
        facts = http.post("/registerbroker", json={"broker": "a", "url": "http://a"}).json()
        headers = {"authorization": f"Bearer {facts['token']}"}
        assert http.post("/brokers/a/report", json={"number": 1, "full": True}, headers=headers).status_code == 200

        def state() -> str:
            (row,) = http.get("/topology").json()["brokers"]
            return str(row["state"])

        with full_disk(running.process.pid):
            assert error_of(http.post("/brokers/a/drain")) == (507, "storage")
            assert state() == "up"
            refused = http.get("/readyz")
            assert refused.status_code == 503 and "the store cannot be written" in json.dumps(refused.json())
            assert http.get("/healthz").status_code == 200
        assert http.get("/readyz").status_code == 200
        assert http.post("/brokers/a/drain").status_code == 200 and state() == "draining"
