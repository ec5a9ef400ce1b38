"""Reports to the coordinator, step by step. While it is away, everything else goes on."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from msgspec import Struct

from tocsin.broker.core.events import Event, Ordered
from tocsin.broker.core.load_reports import Moves
from tocsin.broker.upstream.effects import Lost, Pause, Refused, Steps
from tocsin.wire.backoff import backoff
from tocsin.wire.reports import LoadReport, Registered, Registration, ReportReply

MIN_BACKOFF, MAX_BACKOFF = 0.2, 5.0


class Enrol(Struct, frozen=True):
    """Answered by Registered."""

    place: Registration


class Account(Struct, frozen=True):
    """Answered by Orders."""

    report: LoadReport
    token: str


class Heartbeat:
    """``registered``: the coordinator knows this broker, as far as this broker knows."""

    def __init__(
        self,
        state: Moves,
        place: Registration,
        handle: Callable[[Event], Any],
        now: Callable[[], float],
        rng: Random,
        *,
        enrolled: Callable[[Registered], None],
    ) -> None:
        self.state, self.place, self.handle, self.now, self.rng = state, place, handle, now, rng
        self.enrolled = enrolled
        self.registered = False

    def run(self) -> Steps[None]:
        failures = 0
        while True:
            try:
                about: Registered = yield Enrol(self.place)
                self.enrolled(about)
                failures, self.registered = 0, True
                yield from self._report(about)
            except (Lost, Refused):
                failures += 1
            self.registered = False
            yield Pause(backoff(failures + 1, MIN_BACKOFF, MAX_BACKOFF, self.rng))

    def _report(self, about: Registered) -> Steps[None]:
        """Until the coordinator fails or does not know this broker any more."""
        number, full = 0, True
        while True:
            number += 1
            report = self.state.changes(number, self.now(), full=full)
            try:
                orders: ReportReply = yield Account(report, about.token)
            except BaseException:
                self.state.put_back(report)
                raise
            full = orders.full
            if orders.migrations or orders.drop:
                self.handle(Ordered(orders))
            yield Pause(0.0 if full else about.interval)
