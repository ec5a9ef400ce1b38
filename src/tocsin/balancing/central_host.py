"""The host that decides about all brokers. Strategies suggest, it decides.

It iterates on a what-if of the load, as if all pending migrations were done, takes the suggestions of all concerns in
order of priority one by one, and accepts those to which no guard objects. It has authority: brokers carry out what it
orders without a session. It records each decision with its reason, and balancers learn what was refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tocsin.balancing.central_guards import ALWAYS, AtMost, CentralGuard, Effect, PlanInFlight, effects, guards_of
from tocsin.balancing.decisions import EXECUTES, Decision, Limits, Plan, Reason
from tocsin.balancing.host.load_balancer import Deferral, check_actions
from tocsin.balancing.host.scope import Scope
from tocsin.balancing.model.arrays import Ints
from tocsin.balancing.model.load import Load, Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.plan_request import PlanRequest
from tocsin.balancing.strategies.strategy import Strategy, manager_of, plan_scope, suggestions

#: How often migrations without room at the target are tried, after others have made room.
ROUNDS = 3
#: Consecutive refusals that mean "wait", per migration that may be pending, after which the rest can wait.
FUTILE = 10
#: Refusals that a plan made elsewhere brings back.
REFUSALS = 1_000

Suggestions = Iterable[tuple[str, Migration]]


class CentralHost:
    """Applies one strategy to one load. ``pending`` is the registry of all migrations that are queued or in flight.

    ``guards``: beside those that are always there; by default those of the ``limits``.
    """

    def __init__(
        self,
        load: Load,
        strategy: Strategy,
        limits: Limits | None = None,
        guards: Sequence[CentralGuard] | None = None,
    ) -> None:
        self.load = load
        self.pending: dict[int, Migration] = {}
        self.ended_at: dict[int, float] = {}
        self.latest = Plan()
        #: Since the last ``request_plan``: the status of every broker then, and the ids given to other subscribers.
        self._status_then: Ints = load.status.copy()
        self._reused: set[int] = set()
        self.use(strategy, guards_of(limits or Limits()) if guards is None else guards)

    def use(self, strategy: Strategy, guards: Sequence[CentralGuard]) -> None:
        """Exchange the components; pending migrations go on."""
        self._assemble(strategy, guards)
        for concern in self.manager.concerns:
            if (begin := getattr(concern.balancer, "begin", None)) is not None:
                begin()

    def _assemble(self, strategy: Strategy, guards: Sequence[CentralGuard]) -> None:
        self.strategy, self.guards = strategy, list(guards)
        self.manager = manager_of(strategy)
        check_actions((concern.balancer for concern in self.manager.concerns), EXECUTES)
        self._checks = effects([*ALWAYS, *guards])
        limited = [guard.migrations for guard in guards if isinstance(guard, AtMost)]
        self._futile = FUTILE * min(limited, default=Limits.in_flight)
        self._remembered = max((getattr(guard, "seconds", 0.0) for guard in guards), default=0.0)

    # Results of migrations.

    def ended(self, u: int, now: float) -> None:
        """Guards may keep the subscriber where it is for a while: if its migration failed, the next may fail too."""
        if self.pending.pop(u, None) is not None:
            self.ended_at[u] = now

    def forget(self, u: int) -> None:
        """The subscriber has left, and its id may be given to another."""
        self.pending.pop(u, None)
        self.ended_at.pop(u, None)
        self._reused.add(u)

    # Plans.

    def projected(self, only: Iterable[Migration] | None = None) -> WhatIf:
        """The load as if all pending migrations were done. ``only``: the migrations to try on it, if they are few."""
        us = None if only is None else [migration.subscriber for migration in (*only, *self.pending.values())]
        known = None if us is None else np.array([u for u in us if 0 <= u < len(self.load.at)], dtype=np.int64)
        trial = WhatIf(self.load, known)
        for migration in self.pending.values():
            if trial.at[migration.subscriber] == migration.source:
                trial.migrate(migration.subscriber, migration.target)
        return trial

    def plan(self, now: float) -> Plan:
        """One evaluation: drop pointless migrations, iterate over all concerns, decide."""
        self._plan(now)
        self._conclude(self.latest, self.latest.decisions, now)
        return self.latest

    def _plan(self, now: float) -> None:
        self.latest = Plan()
        self._drop(self.latest, now)
        scope = plan_scope(self.projected(), now)
        self.latest.found = scope.found
        self._decide(suggestions(self.manager, scope), self.projected(), now)

    # The same in two halves, so that time may pass and the load may change between them.

    def snapshot(self, now: float) -> PlanRequest:
        """``plan_for`` this makes the plan of this moment and changes nothing here."""
        load, pending, ended = self.load.snapshot(), dict(self.pending), dict(self.ended_at)
        return PlanRequest(load, self.strategy, self.guards, pending, ended, now)

    def request_plan(self, now: float) -> PlanRequest:
        """A request whose plan will be adopted."""
        self.latest = Plan()
        self._drop(self.latest, now)
        self._status_then, self._reused = self.load.status.copy(), set()
        return self.snapshot(now)

    def adopt(self, made: Plan, now: float) -> Plan:
        """Accept those migrations of the plan that are still right; refuse each of the others with its reason."""
        plan = self.latest = Plan(found=made.found)
        self._drop(plan, now)
        current: list[tuple[str, Migration]] = []
        for decision in made.decisions:
            if decision.accepted and self._outdated(decision.migration):
                plan.decisions.append(Decision(now, decision.migration, Reason.POINTLESS, 0.0, 0.0))
            elif decision.accepted:
                current.append((decision.criterion, decision.migration))
        self._decide(current, self.projected([migration for _, migration in current]), now)
        self._conclude(plan, [*(each for each in made.decisions if not each.accepted), *plan.decisions], now)
        return plan

    def _outdated(self, migration: Migration) -> bool:
        """The subscriber left and its id is another's, or its broker is not being drained any more."""
        return migration.subscriber in self._reused or (
            migration.mandatory and self._status_then[migration.source] != self.load.status[migration.source]
        )

    def _conclude(self, plan: Plan, decisions: Iterable[Decision], now: float) -> None:
        """Balancers learn what came of their suggestions."""
        learners: dict[str, list[Any]] = {}
        for concern in self.manager.concerns:
            if hasattr(concern.balancer, "concluded"):
                concern.balancer.concluded(plan.found.get(concern.criterion), len(plan.migrations), now)
            if hasattr(concern.balancer, "refused"):
                learners.setdefault(concern.criterion, []).append(concern.balancer)
        for decision in decisions if learners else ():
            for learner in learners.get(decision.criterion, ()) if not decision.accepted else ():
                learner.refused(decision.migration, str(decision.reason), now)

    def deferral(self, now: float, plan: Plan | None = None) -> Deferral | None:
        """What the strategy holds back, by this plan or as of the latest evaluation."""
        for concern in self.manager.concerns:
            if hasattr(concern.balancer, "deferral"):
                found = None if plan is None else plan.found.get(concern.criterion)
                held: Deferral | None = concern.balancer.deferral(found, now)
                if held is not None:
                    return held
        return None

    # Decisions.

    def _drop(self, plan: Plan, now: float) -> None:
        for u, migration in list(self.pending.items()):
            at = int(self.load.at[u])
            if at == migration.target:
                self.ended(u, now)
            elif at != migration.source or self.load.status[migration.target] >= Status.DRAINING:
                del self.pending[u]
                plan.dropped.append(migration)
                plan.decisions.append(Decision(now, migration, Reason.POINTLESS, 0.0, 0.0))
        self.ended_at = {u: ended for u, ended in self.ended_at.items() if now < ended + self._remembered}

    def _decide(self, suggested: Suggestions, trial: WhatIf, now: float) -> None:
        plan, scope = self.latest, plan_scope(trial, now)
        ceiling = trial.loads.maximum
        in_flight = PlanInFlight(self.pending, self.ended_at, ceiling, [0] * trial.m, [0] * trial.m)
        for migration in self.pending.values():
            in_flight.count(migration)
        waiting = 0
        for turn in range(ROUNDS):
            again: list[tuple[str, Migration]] = []
            for criterion, migration in suggested:
                reason, effect = self._judge(scope, criterion, migration, in_flight)
                if effect is Effect.RETRY and turn < ROUNDS - 1:
                    again.append((criterion, migration))
                    continue
                before = after = ceiling
                if effect is None:
                    before = trial.loads.maximum
                    trial.apply(migration)
                    in_flight.add(migration)
                    plan.migrations.append(migration)
                    after = trial.loads.maximum
                plan.decisions.append(Decision(now, migration, reason, before, after, criterion))
                waiting = waiting + 1 if effect is Effect.WAIT else 0
                if effect is Effect.STOP or waiting > self._futile:
                    return
            suggested = again
            if not again:
                return

    def _judge(
        self, scope: Scope[WhatIf], criterion: str, migration: Migration, in_flight: PlanInFlight
    ) -> tuple[str, Effect | None]:
        for guard, effect in self._checks:
            objection = guard.objection(scope, criterion, migration, in_flight)
            if objection is not None:
                return objection, effect
        return Reason.ACCEPTED, None


def plan_for(request: PlanRequest) -> Plan:
    """The plan for the moment of the request, with the first refusals only."""
    host = object.__new__(CentralHost)
    host.load, host.pending, host.ended_at = request.load, dict(request.pending), dict(request.ended)
    host._assemble(request.strategy, request.guards)
    host._plan(request.now)
    plan = host.latest
    refused = [each for each in plan.decisions if not each.accepted][:REFUSALS]
    decisions = [each for each in plan.decisions if each.accepted] + refused
    return Plan(plan.migrations, plan.dropped, decisions, plan.found)
