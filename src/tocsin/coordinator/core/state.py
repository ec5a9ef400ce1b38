"""The coordinator as a pure state machine: ``handle(event, now) -> [instruction]``.

It believes brokers about who is with them, and the newest of two that claim the same subscriber. Nothing it knows of
subscribers is kept: after a restart brokers report everything again, and nobody is moved before all of them have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tocsin.balancing.decisions import Plan
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Instruction
from tocsin.coordinator.core.reconfiguration import Switching

#: Seconds between two ticks after which the coordinator must have slept; they come every second.
LATE = 2.5
TICK = 1.0
#: Seconds between two looks for what can be forgotten.
TIDY = 60.0
#: How much of what it was late is still counted a tick later.
CALMING = 0.8


class CoordinatorState(Switching):
    """The whole: events to their handlers, and what happens as time passes."""

    def handle(self, event: ev.Event, now: float) -> list[Instruction]:
        self._now = max(self._now, now)
        if self._started is None:
            self._started = self._now
        # What an event left that ended in an error belongs to nobody else's answer.
        self._out = []
        _HANDLERS[type(event)](self, event)
        return self._out

    def _tick(self, event: ev.Tick) -> None:
        self._wake()
        self._bury()
        self._give_up()
        self._settle()
        if self._now - self._tidied >= TIDY:
            self._tidied = self._now
            self.picture.tidy(self._now)
            self._expect_no_more()
        if self._now - self._balanced >= self.config.balance_every and self._complete():
            self._balanced = self._now
            self._balance()
            self._out.append(self._sample())

    def _wake(self) -> None:
        """Whoever slept cannot say that the others were silent: their reports wait to be read."""
        slept = 0.0 if self._ticked is None else self._now - self._ticked
        self._ticked = self._now
        self._lag = max(slept - TICK, self._lag * CALMING)
        if slept > LATE:
            for member in self.members.values():
                member.heard = None if member.heard is None else min(self._now, member.heard + slept)

    def _complete(self) -> bool:
        """Whether all brokers have reported, or had the time to: half a picture would move half a city."""
        assert self._started is not None
        patient = self._now - self._started < self.config.gone_after
        missing = any(each.heard is None for each in self.members.values())
        if patient and missing:
            return False
        return not any((each.alive and each.behind) or self._missed(each) for each in self.members.values())

    def _balance(self) -> None:
        # It finds nothing to drop: what became pointless was called off when it did.
        if not self.apart:
            before = self._cov()
            self._begin(self.balancer.plan(self._now), before)
        elif self._asked is None:
            self._asked = self._ponder(self.balancer.ask(self._now))

    def _pondered(self, event: ev.PlanReady) -> None:
        if event.number == self._looked:
            self._show(event.plan)
        elif event.number == self._asked:
            self._asked = None
            if event.plan is not None:
                before = self._cov()
                plan = self.balancer.adopt(event.plan, self._now)
                self._begin(plan, before)
                # They were right when the plan was made; that they are not any more is worth knowing.
                self._out += [self._note(each) for each in plan.decisions if not each.accepted]

    def _begin(self, plan: Plan, before: float) -> None:
        for move in plan.moves:
            self._queue(move)
        if plan.moves:
            self._out.append(self._summary(plan.moves, before))
        self._out += [self._note(each) for each in plan.decisions if each.accepted]
        self._note_patience()


_HANDLERS: dict[type[Any], Callable[[CoordinatorState, Any], None]] = {
    ev.Restored: CoordinatorState._restored,
    ev.Register: CoordinatorState._register,
    ev.Report: CoordinatorState._report,
    ev.Leave: CoordinatorState._leave,
    ev.Place: CoordinatorState._place,
    ev.Drain: CoordinatorState._drain,
    ev.Forget: CoordinatorState._forget,
    ev.Switch: CoordinatorState._switch,
    ev.Plan: CoordinatorState._plan,
    ev.PlanReady: CoordinatorState._pondered,
    ev.Topology: CoordinatorState._topology,
    ev.Tick: CoordinatorState._tick,
}
