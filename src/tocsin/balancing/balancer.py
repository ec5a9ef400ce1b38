"""Strategies suggest, the balancer decides.

It shows the strategy the load as if all pending migrations were done, takes its suggestions one by one, and refuses a
migration to a broker that accepts no subscribers, a second migration of a subscriber that is migrating or has just
arrived, migrations beyond the limits, and those that gain too little or would raise the maximum. It records each
decision with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from tocsin.balancing.decisions import Decision, Limits, Plan, Reason
from tocsin.balancing.model.arrays import Ints, Longs
from tocsin.balancing.model.load import Load, Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.plan_request import PlanRequest
from tocsin.balancing.regroup_gate import RegroupGate
from tocsin.balancing.strategies.strategy import Strategy

#: Relative rounding error below which two loads are the same.
ROUNDING = 1e-9
#: Reason why a broker of this status accepts no subscribers; an open one that refuses has reached its maximum.
REFUSED = {
    Status.OPEN: Reason.CROWDED,
    Status.FULL: Reason.FULL,
    Status.DRAINING: Reason.DRAINING,
    Status.GONE: Reason.GONE,
}
#: How often migrations without room at the target are tried, after others have made room.
ROUNDS = 3
#: Consecutive refusals by a broker's limit, per migration that may be in flight, after which the rest can wait.
FUTILE = 10
#: Refusals that a plan made elsewhere brings back.
REFUSALS = 1_000


class Balancer:
    """Applies one strategy to one load. ``pending`` is the registry of all migrations that are queued or in flight."""

    def __init__(self, load: Load, strategy: Strategy, limits: Limits | None = None) -> None:
        self.load, self.strategy, self.limits = load, strategy, limits or Limits()
        self.pending: dict[int, Migration] = {}
        self.latest = Plan()
        self.gate = RegroupGate()
        self._cooling: dict[int, float] = {}  # when each subscriber may migrate again
        #: Since the last ``request_plan``: the status of every broker then, and the ids given to other subscribers.
        self._status_then: Ints = load.status.copy()
        self._reused: set[int] = set()

    # Results of migrations.

    def ended(self, u: int, now: float) -> None:
        """The subscriber does not migrate during the cool-down: not again, and if it failed, the next may fail too."""
        if self.pending.pop(u, None) is not None:
            self._cooling[u] = now + self.limits.cool_down

    def forget(self, u: int) -> None:
        """The subscriber has left, and its id may be given to another."""
        self.pending.pop(u, None)
        self._cooling.pop(u, None)
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
        """One iteration: drop pointless migrations, ask the strategy, decide."""
        plan = self.latest = Plan()
        self._drop(plan, now)
        view = self.projected()
        view.permission = self.gate.permission(now)
        self._decide(self._suggestions(view, plan), self.projected(), now)
        self.gate.evaluated(now, plan.proposal, len(plan.migrations))
        return plan

    # The same in two halves, so that time may pass and the load may change between them.

    def snapshot(self, now: float) -> PlanRequest:
        """``plan_for`` this makes the plan of this moment and changes nothing here."""
        load, pending, cooling = self.load.snapshot(), dict(self.pending), dict(self._cooling)
        return PlanRequest(load, self.strategy, self.limits, pending, cooling, now, replace(self.gate))

    def request_plan(self, now: float) -> PlanRequest:
        """A request whose plan will be adopted."""
        self.latest = Plan()
        self._drop(self.latest, now)
        self._status_then, self._reused = self.load.status.copy(), set()
        return self.snapshot(now)

    def adopt(self, made: Plan, now: float) -> Plan:
        """Accept those migrations of the plan that are still right; refuse each of the others with its reason."""
        plan = self.latest = Plan(proposal=made.proposal)
        self._drop(plan, now)
        current = []
        for migration in made.migrations:
            if self._outdated(migration):
                plan.decisions.append(Decision(now, migration, Reason.POINTLESS, 0.0, 0.0))
            else:
                current.append(migration)
        self._decide(current, self.projected(current), now)
        self.gate.evaluated(now, plan.proposal, len(plan.migrations))
        return plan

    def _outdated(self, migration: Migration) -> bool:
        """The subscriber left and its id is another's, or its broker is not being drained any more."""
        return migration.subscriber in self._reused or (
            migration.mandatory and self._status_then[migration.source] != self.load.status[migration.source]
        )

    # Decisions.

    def _suggestions(self, view: WhatIf, plan: Plan) -> Iterator[Migration]:
        """The strategy's suggestions; the plan gets its proposal."""
        for migration in self.strategy.suggest(view):
            plan.proposal = view.proposal
            yield migration
        plan.proposal = view.proposal

    def _drop(self, plan: Plan, now: float) -> None:
        for u, migration in list(self.pending.items()):
            at = int(self.load.at[u])
            if at == migration.target:
                self.ended(u, now)
            elif at != migration.source or self.load.status[migration.target] >= Status.DRAINING:
                del self.pending[u]
                plan.dropped.append(migration)
                plan.decisions.append(Decision(now, migration, Reason.POINTLESS, 0.0, 0.0))
        self._cooling = {u: until for u, until in self._cooling.items() if until > now}

    def _decide(self, suggestions: Iterable[Migration], trial: WhatIf, now: float) -> None:
        plan = self.latest
        ceiling = trial.loads.maximum
        room = np.full((2, trial.m), self.limits.per_broker)  # to leave, to arrive
        for migration in self.pending.values():
            room[0, migration.source] -= 1
            room[1, migration.target] -= 1
        crowded = 0
        for turn in range(ROUNDS):
            again: list[Migration] = []
            for migration in suggestions:
                reason = self._judge(trial, migration, ceiling, room, now)
                if reason in (Reason.RAISES, Reason.CROWDED) and turn < ROUNDS - 1:
                    again.append(migration)
                    continue
                before = trial.loads.maximum if reason is Reason.ACCEPTED else ceiling
                if reason is Reason.ACCEPTED:
                    trial.migrate(migration.subscriber, migration.target)
                    room[0, migration.source] -= 1
                    room[1, migration.target] -= 1
                    self.pending[migration.subscriber] = migration
                    plan.migrations.append(migration)
                after = trial.loads.maximum if reason is Reason.ACCEPTED else ceiling
                plan.decisions.append(Decision(now, migration, reason, before, after))
                crowded = crowded + 1 if reason in (Reason.SOURCE, Reason.TARGET) else 0
                if reason is Reason.IN_FLIGHT or crowded > FUTILE * self.limits.in_flight:
                    return
            suggestions = again
            if not again:
                return

    def _judge(self, trial: WhatIf, migration: Migration, ceiling: float, room: Longs, now: float) -> Reason:
        u, source, target = migration.subscriber, migration.source, migration.target
        if not (0 <= target < trial.m and 0 <= source < trial.m and 0 <= u < len(trial.at)):
            return Reason.UNKNOWN
        if u in self.pending:
            return Reason.PENDING
        if trial.at[u] != source:
            return Reason.ELSEWHERE
        if source == target:
            return Reason.SAME
        if not trial.accepts[target]:
            status = Status(int(trial.status[target]))
            return REFUSED[status]
        if len(self.pending) >= self.limits.in_flight:
            return Reason.IN_FLIGHT
        if room[0, source] <= 0:
            return Reason.SOURCE
        if room[1, target] <= 0:
            return Reason.TARGET
        if migration.mandatory:
            return Reason.ACCEPTED
        if self._cooling.get(u, now) > now:
            return Reason.COOLING
        return self._weigh(trial, migration, ceiling)

    def _weigh(self, trial: WhatIf, migration: Migration, ceiling: float) -> Reason:
        u, source, target = migration.subscriber, migration.source, migration.target
        arriving = float(trial.relative[target] + trial.added(u)[target] / trial.capacity[target])
        if arriving > ceiling * (1 + ROUNDING):
            return Reason.RAISES
        if self.limits.least_gain > 0:
            # Relative to a mean subscriber: a share of a broker's load would be more subscribers the more it has.
            least = self.limits.least_gain * float(trial.relative[trial.live].sum()) / max(1, int(trial.count.sum()))
            leaving = float(trial.relative[source] - trial.release(u) / trial.capacity[source])
            gain = max(trial.relative[source], trial.relative[target]) - max(leaving, arriving)
            if gain < least and migration.gain < least:
                return Reason.WORTHLESS
        return Reason.ACCEPTED


def plan_for(request: PlanRequest) -> Plan:
    """The plan for the moment of the request, with the first refusals only."""
    balancer = Balancer(request.load, request.strategy, request.limits)
    balancer.pending, balancer._cooling = dict(request.pending), dict(request.cooling)
    balancer.gate = replace(request.gate)
    plan = balancer.plan(request.now)
    refused = [each for each in plan.decisions if not each.accepted][:REFUSALS]
    decisions = [each for each in plan.decisions if each.accepted] + refused
    return Plan(plan.migrations, plan.dropped, decisions, plan.proposal)
