"""The fan-out benchmark's tools count every delivery exactly once."""

from __future__ import annotations

import json
import socket
import threading
from itertools import islice
from pathlib import Path

import pytest
from benchmarks.fanout import __main__ as driver
from benchmarks.fanout import compiler, encrypted, servers
from benchmarks.fanout.cases import MARKER, PAYLOAD, Case
from benchmarks.fanout.counter import Counter, Endpoint, Opening
from benchmarks.fanout.server import Server

ONE = Case("one", 50)
DENSE = Case("dense", 50, topics=100, each=20)
SPARSE = Case("sparse", 50, topics=1_000, each=2)


@pytest.fixture(scope="module")
def counter(tmp_path_factory) -> Path:
    return compiler.compile_to("counter", tmp_path_factory.mktemp("counter"), [*compiler.FLAGS, "-Werror"])


@pytest.fixture(scope="module")
def limit(tmp_path_factory) -> Path:
    return compiler.compile_to("limit", tmp_path_factory.mktemp("limit"), [*compiler.FLAGS, "-Werror"])


def delivered(server: Server, case: Case, counter: Path) -> tuple[int, int, int]:
    """The expected deliveries in both modes, and the counted deliveries and frames after the server has stopped."""
    expected = 0
    with server:
        openings = [server.opening(number, topics) for number, topics in enumerate(case.subscriptions)]
        with Counter(server.endpoint, openings, executable=counter) as client:
            for size in (1, 16):
                for burst in islice(case.bursts(size), 5):
                    client.expect(case.deliveries(burst))
                    server.publish(burst)
                    expected += case.deliveries(burst)
                    assert client.met().deliveries == expected
            assert server.cpu() >= 0 and server.resident() > 0
            server.stop()
            count = client.drained()
    return expected, count.deliveries, count.frames


@pytest.mark.parametrize("case", [ONE, DENSE, SPARSE], ids=lambda case: case.name)
@pytest.mark.parametrize("kind", [servers.Limit, servers.PipedLimit, servers.CoalescedLimit])
def test_every_delivery_of_the_limit_is_counted(kind, case, counter, limit, monkeypatch):
    monkeypatch.setattr(servers, "program", lambda name: limit)
    expected, deliveries, frames = delivered(kind(core=None), case, counter)
    assert deliveries == frames == expected > 0


@pytest.mark.parametrize("case", [ONE, DENSE], ids=lambda case: case.name)
@pytest.mark.parametrize("kind", [servers.Bare, servers.Broadcast])
def test_every_delivery_of_programs_in_python_is_counted(kind, case, counter):
    expected, deliveries, frames = delivered(kind(core=None), case, counter)
    assert deliveries == frames == expected > 0


@pytest.mark.parametrize("case", [ONE, DENSE], ids=lambda case: case.name)
def test_every_delivery_of_redis_is_counted(case, counter):
    expected, deliveries, _ = delivered(servers.Redis(core=None), case, counter)
    assert deliveries == expected > 0


@pytest.fixture(scope="module")
def tls_counter(tmp_path_factory) -> Path:
    flags = [*compiler.FLAGS, "-Werror", *compiler.TLS]
    return compiler.compile_to("counter", tmp_path_factory.mktemp("tls-counter"), flags)


@pytest.mark.parametrize("case", [ONE, DENSE], ids=lambda case: case.name)
@pytest.mark.parametrize("kind", [encrypted.TlsRedis, encrypted.TlsTocsin])
def test_every_delivery_over_tls_is_counted(kind, case, tls_counter):
    expected, deliveries, _ = delivered(kind(core=None), case, tls_counter)
    assert deliveries == expected > 0


def test_the_driver_measures_every_server_in_every_mode():
    effort = driver.Effort(2, 0.02)
    found = driver.measure([servers.Limit, servers.CoalescedLimit], [ONE, DENSE], effort)
    for size in driver.MODES:
        table = driver.rates(found, size, effort)
        assert [row[0] for row in table.rows] == ["C, plain", "C, coalesced"]
        assert all(rate > 0 for row in table.rows for rate in row[1::2])
        assert {row[0]: row[2] for row in table.rows}[driver.MODES[size].name] == "1.00×"
    assert len(driver.latency(found).rows) == len(driver.idle(found).rows) == 2


def test_a_payload_has_three_hundred_bytes_and_one_marker():
    assert len(PAYLOAD) == 300
    assert PAYLOAD.count(MARKER) == 1
    assert json.loads(PAYLOAD)


def test_subscriptions_are_the_same_in_every_run():
    again = Case("dense", 50, topics=100, each=20)
    assert again.subscriptions == DENSE.subscriptions
    assert all(len(set(topics)) == 20 for topics in again.subscriptions)
    assert list(islice(again.bursts(16), 9)) == list(islice(DENSE.bursts(16), 9))
    assert again.deliveries([3, 3]) == 2 * sum(3 in topics for topics in again.subscriptions)


# -- the counter with other servers ------------------------------------------------------------------------------------


class Scripted:
    """A WebSocket server for one connection that sends these bytes, cut into parts of a given size."""

    def __init__(self, script: bytes, part: int):
        self.received = b""
        self._script, self._part = script, part
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._publish = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Scripted:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.publish()
        self._thread.join(120)
        self._listener.close()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(
            self._listener.getsockname()[1], MARKER, b"welcome", path="/live?x=1", subprotocol="tocsin.v1.json"
        )

    def publish(self) -> None:
        self._publish.set()

    def _serve(self) -> None:
        connection, _ = self._listener.accept()
        connection.settimeout(120)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            while b"\r\n\r\n" not in self.received:
                self.received += connection.recv(4096)
            # The answer and the first message in one piece.
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + frame(b'{"welcome":1}'))
            self._publish.wait(120)
            for at in range(0, len(self._script), self._part):
                connection.sendall(self._script[at : at + self._part])
            connection.shutdown(socket.SHUT_WR)
            while part := connection.recv(4096):
                self.received += part


def frame(payload: bytes, opcode: int = 1, final: bool = True) -> bytes:
    size = len(payload)
    length = (
        bytes([size]) if size < 126 else b"\x7e" + size.to_bytes(2) if size < 65_536 else b"\x7f" + size.to_bytes(8)
    )
    return bytes([opcode | (0x80 if final else 0)]) + length + payload


BATCH = b"[" + b",".join([PAYLOAD] * 7) + b"]"
SCRIPT = [
    frame(PAYLOAD),
    frame(BATCH),
    frame(b"[" + b",".join([PAYLOAD] * 300) + b"]"),
    frame(b"there?", opcode=9),
    frame(b""),
    frame(BATCH[:40], final=False) + frame(b"", opcode=9) + frame(BATCH[40:], opcode=0),
    frame(b'"executio') + frame(b'"execution"') + frame(b'{"heartbeat":1}'),
    frame(PAYLOAD) * 16,
]
DELIVERIES = 1 + 7 + 300 + 7 + 16


@pytest.mark.parametrize("part", [1, 2, 3, 7, 11, 13, 299, 4096, 1_000_000])
def test_markers_are_counted_across_frames_and_reads(part, counter):
    with (
        Scripted(b"".join(SCRIPT), part) as server,
        Counter(server.endpoint, [Opening([b'{"hello":1}'], 1)], executable=counter) as client,
    ):
        client.expect(DELIVERIES)
        server.publish()
        count = client.met()
        assert count.deliveries == DELIVERIES
        assert 0 < count.first <= count.last
        count = client.drained()
        assert (count.deliveries, count.bytes) == (DELIVERIES, len(b"".join(SCRIPT)))
        assert count.frames == 1 + 1 + 1 + 1 + 2 + 3 + 16
    head, _, sent = server.received.partition(b"\r\n\r\n")
    assert head.startswith(b"GET /live?x=1 HTTP/1.1\r\n")
    assert b"\r\nSec-WebSocket-Protocol: tocsin.v1.json\r\n" in head + b"\r\n"
    assert unmasked(sent) == [(1, b'{"hello":1}'), (10, b"there?"), (10, b"")]


def unmasked(got: bytes) -> list[tuple[int, bytes]]:
    """The short masked frames of a client."""
    out = []
    while got:
        size = got[1] & 0x7F
        key, body = got[2:6], got[6 : 6 + size]
        assert got[1] & 0x80 and len(body) == size
        out.append((got[0] & 0x0F, bytes(byte ^ key[i % 4] for i, byte in enumerate(body))))
        got = got[6 + size :]
    return out


def test_known_frames_can_be_counted_by_their_bytes(counter):
    with Scripted(frame(PAYLOAD) * 40, 1000) as server:
        endpoint = Endpoint(server.endpoint.port, MARKER, b"welcome", path="/", frame=len(frame(PAYLOAD)))
        with Counter(endpoint, [Opening([], 1)], executable=counter) as client:
            client.expect(40)
            server.publish()
            assert client.met().deliveries == 40
            assert client.drained().deliveries == 40


def test_a_server_that_closes_too_early_is_an_error(counter):
    with (
        Scripted(frame(PAYLOAD) + frame((1008).to_bytes(2) + b"too slow", opcode=8), 1000) as server,
        Counter(server.endpoint, [Opening([], 1)], executable=counter) as client,
    ):
        client.expect(2)
        client.total()  # after its answer, the counter expects them
        server.publish()
        with pytest.raises(RuntimeError, match="1008 too slow"):
            client.met()


def test_a_missing_compiler_is_an_error(monkeypatch, tmp_path):
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="needs a C compiler"):
        compiler.compile_to("limit", tmp_path)
