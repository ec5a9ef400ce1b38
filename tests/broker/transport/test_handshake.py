"""The fast path of the handshake agrees with the library, or leaves the request to it."""

from __future__ import annotations

import pytest
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from tocsin.broker.transport.handshake import PATH, plain_answer
from tocsin.wire import SUBPROTOCOL

USUAL = {
    "host": "127.0.0.1",
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec-websocket-version": "13",
    "sec-websocket-protocol": SUBPROTOCOL,
}


def request(first: str = f"GET {PATH} HTTP/1.1", more: str = "", **changed: str | None) -> bytes:
    headers = USUAL | {name.replace("_", "-"): value for name, value in changed.items()}
    lines = [f"{name}: {value}\r\n" for name, value in headers.items() if value is not None]
    return f"{first}\r\n{''.join(lines)}{more}\r\n".encode()


def by_the_library(data: bytes) -> tuple[int, str | None, str | None]:
    server = ServerProtocol(subprotocols=[Subprotocol(SUBPROTOCOL)])
    server.receive_data(data)
    (found,) = server.events_received()
    assert isinstance(found, Request)
    answer = server.accept(found)
    return answer.status_code, answer.headers.get("Sec-WebSocket-Accept"), answer.headers.get("Sec-WebSocket-Protocol")


def test_the_handshake_answers_the_example_of_the_rfc():
    answer = plain_answer(request())
    assert answer is not None and b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n" in answer


@pytest.mark.parametrize(
    "data",
    [
        request(),
        request(upgrade="WebSocket", connection="upgrade"),
        request(connection="keep-alive, Upgrade"),
        request(sec_websocket_protocol=f"chat, {SUBPROTOCOL}"),
        request(sec_websocket_extensions="permessage-deflate"),
        request(more="Cookie: a=b\r\ncookie: c=d\r\n"),
        request(sec_websocket_key="  dGhlIHNhbXBsZSBub25jZQ== \t"),
    ],
)
def test_a_usual_request_is_answered_as_the_library_answers_it(data):
    status, accept, protocol = by_the_library(data)
    answer = plain_answer(data)
    assert answer is not None and answer.endswith(b"\r\n\r\n")
    head, *lines = answer.decode().split("\r\n")
    assert head == f"HTTP/1.1 {status} Switching Protocols"
    assert f"Sec-WebSocket-Accept: {accept}" in lines and f"Sec-WebSocket-Protocol: {protocol}" in lines
    assert "Extensions" not in answer.decode()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET",
        request()[:-2],
        request() + b"more",
        request("POST /v1/ws HTTP/1.1"),
        request("GET /v1/ws HTTP/1.0"),
        request("GET / HTTP/1.1"),
        request(f"GET {PATH}?token=x HTTP/1.1"),
        request(upgrade="h2c"),
        request(connection="keep-alive"),
        *(request(**{name.replace("-", "_"): None}) for name in USUAL if name != "host"),
        request(more="Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"),
        request(more="sec-websocket-version: 8\r\n"),
        request(sec_websocket_key=""),
        request(sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ="),
        request(sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==x"),
        request(sec_websocket_key="c2hvcnQ="),
        request(sec_websocket_key="*GhlIHNhbXBsZSBub25jZQ=="),
        request(sec_websocket_version="8"),
        request(sec_websocket_protocol="chat"),
        request(sec_websocket_protocol=SUBPROTOCOL + "x"),
    ],
)
def test_an_unusual_request_is_left_to_the_library(data):
    assert plain_answer(data) is None
