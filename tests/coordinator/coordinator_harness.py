"""The coordinator's state machine with a simulated clock; the test plays the brokers."""

from __future__ import annotations

import itertools
import random
from typing import Any

from tocsin.balancing.central_host import plan_for
from tocsin.config import CoordinatorConfig, CoordinatorLimits
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.wire import reports
from tocsin.wire.join import Join
from tocsin.wire.tickets import TicketVerifier

SECRET = b"s" * 32
LIMITS = {"per_broker", "in_flight", "per_second", "cool_down", "least_gain", "migration_timeout"}


class CoordinatorHarness:
    """``notes``, ``samples`` and ``kept`` collect instructions; ``now`` changes only when the test changes it.

    ``offloaded``: plans are not made until the test calls ``make_plan``.
    """

    def __init__(self, now: float = 1000.0, *, offloaded: bool = False, **settings: Any) -> None:
        self.offloaded = offloaded
        limits = {name: settings.pop(name) for name in LIMITS & settings.keys()}
        self.config = CoordinatorConfig(limits=CoordinatorLimits(**limits), **{"strategy": "ldm", **settings})
        self.now = now
        self.kept: dict[str, ev.BrokerRow] = {}
        self.choice: ev.Choice | None = None
        self.notes: list[ev.Note] = []
        self.samples: list[ev.Sample] = []
        self._nonces = map(str, itertools.count())
        self.restart()

    def restart(self) -> None:
        """Starts again with nothing but the stored rows."""
        self.state = CoordinatorState(
            self.config,
            SECRET,
            random.Random(1),
            lambda: 1e9 + self.now,
            lambda: next(self._nonces),
            offloaded=self.offloaded,
        )
        self.plan_requests: list[ev.RequestPlan] = []
        self._tokens: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self.handle(ev.Restored(list(self.kept.values()), self.choice))

    def handle(self, event: ev.Event) -> Any:
        found: Any = None
        for instruction in self.state.handle(event, self.now):
            match instruction:
                case ev.Reply():
                    found = instruction.body
                case ev.Refuse():
                    raise instruction.error
                case ev.SaveBroker():
                    self.kept[instruction.row.name] = instruction.row
                case ev.DeleteBroker():
                    del self.kept[instruction.name]
                case ev.SaveChoice():
                    self.choice = instruction.choice
                case ev.Note():
                    self.notes.append(instruction)
                case ev.Sample():
                    self.samples.append(instruction)
                case ev.RequestPlan():
                    self.plan_requests.append(instruction)
        return found

    def make_plan(self) -> Any:
        """Answers the oldest plan request, if there is one."""
        if self.plan_requests:
            oldest = self.plan_requests.pop(0)
            return self.handle(ev.PlanReady(oldest.number, plan_for(oldest.request)))
        return None

    def register(self, broker: str, **fields: Any) -> reports.Registered:
        url = fields.pop("url", f"http://{broker}")
        if "key" in fields:
            fields["join"] = Join(fields.pop("key"), 0.0, "")
        found: reports.Registered = self.handle(ev.Register(0, reports.Registration(broker, url, **fields)))
        self._tokens[broker], self._numbers[broker] = found.token, 0
        return found

    def report(
        self, broker: str, subscribers: dict[str, list[int]] | None = None, **fields: Any
    ) -> reports.ReportReply:
        number = self._numbers[broker] = fields.pop("number", self._numbers.get(broker, 0) + 1)
        token = fields.pop("token", self._tokens.get(broker, ""))
        body = reports.LoadReport(number, subscribers=subscribers or {}, **fields)
        found: reports.ReportReply = self.handle(ev.Report(0, broker, token, body))
        return found

    def join(self, broker: str, subscribers: dict[str, list[int]] | None = None, **fields: Any) -> reports.ReportReply:
        """A broker registers and reports."""
        rates = fields.pop("rates", {})
        self.register(broker, **fields)
        return self.report(broker, subscribers, full=True, rates=rates)

    def place_and_report(self, broker: str, subscribers: dict[str, list[int]]) -> reports.ReportReply:
        """Places these subscribers at the broker, which then reports them."""
        if broker not in self._tokens:
            self.join(broker)
        others = [each for each in self.state.members if each != broker]
        for name in subscribers:
            assert self.place(name, avoid=others).broker == broker
        return self.report(broker, subscribers)

    def place(self, subscriber: str = "subscriber", **fields: Any) -> reports.Placement:
        found: reports.Placement = self.handle(ev.Place(0, reports.BrokerRequest(subscriber, **fields)))
        return found

    def drain(self, broker: str, undo: bool = False) -> Any:
        return self.handle(ev.Drain(0, broker, undo))

    def tick(self, seconds: float = 1.0) -> None:
        """Passes the time second by second, as the driver does."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + 1.0)
            self.handle(ev.Tick())

    def run(self, seconds: float, *brokers: str) -> list[reports.MigrationOrder]:
        """Passes time in which these brokers report; gives their orders."""
        found = []
        for _ in range(int(seconds)):
            self.tick()
            for broker in brokers:
                found += self.report(broker).migrations
        return found

    def at(self, subscriber: str) -> str | None:
        number = self.state.model.at(subscriber)
        return None if number < 0 else self.state.members.by_number(number).name

    def has(self, subscriber: str) -> list[int]:
        """Its BE subscriptions in the model."""
        model = self.state.model
        row = model.load.rows[model.subscribers.number(subscriber)]
        return sorted(model.subscriptions.name(int(k)) for k in row)

    def topology(self) -> Any:
        return self.handle(ev.ShowTopology(0))

    def plan(self) -> Any:
        return self.handle(ev.ShowPlan(0))

    def notes_of(self, kind: str) -> list[str]:
        return [note.text for note in self.notes if note.kind == kind]

    def verifier(self, broker: str) -> TicketVerifier:
        """Verifies tickets as this broker does."""
        found = TicketVerifier(broker, lambda: 1e9 + self.now)
        found.key = bytes.fromhex(self.register(broker).key)
        return found


def crowd(count: int, *subscriptions: int) -> dict[str, list[int]]:
    return {f"subscriber-{number:04}": list(subscriptions) for number in range(count)}


def lopsided(**settings: Any) -> CoordinatorHarness:
    """``a`` has ten subscribers with one BE subscription each, ``b`` has none."""
    harness = CoordinatorHarness(**settings)
    subscribers = {f"subscriber-{number:04}": [number] for number in range(10)}
    harness.join("a", subscribers, rates=dict.fromkeys(range(10), 100.0))
    harness.join("b")
    return harness
