"""Requests that are forwarded to another server."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from starlette.requests import Request

from tocsin.http.forwarder import Forwarder
from tocsin.http.request_handler import handle


class Echo(BaseHTTPRequestHandler):
    """Answers with the request."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        headers = {name.lower(): value for name, value in self.headers.items()}
        text = json.dumps({"path": self.path, "body": body, "headers": headers}).encode()
        self.send_response(404 if "unknown" in self.path else 202)
        self.send_header("content-type", "application/json")
        self.send_header("set-cookie", "a=b")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def echo() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def forwarded(
    url: str, method: str, path: str, *, authorized: bool = False, retry_seconds: float = 0.0, **more: Any
) -> httpx.Response:
    async def ask() -> httpx.Response:
        forwarder = Forwarder("echo", "start it", authorized=authorized, retry_seconds=retry_seconds)

        async def forward(scope: Any, receive: Any, send: Any) -> None:
            response = await forwarder.forward(Request(scope, receive), url, scope["raw_path"])
            await response(scope, receive, send)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await handle(forward, scope, receive, send)

        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://here", timeout=60) as client:
            try:
                return await client.request(method, path, **more)
            finally:
                await forwarder.close()

    return asyncio.run(ask())


def test_path_query_and_body_are_forwarded_unchanged(echo: str) -> None:
    found = forwarded(echo, "POST", "/people/n%C3%A9/x?after=3&b=%26", json={"district": "Old Town"})
    assert found.status_code == 202
    assert found.json()["path"] == "/people/n%C3%A9/x?after=3&b=%26"
    assert json.loads(found.json()["body"]) == {"district": "Old Town"}
    assert forwarded(echo, "POST", "/unknown").status_code == 404


@pytest.mark.parametrize("authorized", [False, True])
def test_a_token_is_forwarded_only_to_an_authorized_server(echo: str, authorized: bool) -> None:
    headers = {"authorization": "Bearer secret", "cookie": "a=b", "last-event-id": "7"}
    found = forwarded(echo, "GET", "/x", authorized=authorized, headers=headers)
    seen = found.json()["headers"]
    assert seen["last-event-id"] == "7" and ("authorization" in seen) == authorized
    assert "cookie" not in seen and "set-cookie" not in found.headers


@pytest.mark.parametrize("path", ["/..%2fx", "/a/%2e%2e/b", "/a/%2e/b", "/%2e%2e%2f%2e%2e/x"])
def test_a_path_with_dots_is_refused(echo: str, path: str) -> None:
    found = forwarded(echo, "GET", path)
    assert found.status_code == 404 and found.json()["error"]["code"] == "no_such_path"


def test_a_body_that_is_too_long_is_refused(echo: str) -> None:
    assert forwarded(echo, "POST", "/x", content=b"x" * 70_000).status_code == 413


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "nonsense"])
def test_a_server_that_does_not_answer_is_a_bad_gateway(url: str) -> None:
    found = forwarded(url, "GET", "/x")
    assert (found.status_code, found.json()["error"]["code"]) == (502, "unreachable")
    assert found.json()["error"]["hint"] == "start it"


class Restarting(Echo):
    """Ends the first connections without an answer."""

    left = 0

    def do_GET(self) -> None:
        if type(self).left:
            type(self).left -= 1
            self.close_connection = True
            return
        super().do_GET()

    do_POST = do_GET


@pytest.fixture
def restarting() -> Iterator[str]:
    Restarting.left = 2
    with ThreadingHTTPServer(("127.0.0.1", 0), Restarting) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_get_is_repeated_while_the_server_restarts(restarting: str) -> None:
    assert forwarded(restarting, "GET", "/x", retry_seconds=60.0).status_code == 202
    assert Restarting.left == 0


@pytest.mark.parametrize(("method", "seconds"), [("GET", 0.0), ("POST", 60.0)])
def test_without_time_to_retry_and_for_changes_the_first_failure_counts(
    restarting: str, method: str, seconds: float
) -> None:
    assert forwarded(restarting, method, "/x", retry_seconds=seconds).status_code == 502
    assert Restarting.left == 1
