"""Every phase of a connection ends in time on every server, and slow clients leave room for others."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from broker_lab import Broker, Speaker, broker
from coordinator_lab import coordinator

from sparkless import sparkless
from tocsin.config import HttpLimits

#: One phase is short, so that a slow machine does not end another.
LONG = {"head_seconds": 120.0, "body_seconds": 120.0, "idle_seconds": 120, "write_seconds": 120.0}
HEAD = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n"
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"


def connected(url: str, *pieces: bytes) -> socket.socket:
    sock = socket.create_connection((urlsplit(url).hostname, urlsplit(url).port), timeout=60)
    for piece in pieces:
        sock.sendall(piece)
    return sock


def ended(sock: socket.socket) -> bytes:
    """What arrived until the server closed the connection; it must not take a minute."""
    found = b""
    try:
        while piece := sock.recv(65_536):
            found += piece
    except ConnectionResetError:
        pass
    sock.close()
    return found


def answered(url: str) -> socket.socket:
    """A connection after the answer to its first request; on a busy machine the deadline may end one before."""
    while True:
        sock, found = connected(url), b""
        try:
            sock.sendall(GET)
            while not found.endswith(b"}") and (piece := sock.recv(65_536)):
                found += piece
        except ConnectionError:
            found = b""
        if found.endswith(b"}"):
            return sock
        sock.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., dict[str, str]]]:
    """The addresses of all servers, with these limits."""
    with ExitStack() as held:
        known: dict[str, dict[str, str]] = {}

        def start(**limits: Any) -> dict[str, str]:
            key = json.dumps(limits, sort_keys=True)
            if key not in known:
                http, folder = LONG | limits, tmp_path_factory.mktemp("servers")
                _, cluster = held.enter_context(sparkless(folder / "data", http=HttpLimits(**http)))
                found = held.enter_context(broker(folder / "b", cluster, "b", http=http))
                running = held.enter_context(coordinator(folder / "coordinator", http=http))
                known[key] = {
                    "broker": found.url,
                    "inner": found.facts["inside"],
                    "cluster": cluster,
                    "coordinator": running.url,
                }
            return known[key]

        yield start


SERVERS = ["broker", "cluster", "coordinator", "inner"]
PATHS = {"broker": b"/login", "cluster": b"/query", "coordinator": b"/requestbroker", "inner": b"/notify"}


@pytest.mark.parametrize("name", SERVERS)
def test_a_connection_without_a_request_ends(servers, name):
    assert ended(connected(servers(head_seconds=1.0)[name])) == b""


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("begin", [b"GET / HT", b"\r\n"])
def test_the_head_of_a_later_request_has_a_deadline(servers, name, begin):
    sock = answered(servers(head_seconds=1.0)[name])
    sock.sendall(begin)
    assert ended(sock) == b""


@pytest.mark.parametrize("name", SERVERS)
def test_a_body_that_does_not_come_ends_the_request(servers, name):
    found = ended(connected(servers(body_seconds=1.0)[name], HEAD % PATHS[name], b"{"))
    assert b"408" in found.split(b"\r\n")[0] or name == "inner"


def test_a_body_that_comes_too_slowly_ends_the_request(servers):
    sock = connected(servers(body_seconds=1.0, body_rate=1000.0)["broker"], HEAD % b"/login")
    sock.settimeout(0.2)
    for _ in range(200):  # 5 bytes in a second would keep it open for minutes
        try:
            sock.sendall(b" ")
            if sock.recv(1000).startswith(b"HTTP/1.1 408"):
                break
        except TimeoutError:
            continue
    else:
        raise AssertionError("the connection is still open")
    sock.close()


@pytest.mark.parametrize("name", SERVERS)
def test_an_idle_connection_ends(servers, name):
    assert ended(answered(servers(idle_seconds=1)[name])) == b""


def test_a_response_that_is_not_read_ends(servers):
    """Some megabytes fill the buffers of the kernel."""
    url = servers(write_seconds=1.0)["cluster"]
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(60)
    sock.connect((urlsplit(url).hostname, urlsplit(url).port))
    request = b"GET /openapi.json HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with pytest.raises(ConnectionError):
        while True:  # the server stops reading while its answers are not read
            sock.sendall(request * 10)
    sock.close()


class SmallBroker(Broker):
    """A broker with 400 files."""

    def _launch(self, more: list[str]) -> None:
        if self._command[0] != "sh":
            self._command = ["sh", "-c", 'ulimit -n 400 && exec "$@"', "sh", *self._command]
        super()._launch(more)


def test_hundreds_of_slow_bodies_leave_a_broker_with_few_files_to_others(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url):
        small = SmallBroker(tmp_path / "b", url, "b", http=LONG)
        small.event("ready")
        subscriber = Speaker(small.url)
        subscriber.ask("subscribe", channel="OfKind", args=["fire"])
        slow = [connected(small.url, HEAD % b"/login", b"{") for _ in range(420)]
        late = Speaker(small.url)
        late.ask("subscribe", channel="OfKind", args=["fire"])
        assert httpx.get(small.url + "/healthz", timeout=60).status_code == 200
        cluster.found("OfKind", (["fire"], [{"n": 1}]))
        for each in (subscriber, late):
            assert each.next("notify")["results"] == [{"n": 1}]
            each.close()
        for sock in slow:
            sock.close()
        small.end()
