"""The coordinator: the production state machine, and what its store keeps from one life to the next."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from tocsin.balancing.balancer import answer
from tocsin.broker.upstream.effects import Refused
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.members import Transfer
from tocsin.coordinator.core.state import CoordinatorState
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done
from tocsin.simulation.nodes.broker import EPOCH
from tocsin.wire import reports

_registration = msgspec.json.Decoder(reports.Registration)
_report = msgspec.json.Decoder(reports.LoadReport)
_request = msgspec.json.Decoder(reports.BrokerRequest)


class Refusal(Refused):
    """With the error that the client is to hear."""

    def __init__(self, error: Exception) -> None:
        super().__init__({"message": str(error)})
        self.why = error


class CoordinatorNode(Node):
    """``machine`` makes the state machine, so that a test can put a broken one in its place."""

    machine: type[CoordinatorState] = CoordinatorState

    def __init__(self, config: CoordinatorConfig, network: Network, rng: Random) -> None:
        super().__init__("coordinator", network)
        self.config, self.rng = config, rng
        self.secret = rng.randbytes(32)
        self.rows: dict[str, ev.BrokerRow] = {}  # the durable store
        self.choice: ev.Choice | None = None
        self.moves = 0
        self.complaints: list[str] = []  # about what it decided
        self.last_move = 0.0

    def boot(self) -> None:
        super().boot()
        self.state = self.machine(
            self.config,
            self.secret,
            self.rng,
            lambda: EPOCH + self.clock.now,
            lambda: self.rng.randbytes(9).hex(),
            apart=True,
        )
        self.tell(ev.Restored([self.rows[name] for name in sorted(self.rows)], self.choice))
        self.later(1.0, self._tick)

    def _tick(self) -> None:
        self.tell(ev.Tick())
        self.later(1.0, self._tick)

    def tell(self, event: ev.Event) -> tuple[Any, Exception | None]:
        """The reply, or what it refuses with."""
        reply: Any = None
        error: Exception | None = None
        before = dict(self.state.transfers)
        for it in self.state.handle(event, self.clock.now):
            match it:
                case ev.Reply():
                    reply = it.body
                case ev.Refuse():
                    error = Refusal(it.error)
                case ev.KeepBroker():
                    self.rows[it.row.name] = it.row
                case ev.DropBroker():
                    self.rows.pop(it.name, None)
                case ev.KeepChoice():
                    self.choice = it.choice
                case ev.Note():
                    self._note(it)
                case ev.RequestPlan():
                    # It takes its time, as it does in a process of its own, and the load goes on changing.
                    self.later(self.rng.choice((0.0, 0.05, 1.5)), self._pondered, it)
        if isinstance(event, ev.PlanReady):
            self._weigh(before)
        return reply, error

    def _pondered(self, it: ev.RequestPlan) -> None:
        self.tell(ev.PlanReady(it.number, answer(it.question)))

    def _weigh(self, before: dict[str, Transfer]) -> None:
        """A plan counts on the load as if all moves under way were done, and never raises the highest of it.

        Emptying a broker may.
        """
        now, load = self.state.transfers, self.state.load
        old = [each.move for name, each in before.items() if now.get(name) is each]
        new = [each.move for name, each in now.items() if before.get(name) is not each]
        if not new:
            return
        was = load.as_if(move for move in old if load.at[move.subscriber] == move.source).maximum
        then = load.as_if(move for move in old + new if load.at[move.subscriber] == move.source).maximum
        counted = next(each.before for each in self.state.balancer.latest.decisions if each.accepted)
        if abs(counted - was) > 1e-9 * was:
            self.complaints.append(f"at {self.clock.now:.1f} a plan takes the highest load for {counted}, it is {was}")
        if then > was * (1 + 1e-9) and not any(move.must for move in old + new):
            self.complaints.append(f"at {self.clock.now:.1f} a plan raises the highest load from {was} to {then}")

    def order(self, event: ev.Event) -> None:
        """What an operator wants; whether it is refused is the operator's business."""
        self.tell(event)

    def _note(self, note: ev.Note) -> None:
        if note.kind == "move" and note.text.startswith("accepted"):
            self.moves += 1
            self.last_move = self.clock.now
        if self.trace:
            way = f" {note.source or '?'} to {note.target}" if note.subscriber and note.target else ""
            self.trace.say(self.name, f"{note.kind} {note.subscriber}{way}: {note.text}")

    # -- what it is asked; bodies are JSON

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
        reply, error = self.tell(event)
        done(None if error is not None else msgspec.json.encode(reply), error)
