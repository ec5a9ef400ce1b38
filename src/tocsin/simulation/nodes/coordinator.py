"""The coordinator: the production state machine, and a durable store that survives a restart."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from tocsin.balancing.central_host import plan_for
from tocsin.balancing.model.migration import Migration
from tocsin.broker.upstream.effects import Refused
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done
from tocsin.simulation.nodes.identity import Identity
from tocsin.wire import reports

_registration = msgspec.json.Decoder(reports.Registration)
_report = msgspec.json.Decoder(reports.LoadReport)
_request = msgspec.json.Decoder(reports.BrokerRequest)


class Refusal(Refused):
    """With the error for the client."""

    def __init__(self, error: Exception) -> None:
        super().__init__({"message": str(error)})
        self.why = error


class CoordinatorNode(Node):
    def __init__(self, config: CoordinatorConfig, network: Network, rng: Random) -> None:
        super().__init__("coordinator", network)
        self.config, self.rng = config, rng
        self.secret = rng.randbytes(32)
        self.rows: dict[str, ev.BrokerRow] = {}  # the durable store
        self.choice: ev.Choice | None = None
        self.migrations = 0
        self.complaints: list[str] = []  # about its decisions
        self.last_migration = 0.0
        self.identity: Identity | None = None  # without it, there are no users

    def boot(self) -> None:
        super().boot()
        self.state = CoordinatorState(
            self.config,
            self.secret,
            self.rng,
            self.wall_clock,
            lambda: self.rng.randbytes(9).hex(),
            offloaded=True,
        )
        self.handle(ev.Restored([self.rows[name] for name in sorted(self.rows)], self.choice))
        self.later(1.0, self._tick)
        if self.identity is not None:
            self.identity.boot()

    def _tick(self) -> None:
        self.handle(ev.Tick())
        self.later(1.0, self._tick)

    def handle(self, event: ev.Event) -> tuple[Any, Exception | None]:
        """The reply, or the error of a refusal."""
        reply: Any = None
        error: Exception | None = None
        before = dict(self.state.host.pending)
        for it in self.state.handle(event, self.clock.now):
            match it:
                case ev.Reply():
                    reply = it.body
                case ev.Refuse():
                    error = Refusal(it.error)
                case ev.SaveBroker():
                    self.rows[it.row.name] = it.row
                case ev.DeleteBroker():
                    self.rows.pop(it.name, None)
                case ev.SaveChoice():
                    self.choice = it.choice
                case ev.Note():
                    self._note(it)
                case ev.RequestPlan():
                    # It takes time, as in a process of its own, and the load goes on changing.
                    self.later(self.rng.choice((0.0, 0.05, 1.5)), self._plan_made, it)
        if isinstance(event, ev.PlanReady):
            self._check(before)
        return reply, error

    def _plan_made(self, it: ev.RequestPlan) -> None:
        self.handle(ev.PlanReady(it.number, plan_for(it.request)))

    def _check(self, before: dict[int, Migration]) -> None:
        """A plan is made for the load as if all pending migrations were done, and does not raise its maximum.

        Draining a broker may.
        """
        now, load = self.state.host.pending, self.state.load
        old = [each for u, each in before.items() if now.get(u) is each]
        new = [each for u, each in now.items() if before.get(u) is not each]
        if not new:
            return
        was = load.as_if(each for each in old if load.at[each.subscriber] == each.source).maximum
        then = load.as_if(each for each in old + new if load.at[each.subscriber] == each.source).maximum
        counted = next(each.before for each in self.state.host.latest.decisions if each.accepted)
        if abs(counted - was) > 1e-9 * was:
            self.complaints.append(
                f"at {self.clock.now:.1f} a plan assumes a highest load of {counted}, but it is {was}"
            )
        if then > was * (1 + 1e-9) and not any(each.mandatory for each in old + new):
            self.complaints.append(f"at {self.clock.now:.1f} a plan raises the highest load from {was} to {then}")

    def _note(self, note: ev.Note) -> None:
        if note.kind == "migration" and note.text.startswith("accepted"):
            self.migrations += 1
            self.last_migration = self.clock.now
        if self.trace:
            way = f" {note.source or '?'} to {note.target}" if note.subscriber and note.target else ""
            self.trace.say(self.name, f"{note.kind} {note.subscriber}{way}: {note.text}")

    # -- requests; bodies are JSON

    def register(self, body: bytes, done: Done) -> None:
        self._answer(ev.Register(None, _registration.decode(body)), done)

    def report(self, body: tuple[str, str, bytes], done: Done) -> None:
        broker, token, data = body
        self._answer(ev.Report(None, broker, token, _report.decode(data)), done)

    def leave(self, body: tuple[str, str], done: Done) -> None:
        self._answer(ev.Leave(None, *body), done)

    def place(self, body: bytes, done: Done) -> None:
        self._answer(ev.Place(None, _request.decode(body)), done)

    def _answer(self, event: ev.Event, done: Done) -> None:
        reply, error = self.handle(event)
        done(None if error is not None else msgspec.json.encode(reply), error)
