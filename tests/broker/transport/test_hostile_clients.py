"""Clients that break the rules receive a clear close code or error, and no other client is affected."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from broker_lab import Broker, Speaker, broker
from rest_user import RestUser
from websockets.exceptions import ConnectionClosed

from tocsin.wire import SUBPROTOCOL, close_codes

kinds = (f"hostile{n}" for n in itertools.count(1))


class Raw:
    """A WebSocket whose every byte the test controls."""

    def __init__(self, port: int, **headers: str) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), timeout=120)
        self.file = self.sock.makefile("rb")
        fields = {
            "Host": "localhost",
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": base64.b64encode(bytes(16)).decode(),
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": SUBPROTOCOL,
        } | headers
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value)
        self.sock.sendall(f"GET /v1/ws HTTP/1.1\r\n{head}\r\n".encode())
        self.status = int(self.file.readline().split()[1])
        while self.file.readline() not in (b"\r\n", b""):
            pass

    def send(self, payload: bytes, opcode: int = 1, *, first: int | None = None, size: int | None = None) -> None:
        """One masked frame; ``first`` replaces its first byte, ``size`` the length in its header."""
        size = len(payload) if size is None else size
        head = bytes([0x80 | opcode if first is None else first])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65_536:
            head += bytes([0x80 | 126]) + struct.pack("!H", size)
        else:
            head += bytes([0x80 | 127]) + struct.pack("!Q", size)
        self.sock.sendall(head + bytes(4) + payload)

    def send_together(self, *payloads: bytes) -> None:
        """Frames that arrive in one piece."""
        self.sock.sendall(b"".join(bytes([0x81, 0x80 | len(payload)]) + bytes(4) + payload for payload in payloads))

    def frame(self) -> tuple[int, bytes]:
        first, size = self.file.read(2)
        if size >= 126:
            size = int.from_bytes(self.file.read(2 if size == 126 else 8), "big")
        return first & 15, self.file.read(size)

    def closed(self) -> int:
        """Reads until the close frame and returns its code."""
        while True:
            opcode, payload = self.frame()
            if opcode == 8:
                return int.from_bytes(payload[:2], "big")

    def close(self) -> None:
        self.sock.close()


@pytest.fixture
def raw(served_broker: Broker) -> Iterator[Raw]:
    found = Raw(served_broker.port)
    assert found.status == 101
    yield found
    found.close()


@pytest.fixture
def witness(served_broker: Broker, cluster: Any) -> Iterator[None]:
    """A well-behaved subscriber, which receives its notifications despite the hostile client."""
    kind = next(kinds)
    speaker = Speaker(served_broker.url)
    speaker.ask("subscribe", channel="OfKind", args=[kind])
    yield
    cluster.found("OfKind", ([kind], [{"n": 1}]))
    assert speaker.next("notify")["results"] == [{"n": 1}]
    speaker.close()


HELLO = json.dumps({"type": "hello", "id": 1}).encode()


def unsubscribe(id: int) -> bytes:
    return json.dumps({"type": "unsubscribe", "id": id, "subscription": 4711}).encode()


def test_requests_that_arrive_together_are_answered_in_order_also_around_a_malformed_one(raw: Raw) -> None:
    raw.send_together(HELLO, unsubscribe(2), unsubscribe(3), b'{"type":"subscribe","id":4}', unsubscribe(5))
    answers = [json.loads(raw.frame()[1]) for _ in range(5)]
    codes = ["not_found", "not_found", "malformed", "not_found"]
    assert answers[0]["type"] == "welcome"
    assert [(each["id"], each["code"]) for each in answers[1:]] == list(zip((2, 3, 4, 5), codes, strict=True))


def test_what_comes_before_a_broken_frame_is_answered_and_nothing_after_it(raw: Raw) -> None:
    raw.send_together(HELLO, unsubscribe(2), b"\xff\xfe", unsubscribe(3))
    answers = [raw.frame() for _ in range(3)]
    assert [json.loads(payload)["type"] for _, payload in answers[:2]] == ["welcome", "error"]
    assert answers[2][0] == 8 and int.from_bytes(answers[2][1][:2], "big") == close_codes.NOT_UTF8.code


@pytest.mark.parametrize(
    ("close", "frames"),
    [
        (close_codes.PROTOCOL_ERROR, [{"payload": b"x", "first": 0xC1}]),
        (close_codes.PROTOCOL_ERROR, [{"payload": b"x", "first": 0x83}]),
        (close_codes.PROTOCOL_ERROR, [{"payload": b"x", "opcode": 0}]),
        (close_codes.PROTOCOL_ERROR, [{"payload": b"x", "first": 0x01}, {"payload": b"y"}]),
        (close_codes.PROTOCOL_ERROR, [{"payload": b"x" * 126, "opcode": 9}]),
        (close_codes.PROTOCOL_ERROR, [{"payload": b"x", "first": 0x09}]),
        (close_codes.UNSUPPORTED, [{"payload": HELLO, "opcode": 2}]),
        (close_codes.NOT_UTF8, [{"payload": b'{"type":"\xff"}'}]),
        (close_codes.TOO_BIG, [{"payload": b"", "size": 2**40}]),
        (close_codes.TOO_BIG, [{"payload": b"", "size": 2**63 - 1}]),
        (close_codes.MALFORMED, [{"payload": b"not json"}]),
        (close_codes.MALFORMED, [{"payload": b"5"}]),
        (close_codes.MALFORMED, [{"payload": b""}]),
        (close_codes.MALFORMED, [{"payload": b'{"type":"unknown"}'}]),
        (close_codes.MALFORMED, [{"payload": b"[" * 50_000}]),
        (close_codes.NO_HELLO, [{"payload": b'{"type":"ping"}'}]),
        (close_codes.NO_HELLO, [{"payload": HELLO}, {"payload": HELLO}]),
        (close_codes.UNAUTHORIZED, [{"payload": b'{"type":"hello","id":1,"token":"made up"}'}]),
    ],
)
@pytest.mark.usefixtures("witness")
def test_a_broken_rule_has_its_close_code(raw, close, frames):
    for frame in frames:
        raw.send(**frame)
    assert raw.closed() == close.code


def test_an_unmasked_frame_is_a_protocol_error(raw):
    raw.sock.sendall(b"\x81\x01x")
    assert raw.closed() == close_codes.PROTOCOL_ERROR.code


def test_a_message_may_arrive_in_fragments_with_a_ping_between(raw):
    raw.send(HELLO[:5], first=0x01)
    raw.send(b"are you there", opcode=9)
    raw.send(HELLO[5:], first=0x80)
    assert raw.frame() == (10, b"are you there")
    opcode, payload = raw.frame()
    assert (opcode, json.loads(payload)["type"]) == (1, "welcome")


def test_a_close_is_answered_with_the_same_code(raw):
    raw.send(struct.pack("!H", 1000), opcode=8)
    assert raw.closed() == 1000


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-WebSocket-Protocol": ""}, 400),
        ({"Sec-WebSocket-Protocol": "chat"}, 400),
        ({"Sec-WebSocket-Key": ""}, 400),
        ({"Sec-WebSocket-Version": "8"}, 400),
    ],
)
def test_a_wrong_handshake_is_refused(served_broker, headers, status):
    refused = Raw(served_broker.port, **headers)
    assert refused.status == status
    refused.close()


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        ({"type": "subscribe", "channel": "Nothing", "args": []}, "not_found"),
        ({"type": "subscribe", "channel": "Above", "args": ["x"]}, "type_mismatch"),
        ({"type": "subscribe", "channel": "Above", "args": [1, 2]}, "type_mismatch"),
        ({"type": "subscribe", "channel": "Above", "args": {"most": 1}}, "type_mismatch"),
        ({"type": "subscribe", "channel": "Above", "args": "x"}, "malformed"),
        ({"type": "subscribe", "channel": "x" * 300, "args": []}, "malformed"),
        ({"type": "subscribe", "channel": "Above", "args": [1], "after": -1}, "malformed"),
        ({"type": "subscribe"}, "malformed"),
        ({"type": "unsubscribe", "subscription": 999_999}, "not_found"),
        ({"type": "unsubscribe", "subscription": "x"}, "malformed"),
        ({"type": "publish", "feed": "Nothing", "records": [{}]}, "not_found"),
        ({"type": "publish", "feed": "LocationFeed", "records": []}, "malformed"),
        ({"type": "publish", "feed": "LocationFeed", "records": [{}] * 1001}, "malformed"),
        ({"type": "unknown"}, "malformed"),
    ],
)
def test_an_invalid_request_receives_an_error_and_the_connection_stays_open(served_broker, request_, code):
    speaker = Speaker(served_broker.url)
    answer = speaker.ask(request_.pop("type"), **request_)
    assert (answer["type"], answer["code"]) == ("error", code), answer
    assert speaker.ask("subscribe", channel="Above", args=[5])["type"] == "subscribed"
    speaker.close()


def test_invalid_records_are_refused_one_by_one(served_broker):
    speaker = Speaker(served_broker.url)
    answer = speaker.ask("publish", feed="LocationFeed", records=[{"user": "a"}, 5, {"user": None}, {"user": "b"}])
    assert (answer["accepted"], [each["index"] for each in answer["refused"]]) == (2, [1, 2])
    speaker.close()


@pytest.fixture
def strict(data: Any, tmp_path: Any) -> Iterator[Broker]:
    limits = {"frame_bytes": 8192, "subscriptions": 3, "connections": 5, "connections_per_address": 4}
    with broker(tmp_path, data[1], tmp_path.name, limits=limits, hello_timeout=120.0, heartbeat=0) as found:
        yield found


@pytest.fixture
def short_timeout(data: Any, tmp_path: Any, request: Any) -> Iterator[Broker]:
    """Only one timeout is short, so that a slow machine does not trigger another."""
    timeouts = {"hello_timeout": 120.0, "heartbeat": 0} | request.param
    with broker(tmp_path, data[1], tmp_path.name, **timeouts) as found:
        yield found


def test_the_broker_enforces_its_frame_and_subscription_limits(strict):
    raw = Raw(strict.port)
    raw.send(b"x" * 8_193)
    assert raw.closed() == close_codes.TOO_BIG.code
    raw.close()
    raw = Raw(strict.port)
    raw.send(b"x" * 4_200, first=0x01)
    raw.send(b"x" * 4_200, first=0x00)
    assert raw.closed() == close_codes.TOO_BIG.code
    raw.close()
    speaker = Speaker(strict.url)
    for n in range(3):
        assert speaker.ask("subscribe", channel="Above", args=[n])["type"] == "subscribed"
    assert speaker.ask("subscribe", channel="Above", args=[4])["code"] == "limit_exceeded"
    speaker.close()


def test_too_many_connections_from_one_address_are_closed(strict):
    speakers = [Speaker(strict.url) for _ in range(4)]
    with pytest.raises(ConnectionClosed) as refused:
        Speaker(strict.url)
    assert refused.value.rcvd is not None and refused.value.rcvd.code == close_codes.TRY_LATER.code
    speakers.pop().close()
    while True:  # the broker may not have noticed the close yet
        with contextlib.suppress(ConnectionClosed):
            speakers.append(Speaker(strict.url))
            break
    for each in speakers:
        each.close()


@pytest.mark.parametrize("short_timeout", [{"hello_timeout": 1.0}], indirect=True)
def test_a_silent_connection_is_closed_after_the_hello_timeout(short_timeout):
    raw = Raw(short_timeout.port)
    assert raw.closed() == close_codes.HELLO_TIMEOUT.code
    raw.close()


@pytest.mark.parametrize("short_timeout", [{"heartbeat": 1.0, "silence": 3.0}], indirect=True)
def test_a_client_that_does_not_answer_pings_is_closed(short_timeout):
    raw = Raw(short_timeout.port)
    raw.send(HELLO)
    assert raw.closed() == close_codes.SILENT.code
    raw.close()


@pytest.mark.usefixtures("witness")
def test_random_bytes_do_not_affect_other_clients(served_broker):
    for seed in range(50):
        raw = Raw(served_broker.port)
        with contextlib.suppress(ConnectionError):  # but not a timeout: the broker must close the connection
            raw.sock.sendall(random.Random(seed).randbytes(20) * (seed + 1))
            raw.sock.shutdown(socket.SHUT_WR)
            while raw.sock.recv(65_536):
                pass
        raw.close()


@pytest.mark.usefixtures("witness")
def test_a_flood_of_subscriptions_ends_at_the_limit(served_broker):
    speaker = Speaker(served_broker.url)
    flood = [{"type": "subscribe", "id": 1000 + n, "channel": "Above", "args": [n]} for n in range(1500)]
    for start in range(0, len(flood), 500):
        speaker.send(*flood[start : start + 500])
    answers = [speaker.next("subscribed") for _ in range(1000)] + [speaker.next("error") for _ in range(500)]
    assert {each.get("code") for each in answers} == {None, "limit_exceeded"}
    speaker.close()


@pytest.mark.usefixtures("witness")
def test_hundreds_of_large_arguments_are_refused_and_another_channel_goes_on(served_broker, cluster):
    """320 subscriptions with 900 kB each would fill Spark's memory."""
    other, attacker = Speaker(served_broker.url), Speaker(served_broker.url)
    other.ask("subscribe", channel="Above", args=[77])
    for n in range(320):
        refused = attacker.ask("subscribe", channel="OfKind", args=[f"{n}" + "A" * 900_000])
        assert (refused["code"], "4096" in refused["message"]) == ("limit_exceeded", True)
    cluster.found("Above", ([77], [{"n": 78}]))
    assert other.next("notify")["results"] == [{"n": 78}]
    kinds_of = {str(each["args"][0])[:5] for each in cluster.subscriptions("OfKind", None, 0, 10_000)}
    assert not any("AAA" in kind for kind in kinds_of)
    attacker.close()
    other.close()


def test_the_arguments_of_a_connection_have_a_limited_size(served_broker):
    attacker = Speaker(served_broker.url)
    answers = [attacker.ask("subscribe", channel="OfKind", args=[f"{n:06}" + "B" * 4_000]) for n in range(300)]
    refused = [each for each in answers if each["type"] == "error"]
    assert len(refused) == 300 - 1024 * 1024 // 4_010 and {each["code"] for each in refused} == {"limit_exceeded"}
    attacker.close()


def test_large_arguments_are_refused_over_rest_and_in_a_stream(served_broker):
    user = RestUser(served_broker.url)
    large = "C" * 5_000
    found = user.post("/subscribe", channel="OfKind", args=[large])
    assert (found.status_code, found.json()["error"]["code"]) == (413, "limit_exceeded")
    found = httpx.get(f"{served_broker.url}/events", params={"channel": "OfKind", "kind": large}, timeout=120)
    assert (found.status_code, found.json()["error"]["code"]) == (413, "limit_exceeded")


def test_the_limit_of_subscriptions_holds_for_a_user_over_rest(strict):
    user = RestUser(strict.url)
    answers = [user.post("/subscribe", channel="OfKind", args=[f"{n}"]) for n in range(5)]
    assert [each.status_code for each in answers] == [201, 201, 201, 413, 413]
    speaker = Speaker(strict.url, token=user.token)
    assert speaker.ask("subscribe", channel="OfKind", args=["more"])["code"] == "limit_exceeded"
    assert speaker.ask("subscribe", channel="OfKind", args=["0"])["type"] == "subscribed"
    speaker.close()
