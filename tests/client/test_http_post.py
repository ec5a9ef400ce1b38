"""A client's HTTP requests before it has a connection: an answer, or an OSError."""

from __future__ import annotations

import asyncio
import socket

import pytest
from scripted_http_server import ScriptedHandler, scripted_server

from tocsin.client.http_post import LARGEST, post, request_broker
from tocsin.errors import Malformed, SystemFailure, TocsinError, Unreachable
from tocsin.wire.reports import BrokerRequest, Placement

REQUEST = BrokerRequest("some-subscriber", avoid=["north"])
FOUND = b'{"broker": "south", "url": "http://south", "ticket": "t"}'


@pytest.fixture(autouse=True)
def no_proxy_of_this_machine(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def answer(url: str, seconds: float = 30.0) -> tuple[int, bytes]:
    return asyncio.run(post(url, "/requestbroker", REQUEST, seconds))


def test_the_request_arrives_and_so_does_the_answer():
    ScriptedHandler.answer = (200, FOUND)
    with scripted_server() as url:
        assert asyncio.run(request_broker(f"{url}/base", REQUEST)) == Placement("south", "http://south", "t")
    (path, body), *_ = ScriptedHandler.received
    assert (path, body["subscriber"], body["avoid"]) == ("/base/requestbroker", "some-subscriber", ["north"])


def test_a_configured_proxy_is_used(monkeypatch):
    ScriptedHandler.answer = (200, FOUND)
    with scripted_server() as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        assert answer("http://coordinator.invalid") == (200, FOUND)
        assert [path for path, _ in ScriptedHandler.received] == ["http://coordinator.invalid/requestbroker"]
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert answer(proxy) == (200, FOUND)
        assert ScriptedHandler.received[-1][0] == "/requestbroker"


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (422, b'{"error": {"code": "malformed", "message": "no", "hint": "look"}}', Malformed),
        (503, b'{"error": {"code": "busy", "message": "no broker has room"}}', SystemFailure),
        (502, b"<html>", SystemFailure),
        (200, b"<html>", SystemFailure),
        (200, b"x" * (LARGEST + 1), Unreachable),
    ],
)
def test_other_answers_of_a_coordinator_are_errors(status, body, kind):
    ScriptedHandler.answer = (status, body)
    with scripted_server() as url, pytest.raises(TocsinError) as caught:
        asyncio.run(request_broker(url, REQUEST))
    assert isinstance(caught.value, kind)


NOWHERE = ["http://127.0.0.1:1", "http://no-such-host.invalid", "http://münchen.invalid", f"http://{'a' * 300}"]


@pytest.mark.parametrize("url", NOWHERE)
def test_an_unreachable_server_is_an_error(url):
    with pytest.raises(OSError):
        answer(url)


def test_a_server_that_never_answers_times_out():
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(TimeoutError):
        answer(f"http://127.0.0.1:{silent.getsockname()[1]}", seconds=0.01)
