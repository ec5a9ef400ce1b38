"""One client tries to fill Spark with arguments: a real broker, and a data cluster with Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_lab import Speaker, broker

from served import Process

SETUP = """
CREATE ACTIVE DATASET Alarms (recipient string NOT NULL, n bigint NOT NULL);
CREATE FEED AlarmFeed; CONNECT FEED AlarmFeed TO DATASET Alarms; START FEED AlarmFeed;
CREATE CONTINUOUS CHANNEL AlarmsOf(recipient string) {
  SELECT a.n FROM Alarms a WHERE is_new(a) AND a.recipient = recipient
};
CREATE CONTINUOUS CHANNEL Others(least bigint) { SELECT a.n FROM Alarms a WHERE is_new(a) AND a.n >= least };
"""
#: Connections of the attacker that ask for the largest arguments that are allowed.
CONNECTIONS = 10

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def answers(speaker: Speaker, sizes: list[int], channel: str) -> Counter[str]:
    """What became of one subscription for each size of its argument."""
    found: Counter[str] = Counter()
    for number, size in enumerate(sizes):
        answer = speaker.ask("subscribe", channel=channel, args=[f"{number}".ljust(size, "A")])
        found[answer.get("code", answer["type"])] += 1
    return found


def test_arguments_of_one_client_do_not_stop_any_channel(tmp_path: Path) -> None:
    data = Process("--home", str(tmp_path / "data"), "--master", "local[2]", TOCSIN_DRIVER_MEMORY="1g")
    try:
        url = data.event("ready")["url"]
        http = httpx.Client(base_url=url, timeout=120, trust_env=False)
        assert http.post("/sql", content=SETUP).status_code == 200
        with broker(tmp_path / "broker", url, "b") as running:
            witness = Speaker(running.url)
            assert witness.ask("subscribe", channel="AlarmsOf", args=["ann"])["type"] == "subscribed"
            assert witness.ask("subscribe", channel="Others", args=[0])["type"] == "subscribed"

            def notified(n: int) -> None:
                """Both channels find the record, and the witness gets it."""
                assert http.post("/feeds/AlarmFeed", json={"recipient": "ann", "n": n}).json()["accepted"] == 1
                got: list[Any] = [witness.next("notify", 600) for _ in range(2)]
                assert {each["channel"]: each["results"] for each in got} == {
                    "AlarmsOf": [{"n": n}],
                    "Others": [{"n": n}],
                }

            notified(1)
            attacker = Speaker(running.url)
            assert answers(attacker, [900_000] * 320, "AlarmsOf") == {"limit_exceeded": 320}
            attackers = [Speaker(running.url) for _ in range(CONNECTIONS)]
            for each in attackers:
                found = answers(each, [4_000] * 400, "AlarmsOf")
                assert found.total() == 400 and found["limit_exceeded"] > 100, "a connection has a megabyte"
            large = [["A" * 900_000]] * 10
            body = {"broker": "b", "args": large}
            assert http.post("/channels/AlarmsOf/subscriptions", json=body).status_code in (401, 413)
            notified(2)
            assert http.get("/readyz").status_code == 200
            assert {each["state"] for each in http.get("/channels").json()["channels"]} == {"running"}
            for each in (attacker, *attackers):
                each.close()
            notified(3)
            witness.close()
    finally:
        code = data.end()
    assert code == 0, data.errors()
