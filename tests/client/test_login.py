"""User and password for a token, over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import ClassVar

import pytest

from tocsin.client.login import Credentials, login
from tocsin.errors import SystemTrouble, TocsinError, Unauthorized, Unreachable, UserError


class Answering(BaseHTTPRequestHandler):
    answer: ClassVar[tuple[int, bytes]] = (200, b"")
    heard: ClassVar[list[tuple[str, object]]] = []

    def do_POST(self) -> None:
        self.heard.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
        status, body = self.answer
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    Answering.heard.clear()
    with HTTPServer(("127.0.0.1", 0), Answering) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_login_gives_a_token(url):
    Answering.answer = (200, b'{"token": "t", "expires": 12.5}')
    assert asyncio.run(login(url, Credentials("ann", "secret", "phone"))) == "t"
    assert Answering.heard == [("/login", {"user": "ann", "password": "secret", "device": "phone"})]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error": {"code": "unauthorized", "message": "no", "hint": "look"}}', Unauthorized),
        (401, b"<html>", Unauthorized),
        (404, b"", UserError),
        (200, b"{}", UserError),
        (503, b"", SystemTrouble),
        (503, b'{"error": {"code": "busy", "message": "later"}}', SystemTrouble),
    ],
)
def test_other_answers_are_errors(url, status, body, kind):
    Answering.answer = (status, body)
    with pytest.raises(TocsinError) as caught:
        asyncio.run(login(url, Credentials("ann", "secret")))
    assert isinstance(caught.value, kind)


def test_a_server_that_is_not_there_is_unreachable():
    with pytest.raises(Unreachable):
        asyncio.run(login("http://127.0.0.1:1", Credentials("ann", "secret")))
