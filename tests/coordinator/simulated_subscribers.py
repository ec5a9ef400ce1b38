"""A small model of brokers and subscribers around the real state machine of the coordinator.

It knows which subscriber is connected to which broker and reports that as brokers do: with reports that are lost,
late or repeated, from brokers that die and return. Every reply of the coordinator is checked at once.
"""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from typing import Any

from coordinator_harness import CoordinatorHarness

from tocsin.coordinator.core import events as ev
from tocsin.errors import Busy, Unauthorized
from tocsin.wire import reports
from tocsin.wire.join import Join
from tocsin.wire.tickets import TicketVerifier

SUBSCRIPTIONS = 6
MOST = 6
FATES = ("ok", "ok", "ok", "ok", "lost", "reply lost", "late", "twice")
MANNERS = ("go", "go", "linger", "leave first", "stay", "mute", "astray")
LIMITS = {"in_flight": 4, "per_broker": 3, "per_second": 2.0, "cool_down": 5.0, "migration_timeout": 8.0}


class ModelBroker:
    """``here``: the connected subscribers with their BE subscriptions. The rest is the state of a reporter."""

    def __init__(self, name: str, simulated: SimulatedSubscribers) -> None:
        self.name, self.simulated = name, simulated
        self.up = False
        self.start()

    def start(self) -> None:
        self.up = True
        self.here: dict[str, set[int]] = {}
        self.changed: dict[str, None] = {}
        self.reported: dict[int, float] = {}
        self.outcomes: list[reports.FailedMigration] = []
        self.token = ""
        self.verifier = TicketVerifier(self.name, lambda: 1e9 + self.simulated.harness.now)

    def connect(self, name: str, ticket: str | None = None) -> bool:
        if not self.up or (len(self.here) >= MOST and name not in self.here):
            return False
        if ticket is not None and self.verifier.refuses(ticket, name) is not None:
            return False
        self.here[name] = set(self.simulated.subscriptions[name])
        self.changed[name] = None
        return True

    def disconnect(self, name: str) -> None:
        if self.here.pop(name, None) is not None:
            self.changed[name] = None

    def report(self, fate: str, manner: str) -> None:
        if not self.token and not self._register(fate):
            return
        self.number += 1
        body = self._changes()
        orders: reports.ReportReply | None = None
        try:
            if fate == "late":
                self.simulated.late.append((self.name, self.token, body))
            elif fate != "lost":
                orders = self.simulated.receive(self.name, self.token, body)
            if fate == "twice":
                again = self.simulated.receive(self.name, self.token, body)
                assert again.migrations == [] and again.drop == [] and not again.full
        except Unauthorized:
            orders = None
        if orders is None or fate == "reply lost":
            self._put_back(body)
            self.token = ""
            return
        self.full = orders.full
        for order in orders.migrations:
            self.simulated.order(self, order, manner)
        for name in orders.drop:
            self.disconnect(name)

    def _register(self, fate: str) -> bool:
        if fate in ("lost", "late"):
            return False
        registration = reports.Registration(
            self.name, f"http://{self.name}", Join(self.name, 0.0, ""), max_subscribers=MOST
        )
        found = self.simulated.harness.handle(ev.Register(0, registration))
        if fate == "reply lost":
            return False
        self.token, self.number, self.full = found.token, 0, True
        self.verifier.key = bytes.fromhex(found.key)
        return True

    def _changes(self) -> reports.LoadReport:
        names = self.here if self.full else self.changed
        subscribers = {name: sorted(self.here[name]) for name in names if name in self.here}
        left = [name for name in names if name not in self.here]
        held = {k for row in self.here.values() for k in row}
        rates = {
            k: self.simulated.rates[k]
            for k in sorted(held)
            if self.full or self.reported.get(k) != self.simulated.rates[k]
        }
        self.reported = {k: self.simulated.rates[k] for k in held}
        self.changed, outcomes, self.outcomes = {}, self.outcomes, []
        return reports.LoadReport(self.number, self.full, subscribers, left, rates, outcomes)

    def _put_back(self, body: reports.LoadReport) -> None:
        self.changed = dict.fromkeys([*body.subscribers, *body.left]) | self.changed
        self.outcomes = body.outcomes + self.outcomes
        for k in body.rates:
            self.reported.pop(k, None)


class SimulatedSubscribers:
    def __init__(self, **settings: Any) -> None:
        self.harness = CoordinatorHarness(
            **{"balance_every": 3.0, "gone_after": 6.0, "least_gain": 0.1} | LIMITS | settings
        )
        self.brokers: dict[str, ModelBroker] = {}
        self.subscriptions: dict[str, set[int]] = {}  # the BE subscriptions of those online
        self.rates: dict[int, float] = {k: 10.0 * (k + 1) for k in range(SUBSCRIPTIONS)}
        self.late: list[tuple[str, str, reports.LoadReport]] = []
        self.later: list[tuple[str, str, str, str | None]] = []  # (what, subscriber, broker, ticket)
        self.issued: list[tuple[str, float]] = []
        self.history: list[Any] = []
        self._since = 0
        self.harness.state.model.unexpected_timeout = 20.0

    # -- what can happen

    def broker(self, which: int) -> ModelBroker:
        """Creates it if it does not exist yet."""
        name = "abcd"[which % 4]
        if name not in self.brokers:
            self.brokers[name] = ModelBroker(name, self)
        return self.brokers[name]

    def subscriber(self, who: int) -> str:
        return f"subscriber-{who % 12:02}"

    def connect(self, who: int, where: int) -> None:
        """Connects to a broker of the subscriber's choice; it may be at another one as well."""
        name = self.subscriber(who)
        self.subscriptions.setdefault(name, {who % SUBSCRIPTIONS})
        self.broker(where).connect(name)

    def place(self, who: int) -> None:
        name = self.subscriber(who)
        self.subscriptions.setdefault(name, {who % SUBSCRIPTIONS})
        try:
            found = self.harness.handle(ev.Place(0, reports.BrokerRequest(name)))
        except Busy:
            return
        assert self._usable(found.broker)
        broker = self.brokers[found.broker]
        if broker.connect(name, found.ticket):
            assert broker.verifier.refuses(found.ticket, name) == "the ticket was used before"

    def go_offline(self, who: int) -> None:
        """Closes every connection of the subscriber."""
        name = self.subscriber(who)
        self.subscriptions.pop(name, None)
        for broker in self.brokers.values():
            broker.disconnect(name)

    def cut(self, who: int, where: int) -> None:
        """Breaks one connection."""
        self.broker(where).disconnect(self.subscriber(who))

    def toggle(self, who: int, subscription: int) -> None:
        """Subscribes, or unsubscribes if it is subscribed."""
        name = self.subscriber(who)
        if name in self.subscriptions:
            self.subscriptions[name] ^= {subscription % SUBSCRIPTIONS}
            for broker in self.brokers.values():
                if name in broker.here:
                    broker.here[name] = set(self.subscriptions[name])
                    broker.changed[name] = None

    def rate(self, subscription: int, value: int) -> None:
        self.rates[subscription % SUBSCRIPTIONS] = float(value)

    def report(self, which: int, fate: int = 0, manner: int = 0) -> None:
        broker = self.broker(which)
        if broker.up:
            broker.report(FATES[fate % len(FATES)], MANNERS[manner % len(MANNERS)])

    def arrive_late(self) -> None:
        """Delivers a delayed report."""
        if self.late:
            name, token, body = self.late.pop(0)
            with contextlib.suppress(Unauthorized):
                self.receive(name, token, body)

    def kill(self, which: int) -> None:
        broker = self.broker(which)
        broker.up, broker.here = False, {}

    def start(self, which: int) -> None:
        broker = self.broker(which)
        if not broker.up:
            broker.start()

    def drain(self, which: int, undo: bool = False) -> None:
        name = "abcd"[which % 4]
        if name in self.harness.state.members:
            self.harness.drain(name, undo)

    def forget(self, which: int) -> None:
        name = "abcd"[which % 4]
        member = self.harness.state.members.get(name)
        if member is not None and not member.alive:
            self.harness.handle(ev.Forget(0, name))

    def restart(self) -> None:
        """Restarts the coordinator with nothing but its store."""
        self.harness.restart()
        self.harness.state.model.unexpected_timeout = 20.0
        self._since = len(self.harness.notes)

    def do_later(self) -> None:
        """Does the next postponed step of a migration."""
        if not self.later:
            return
        what, name, broker, ticket = self.later.pop(0)
        if name in self.subscriptions:
            if what == "leave":
                if sum(name in each.here for each in self.brokers.values()) > 1:
                    self.brokers[broker].disconnect(name)
            else:
                self.brokers[broker].connect(name, ticket)

    def tick(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            self.harness.tick()
            self.check()

    def make_plan(self) -> None:
        """Answers a plan request made some time ago."""
        self.harness.make_plan()
        self.check()

    # -- how replies of the coordinator are handled

    def receive(self, name: str, token: str, body: reports.LoadReport) -> reports.ReportReply:
        orders: reports.ReportReply = self.harness.handle(ev.Report(0, name, token, body))
        self.history.append(orders)
        self.check()
        for order in orders.migrations:
            self.issued.append((name, self.harness.now))
            assert self._usable(order.broker), f"an order to {order.broker}"
        return orders

    def order(self, source: ModelBroker, order: reports.MigrationOrder, manner: str) -> None:
        name, target = order.subscriber, self.brokers[order.broker]
        self._check_no_other_broker_accepts(order)
        if name not in source.here:
            source.outcomes.append(reports.FailedMigration(order.ticket, "the subscriber is not here"))
        elif manner == "stay":
            source.outcomes.append(reports.FailedMigration(order.ticket, "the subscriber stays"))
        elif manner == "leave first":
            source.disconnect(name)
            self.later.append(("come", name, target.name, order.ticket))
        elif manner == "astray":
            self.connect(int(name[-2:]), len(self.history))
        elif manner != "mute":
            if not target.connect(name, order.ticket):
                source.outcomes.append(reports.FailedMigration(order.ticket, "no way there"))
            elif manner == "linger":
                self.later.append(("leave", name, source.name, None))
            else:
                source.disconnect(name)

    def _check_no_other_broker_accepts(self, order: reports.MigrationOrder) -> None:
        for broker in self.brokers.values():
            if broker.name != order.broker:
                assert broker.verifier.refuses(order.ticket, order.subscriber) is not None

    def _usable(self, broker: str) -> bool:
        member, load = self.harness.state.members[broker], self.harness.state.load
        return member.alive and not member.row.draining and int(load.count[member.number]) < member.row.max_subscribers

    # -- what must be true

    def check(self) -> None:
        state, limits = self.harness.state, self.harness.config.limits
        pending = state.host.pending
        in_flight = {each.subscriber for each in state.migrations._in_flight.values()}
        assert {each.subscriber for each in pending.values()} == set(pending) and in_flight <= set(pending)
        assert len(pending) <= limits.in_flight
        for side in (
            Counter(each.source for each in pending.values()),
            Counter(each.target for each in pending.values()),
        ):
            assert all(count <= limits.per_broker for count in side.values())
        self.issued = [(name, at) for name, at in self.issued if self.harness.now - at < 1.0]
        begun = Counter(name for name, _ in self.issued)
        assert all(count <= 2 * limits.per_second for count in begun.values())
        load, names = state.load, state.model.subscribers
        assert load.count.sum() == sum(at >= 0 for at in load.at) == len(names)
        assert all(load.at[names.number(name)] >= 0 for name in names), "a known subscriber has no broker"

    def settle(self, seconds: int = 60) -> None:
        """Lets time pass without failures: subscribers that are online reconnect, and all brokers report."""
        self.late.clear()
        for _ in range(seconds):
            while self.later:
                self.do_later()
            for broker in self.brokers.values():
                if broker.up:
                    broker.report("ok", "go")
            for name in self.subscriptions:
                if not any(name in broker.here for broker in self.brokers.values()):
                    self.place(int(name[-2:]))
            self.tick()
            self.make_plan()
        for broker in self.brokers.values():
            if broker.up:
                broker.report("ok", "mute")

    def actual(self) -> dict[str, tuple[str, set[int]]]:
        found: dict[str, tuple[str, set[int]]] = {}
        for broker in self.brokers.values():
            for name, row in broker.here.items():
                assert name not in found, f"{name} is with two brokers"
                found[name] = (broker.name, row)
        return found

    def modelled(self) -> dict[str, tuple[str, set[int]]]:
        """The coordinator's model."""
        return {
            name: (str(self.harness.at(name)), set(self.harness.has(name)))
            for name in self.harness.state.model.subscribers
        }

    def check_settled(self) -> None:
        actual = self.actual()
        assert self.modelled() == actual
        model = self.harness.state.model
        for k in {k for _, row in actual.values() for k in row}:
            assert model.load.lam[model.subscriptions.number(k)] == self.rates[k]
        assert not model.in_transit and not model._superseded

    def check_ended(self) -> None:
        """Every accepted migration has ended or is pending."""
        notes = [note for note in self.harness.notes[self._since :] if note.kind == "migration"]
        accepted = sum(note.text.startswith("accepted") for note in notes)
        assert accepted == len(notes) - accepted + len(self.harness.state.host.pending)

    def accepted(self) -> int:
        return sum(note.text.startswith("accepted") for note in self.harness.notes if note.kind == "migration")


def simulate(simulated: SimulatedSubscribers, seed: int, steps: int) -> SimulatedSubscribers:
    """Runs the history of a seed."""
    rng = random.Random(seed)

    def any_number() -> int:
        return rng.randrange(1000)

    def report_and_tick() -> None:
        """A second in which most reports arrive."""
        for which in range(4):
            if "abcd"[which] in simulated.brokers and rng.random() < 0.7:
                simulated.report(which, 0 if rng.random() < 0.8 else any_number(), any_number())
        simulated.tick()

    acts: list[tuple[int, Any]] = [
        (30, report_and_tick),
        (8, lambda: simulated.place(any_number())),
        (4, lambda: simulated.connect(any_number(), any_number())),
        (2, lambda: simulated.go_offline(any_number())),
        (3, lambda: simulated.cut(any_number(), any_number())),
        (5, lambda: simulated.toggle(any_number(), any_number())),
        (2, lambda: simulated.rate(any_number(), any_number())),
        (10, lambda: simulated.report(any_number(), any_number(), any_number())),
        (3, simulated.arrive_late),
        (1, lambda: simulated.kill(any_number())),
        (2, lambda: simulated.start(any_number())),
        (1, lambda: simulated.drain(any_number())),
        (2, lambda: simulated.drain(any_number(), undo=True)),
        (1, lambda: simulated.forget(any_number())),
        (1, simulated.restart),
        (6, simulated.do_later),
        (8, simulated.make_plan),
    ]
    for act in rng.choices([act for _, act in acts], [weight for weight, _ in acts], k=steps):
        act()
    return simulated
