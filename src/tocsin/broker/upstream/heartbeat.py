"""The heartbeat: load reports to the coordinator. While the coordinator is down, everything else goes on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from tocsin.broker.core.events import Event, Ordered, PeersKnown
from tocsin.broker.core.load_reports import LoadReports
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.config import BrokerConfig
from tocsin.effects import Effects, Pause
from tocsin.wire.backoff import backoff
from tocsin.wire.reports import LoadReport, Registered, Registration, ReportReply
from tocsin.wire.tickets import TicketVerifier

MIN_BACKOFF, MAX_BACKOFF = 0.2, 5.0


class RegisterBroker(Struct, frozen=True):
    """Answered by Registered."""

    registration: Registration


class SendReport(Struct, frozen=True):
    """Answered by ReportReply."""

    report: LoadReport
    token: str


def registration(config: BrokerConfig, url: str, incarnation: str, inside: str = "") -> Registration:
    """``url`` is for subscribers, ``inside`` for other brokers."""
    return Registration(
        config.name,
        url,
        None,
        config.capacity,
        config.limits.connections,
        config.latitude,
        config.longitude,
        incarnation,
        inside if config.balancing.mode == "peers" else "",
        config.balancing.mode,
    )


class Heartbeat:
    """``registered``: the coordinator knows this broker, as far as this broker knows. ``tickets`` get its key."""

    def __init__(
        self,
        load_reports: LoadReports,
        registration: Registration,
        tickets: TicketVerifier,
        handle: Callable[[Event], Any],
        now: Callable[[], float],
        rng: Random,
    ) -> None:
        self.load_reports, self.registration, self.tickets = load_reports, registration, tickets
        self.handle, self.now, self.rng = handle, now, rng
        self.registered = False
        self.token = ""

    def run(self) -> Effects[None]:
        failures = 0
        while True:
            try:
                about: Registered = yield RegisterBroker(self.registration)
                self.tickets.key, self.token = bytes.fromhex(about.key), about.token
                failures, self.registered = 0, True
                yield from self._report(about)
            except (Lost, Refused):
                failures += 1
            self.registered = False
            yield Pause(backoff(failures + 1, MIN_BACKOFF, MAX_BACKOFF, self.rng))

    def _report(self, about: Registered) -> Effects[None]:
        """Until the coordinator fails or does not know this broker any more."""
        number, full = 0, True
        while True:
            number += 1
            report = self.load_reports.changes(number, self.now(), full=full)
            try:
                orders: ReportReply = yield SendReport(report, about.token)
            except BaseException:
                self.load_reports.put_back(report)
                raise
            full = orders.full
            if orders.peers and self.registration.balancing == "peers":
                self.handle(PeersKnown(orders.peers))
            if orders.migrations or orders.drop or orders.alternatives:
                self.handle(Ordered(orders))
            yield Pause(0.0 if full else orders.interval or about.interval)
