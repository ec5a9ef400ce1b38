"""A request ends with an answer, a refusal, or a closed connection."""

from __future__ import annotations

import asyncio
import io
import logging

import pytest
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse

from tocsin.errors import NoSuchPath
from tocsin.http import request_handler
from tocsin.http.request_handler import handle
from tocsin.http.requests import Disconnected
from tocsin.http.server import BrokeOff

SCOPE = {"type": "http", "method": "GET", "path": "/here"}


def run(inner, **more):
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return {"type": "http.disconnect"}

    return asyncio.run(handle(inner, SCOPE, receive, send, **more)), sent


def raising(error, *, after=False):
    async def inner(scope, receive, send):
        if after:
            await send({"type": "http.response.start", "status": 200, "headers": []})
        raise error

    return inner


def test_an_answer_is_sent_and_its_status_returned():
    status, sent = run(PlainTextResponse("some text", 202))
    assert status == 202
    assert sent[-1]["body"] == b"some text"


def test_a_user_error_is_answered_with_its_status():
    status, sent = run(raising(NoSuchPath("there is nothing at /here")))
    assert status == 404
    assert b"there is nothing at /here" in sent[-1]["body"]


def test_a_server_may_define_its_own_refusals():
    status, sent = run(
        raising(ValueError("odd")), refusal=lambda error, where: PlainTextResponse(f"{where}: {error}", 418)
    )
    assert (status, sent[-1]["body"]) == (418, b"GET /here: odd")


@pytest.mark.parametrize("gone", [Disconnected(), ClientDisconnect()])
def test_a_client_that_disconnected_gets_no_answer(gone):
    assert run(raising(gone)) == (0, [])


def test_an_error_after_the_status_was_sent_is_logged_and_closes_the_connection(monkeypatch):
    output = io.StringIO()
    own_log = logging.Logger("own")  # other tests may have disabled the usual one
    own_log.addHandler(logging.StreamHandler(output))
    monkeypatch.setattr(request_handler, "log", own_log)
    with pytest.raises(BrokeOff):
        run(raising(ValueError("odd"), after=True))
    assert "GET /here broke off" in output.getvalue()
    assert "odd" in output.getvalue()
