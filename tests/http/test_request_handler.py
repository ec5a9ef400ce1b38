"""A request ends in an answer, a refusal, or a connection that is broken off."""

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


def test_an_answer_goes_through_and_its_status_is_known():
    status, sent = run(PlainTextResponse("so it is", 202))
    assert status == 202
    assert sent[-1]["body"] == b"so it is"


def test_an_error_of_the_user_is_answered_with_its_status():
    status, sent = run(raising(NoSuchPath("there is nothing at /here")))
    assert status == 404
    assert b"there is nothing at /here" in sent[-1]["body"]


def test_a_server_may_refuse_in_its_own_words():
    status, sent = run(
        raising(ValueError("odd")), refusal=lambda error, where: PlainTextResponse(f"{where}: {error}", 418)
    )
    assert (status, sent[-1]["body"]) == (418, b"GET /here: odd")


@pytest.mark.parametrize("gone", [Disconnected(), ClientDisconnect()])
def test_a_client_that_disconnected_gets_no_answer(gone):
    assert run(raising(gone)) == (0, [])


def test_an_error_after_the_status_was_sent_is_logged_and_closes_the_connection(monkeypatch):
    said = io.StringIO()
    apart = logging.Logger("apart")  # other tests may have turned the usual one off
    apart.addHandler(logging.StreamHandler(said))
    monkeypatch.setattr(request_handler, "log", apart)
    with pytest.raises(BrokeOff):
        run(raising(ValueError("odd"), after=True))
    assert "GET /here broke off" in said.getvalue()
    assert "odd" in said.getvalue()
