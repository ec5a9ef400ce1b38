"""Reports to the coordinator: the broker registers first, reports in order, and repeats what did not arrive."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tocsin.broker.core import events as ev
from tocsin.broker.core.state import BrokerState
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.broker.upstream.heartbeat import Heartbeat, RegisterBroker, SendReport
from tocsin.config import BrokerConfig
from tocsin.effects import Pause
from tocsin.wire import messages as wire
from tocsin.wire.reports import MigrationOrder, Registered, Registration, ReportReply
from tocsin.wire.tickets import TicketVerifier

ABOUT = Registered("b", "00", "token", 2.0)


class HeartbeatHarness:
    """The heartbeat of a broker with one subscriber, one effect at a time."""

    def __init__(self) -> None:
        self.state = BrokerState(BrokerConfig(name="b"))
        self.state.handle(ev.Opened(1, "address"), 0.0)
        self.state.handle(ev.Received(1, [wire.Hello(1, subscriber="ann")]), 0.0)
        self.handled: list[Any] = []
        self.heartbeat = Heartbeat(
            self.state.load_reports,
            Registration("b", "http://b"),
            TicketVerifier("b", lambda: 0.0),
            self.handled.append,
            lambda: 1.0,
            Random(1),
        )
        self.steps = self.heartbeat.run()
        self.effect = next(self.steps)

    def send(self, value: Any = None) -> Any:
        self.effect = self.steps.throw(value) if isinstance(value, Exception) else self.steps.send(value)
        return self.effect


@pytest.fixture
def harness() -> HeartbeatHarness:
    return HeartbeatHarness()


def test_the_first_report_is_full_and_the_next_ones_contain_the_changes(harness):
    assert harness.effect == RegisterBroker(Registration("b", "http://b"))
    first = harness.send(ABOUT)
    assert (harness.heartbeat.token, harness.heartbeat.tickets.key) == ("token", b"\0") and harness.heartbeat.registered
    assert isinstance(first, SendReport) and first.token == "token"
    assert (first.report.number, first.report.full, list(first.report.subscribers)) == (1, True, ["ann"])
    assert harness.send(ReportReply(1)) == Pause(ABOUT.interval)
    second = harness.send()
    assert (second.report.number, second.report.full, second.report.subscribers) == (2, False, {})


def test_the_coordinator_says_when_the_next_report_is_due(harness):
    harness.send(ABOUT)
    assert harness.send(ReportReply(1, interval=0.5)) == Pause(0.5)
    harness.send()
    assert harness.send(ReportReply(2)) == Pause(ABOUT.interval)


def test_a_requested_full_report_is_sent_at_once(harness):
    harness.send(ABOUT)
    assert harness.send(ReportReply(1, full=True)) == Pause(0.0)
    assert harness.send().report.full


def test_orders_are_carried_out(harness):
    harness.send(ABOUT)
    orders = ReportReply(1, migrations=[MigrationOrder("ann", "c", "http://c", "ticket")])
    harness.send(orders)
    assert harness.handled == [ev.Ordered(orders)]


@pytest.mark.parametrize("error", [Lost("no answer"), Refused({"message": "who are you?"}, 401)])
def test_after_a_lost_report_the_broker_registers_again_and_reports_everything(harness, error):
    harness.send(ABOUT)
    harness.send(ReportReply(1))
    harness.state.handle(ev.Closed(1), 1.0)
    assert harness.send().report.left == ["ann"]
    pause = harness.send(error)
    assert isinstance(pause, Pause) and not harness.heartbeat.registered
    assert isinstance(harness.send(), RegisterBroker)
    report = harness.state.load_reports.changes(9, 2.0, full=False)
    assert report.full and report.subscribers == {}
    assert harness.send(ABOUT).report.full


def test_registration_retries_back_off(harness):
    pauses = []
    for _ in range(8):
        pauses.append(harness.send(Lost()).seconds)
        assert isinstance(harness.send(), RegisterBroker)
    assert max(pauses[:2]) < min(pauses[4:]) and max(pauses) <= 5.0
