"""User and password for a token, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from scripted_http_server import ScriptedHandler, scripted_server

from tocsin.client.core.login import Tokens
from tocsin.client.http_post import Credentials, login, refresh
from tocsin.errors import SystemFailure, TocsinError, Unauthorized, Unreachable, UserError


@pytest.fixture
def url() -> Iterator[str]:
    with scripted_server() as address:
        yield address


def test_a_login_gives_a_token(url):
    ScriptedHandler.answer = (200, b'{"token": "t", "expires": 12.5, "seconds": 60, "refresh": "r"}')
    assert asyncio.run(login(url, Credentials("ann", "secret", "phone"))) == Tokens("t", 60, "r")
    assert ScriptedHandler.received == [("/login", {"user": "ann", "password": "secret", "device": "phone"})]


def test_a_refresh_needs_no_password(url):
    ScriptedHandler.answer = (200, b'{"token": "t", "expires": 12.5, "seconds": 60, "refresh": "r"}')
    assert asyncio.run(refresh(url, "r")) == Tokens("t", 60, "r")
    assert ScriptedHandler.received == [("/refresh", {"refresh": "r"})]


def test_tokens_are_not_shown():
    assert "secret" not in repr(Tokens("secret", 60, "secret"))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, b'{"error": {"code": "unauthorized", "message": "no", "hint": "look"}}', Unauthorized),
        (401, b"<html>", Unauthorized),
        (404, b"", UserError),
        (200, b"{}", UserError),
        (503, b"", SystemFailure),
        (503, b'{"error": {"code": "busy", "message": "later"}}', SystemFailure),
    ],
)
def test_other_answers_are_errors(url, status, body, kind):
    ScriptedHandler.answer = (status, body)
    with pytest.raises(TocsinError) as caught:
        asyncio.run(login(url, Credentials("ann", "secret")))
    assert isinstance(caught.value, kind)


def test_a_server_that_is_not_there_is_unreachable():
    with pytest.raises(Unreachable):
        asyncio.run(login("http://127.0.0.1:1", Credentials("ann", "secret")))
