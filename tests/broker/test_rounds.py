"""Reports to the coordinator: registered first, in order, and what did not arrive is said again."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tocsin.broker.core import events as ev
from tocsin.broker.core.state import BrokerState
from tocsin.broker.upstream.effects import Lost, Pause, Refused
from tocsin.broker.upstream.heartbeat import Account, Enrol, Heartbeat
from tocsin.config import BrokerConfig
from tocsin.wire import messages as wire
from tocsin.wire.reports import MigrationOrder, Registered, Registration, ReportReply

ABOUT = Registered("b", "00", "token", 2.0)


class Walk:
    """The rounds of a broker with one subscriber, one step at a time."""

    def __init__(self) -> None:
        self.state = BrokerState(BrokerConfig(name="b"))
        self.state.handle(ev.Opened(1, "address"), 0.0)
        self.state.handle(ev.Received(1, [wire.Hello(1, subscriber="ann")]), 0.0)
        self.handled: list[Any] = []
        self.enrolled: list[Registered] = []
        self.rounds = Heartbeat(
            self.state,
            Registration("b", "http://b"),
            self.handled.append,
            lambda: 1.0,
            Random(1),
            enrolled=self.enrolled.append,
        )
        self.steps = self.rounds.run()
        self.wish = next(self.steps)

    def send(self, value: Any = None) -> Any:
        self.wish = self.steps.throw(value) if isinstance(value, Exception) else self.steps.send(value)
        return self.wish


@pytest.fixture
def walk() -> Walk:
    return Walk()


def test_the_first_report_is_full_and_the_next_ones_are_what_has_changed(walk):
    assert walk.wish == Enrol(Registration("b", "http://b"))
    first = walk.send(ABOUT)
    assert walk.enrolled == [ABOUT] and walk.rounds.registered
    assert isinstance(first, Account) and first.token == "token"
    assert (first.report.number, first.report.full, list(first.report.subscribers)) == (1, True, ["ann"])
    assert walk.send(ReportReply(1)) == Pause(ABOUT.interval)
    second = walk.send()
    assert (second.report.number, second.report.full, second.report.subscribers) == (2, False, {})


def test_who_is_asked_for_everything_says_it_at_once(walk):
    walk.send(ABOUT)
    assert walk.send(ReportReply(1, full=True)) == Pause(0.0)
    assert walk.send().report.full


def test_orders_are_carried_out(walk):
    walk.send(ABOUT)
    orders = ReportReply(1, moves=[MigrationOrder("ann", "c", "http://c", "ticket")])
    walk.send(orders)
    assert walk.handled == [ev.Ordered(orders)]


@pytest.mark.parametrize("error", [Lost("no answer"), Refused({"message": "who are you?"}, 401)])
def test_a_report_that_did_not_arrive_is_put_back_and_the_broker_registers_again(walk, error):
    walk.send(ABOUT)
    walk.send(ReportReply(1))
    walk.state.handle(ev.Closed(1), 1.0)
    assert walk.send().report.left == ["ann"]
    pause = walk.send(error)
    assert isinstance(pause, Pause) and not walk.rounds.registered
    assert isinstance(walk.send(), Enrol)
    assert walk.state.changes(9, 2.0, full=False).left == ["ann"]
    assert walk.send(ABOUT).report.full


def test_the_coordinator_is_asked_less_and_less_often(walk):
    pauses = []
    for _ in range(8):
        pauses.append(walk.send(Lost()).seconds)
        assert isinstance(walk.send(), Enrol)
    assert max(pauses[:2]) < min(pauses[4:]) and max(pauses) <= 5.0
