"""How a client gets its tokens, and keeps its position known to the broker."""

from __future__ import annotations

from typing import Any

import pytest
from client_harness import ClientHarness

from tocsin.client.core import events as ev
from tocsin.client.core.login import Login, SendPassword, SendRefresh, Tokens
from tocsin.errors import Unauthorized, Unreachable
from tocsin.wire import messages as wire
from tocsin.wire.position import Position


def answered(login: Login, *outcomes: Any) -> tuple[Tokens | Exception, list[Any]]:
    """The tokens or the error, and what was asked for."""
    effects, asked = login.tokens(), []
    try:
        asked.append(next(effects))
        for outcome in outcomes:
            more = effects.throw(outcome) if isinstance(outcome, Exception) else effects.send(outcome)
            asked.append(more)
    except StopIteration as end:
        return end.value, asked
    except (Unauthorized, Unreachable) as error:
        return error, asked
    raise AssertionError("it wants more")


def test_the_password_is_sent_once_and_the_refresh_token_after_that():
    login, first, second = Login(), Tokens("one", 9.0, "r1"), Tokens("two", 9.0, "r2")
    assert answered(login, first) == (first, [SendPassword()])
    assert answered(login, second) == (second, [SendRefresh("r1")])
    assert answered(login, first) == (first, [SendRefresh("r2")])


def test_a_session_that_has_ended_begins_again_with_the_password():
    login, tokens = Login(), Tokens("one", 9.0, "r1")
    answered(login, tokens)
    assert answered(login, Unauthorized("ended"), tokens) == (tokens, [SendRefresh("r1"), SendPassword()])
    found, asked = answered(login, Unauthorized("ended"), Unauthorized("wrong password"))
    assert isinstance(found, Unauthorized) and asked == [SendRefresh("r1"), SendPassword()]


def test_a_refresh_without_an_answer_is_repeated_later():
    login, tokens = Login(), Tokens("one", 9.0, "r1")
    answered(login, tokens)
    found, asked = answered(login, Unreachable("away"))
    assert isinstance(found, Unreachable) and asked == [SendRefresh("r1")]
    assert answered(login, tokens) == (tokens, [SendRefresh("r1")])


@pytest.mark.parametrize("live", [True, False])
def test_a_client_acknowledges_what_it_has_consumed_after_a_reconnect(live: bool):
    """The broker may not have stored the last acknowledgement."""
    client = ClientHarness(token="token").open()
    client.do(ev.SubscribeRequested(1, "C", ["fire"]))
    (request,) = client.sent_of(wire.Subscribe)
    client.receive(wire.Subscribed(request.id, 7, "C", 0, 1))
    client.receive(wire.Notify("C", 7, 5, 1, []))
    client.cut()
    client.do(ev.Consumed(1, Position(1, 5)))
    client.reconnect()
    (request,) = client.sent_of(wire.Subscribe)
    client.receive(wire.Subscribed(request.id, 7, "C", 5, 1))
    if live:
        client.receive(wire.Live(7, 5))
    client.now += 2.0
    client.do(ev.Timer())
    assert [each.positions for each in client.sent_of(wire.Ack)] == [{7: 5}]
