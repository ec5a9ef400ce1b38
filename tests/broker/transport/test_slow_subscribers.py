"""A subscriber that does not read harms only itself."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_lab import Broker, Speaker, broker
from test_hostile_clients import HELLO, Raw

#: COUNT notifications of SIZE bytes are far more than the broker and the kernel may buffer for a subscriber.
SIZE, COUNT = 50_000, 250


def resident(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))


def metric(url: str, name: str) -> float:
    text = httpx.get(url + "/metrics", timeout=60).text
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"tocsin_broker_{name} "))


@pytest.fixture
def small(data: Any, tmp_path: Any):
    limits = {"cache_bytes": 2**20}
    with broker(tmp_path, data[1], tmp_path.name, limits=limits, buffer_bytes=65_536, heartbeat=0) as found:
        yield found


def subscriber_that_does_not_read(port: int, kind: str) -> Raw:
    """Subscribes and stops reading."""
    raw = Raw(port)
    raw.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    raw.send(HELLO)
    raw.frame()
    raw.send(json.dumps({"type": "subscribe", "id": 2, "channel": "OfKind", "args": [kind]}).encode())
    while json.loads(raw.frame()[1])["type"] != "subscribed":
        pass
    return raw


def test_slow_subscribers_cost_little_memory_and_do_not_affect_others(cluster, small: Broker):
    slow = [subscriber_that_does_not_read(small.port, "bulk") for _ in range(20)]
    reader = Speaker(small.url)
    reader.ask("subscribe", channel="OfKind", args=["bulk"])
    before = resident(small.process.pid)
    payload = "x" * SIZE
    for n in range(COUNT):
        cluster.found("OfKind", (["bulk"], [{"n": n, "payload": payload}]))
        assert reader.next("notify")["results"][0]["n"] == n
    assert metric(small.url, "subscribers_lagging") == len(slow)
    # Buffered for each of them it would be 250 MB; the kernel's buffers do not count.
    assert resident(small.process.pid) - before < 60 * 2**20
    reader.close()
    for each in slow:
        each.close()


def test_a_slow_subscriber_that_reads_again_receives_everything_in_order(cluster, small: Broker):
    raw = subscriber_that_does_not_read(small.port, "late")
    payload = "x" * SIZE
    first = cluster.found("OfKind", (["late"], [{"n": 0, "payload": payload}]))
    for n in range(1, COUNT):
        cluster.found("OfKind", (["late"], [{"n": n, "payload": payload}]))
    found: list[dict[str, Any]] = []
    types = set()
    while len(found) < COUNT or "live" not in types:
        opcode, text = raw.frame()
        assert opcode == 1
        message = json.loads(text)
        types.add(message["type"])
        if message["type"] == "ping":
            raw.send(b'{"type":"pong"}')
        elif message["type"] == "notify" and (not found or message["execution"] > found[-1]["execution"]):
            found.append(message)
    assert [(each["execution"], each["results"][0]["n"]) for each in found] == [(first + n, n) for n in range(COUNT)]
    assert "lagging" in types
    assert metric(small.url, "lagged_total") >= 1
    raw.close()


def test_a_client_that_does_not_read_its_answers_is_closed(cluster, small: Broker):
    raw = subscriber_that_does_not_read(small.port, "asking")
    requests = json.dumps([{"type": "subscribe", "id": n, "channel": "Nothing"} for n in range(1000)]).encode()
    with pytest.raises(OSError):
        for _ in range(5_000):
            raw.send(requests)
    raw.close()
