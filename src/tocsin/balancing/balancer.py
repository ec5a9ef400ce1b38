"""Strategies suggest, the balancer decides.

It shows the strategy the load as if all pending moves were done, takes its suggestions one by one, and refuses what may
not be: a move to a broker that takes nobody, a second move of somebody who is on the way or has just arrived, more
than the limits allow, a move that gains too little or would raise the maximum. Each decision is kept with its reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from tocsin.balancing.decisions import Decision, Limits, Plan, Reason
from tocsin.balancing.model.arrays import Floats, Ints, Longs
from tocsin.balancing.model.load import Load, Status
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.plan_request import PlanRequest
from tocsin.balancing.regroup_gate import RegroupGate
from tocsin.balancing.strategies.strategy import Strategy

#: Relative rounding error below which two loads are the same.
ROUNDING = 1e-9
#: Why a broker of this status takes nobody; one that is open has as many subscribers as it takes.
REFUSED = {
    Status.OPEN: Reason.CROWDED,
    Status.FULL: Reason.FULL,
    Status.DRAINING: Reason.DRAINING,
    Status.GONE: Reason.GONE,
}
#: How often moves for which there was no room are tried again, after others have made some.
ROUNDS = 3
#: Suggestions in a row that the limits refuse, for each move that may be pending, after which the rest can wait.
PATIENCE = 10
#: Refusals that an answer carries.
REFUSALS = 1_000


class Balancer:
    """One strategy at work on one load. ``log`` keeps the last decisions; ``kept`` says how many."""

    def __init__(
        self,
        load: Load,
        strategy: Strategy,
        limits: Limits | None = None,
        *,
        distance: Floats | None = None,
        kept: int = 10_000,
    ) -> None:
        self.load, self.strategy, self.limits, self.distance = load, strategy, limits or Limits(), distance
        self.pending: dict[int, Migration] = {}
        self.log: deque[Decision] = deque(maxlen=kept)
        self.latest = Plan()
        self.patience = RegroupGate()
        self._rested: dict[int, float] = {}  # when each may be moved again
        #: The status of every broker when ``ask`` was called, and the numbers that others have got since.
        self._asked: Ints = load.status.copy()
        self._renewed: set[int] = set()

    # What the coordinator tells.

    def finished(self, u: int, now: float) -> None:
        self._over(u, now, Reason.DONE)

    def failed(self, u: int, now: float) -> None:
        """It stays where it was, and is left alone for the cool-down: what failed may fail again."""
        self._over(u, now, Reason.FAILED)

    def forget(self, u: int) -> None:
        """The subscriber has left, and its number may be given to another."""
        self.pending.pop(u, None)
        self._rested.pop(u, None)
        self._renewed.add(u)

    def _over(self, u: int, now: float, reason: Reason) -> None:
        move = self.pending.pop(u, None)
        if move is not None:
            self._rested[u] = now + self.limits.cool_down
            self._note(Plan(), Decision(now, move, reason, 0.0, 0.0))

    # What it answers.

    def projected(self, only: Iterable[Migration] | None = None) -> WhatIf:
        """The load as if all pending moves were done; ``only``: the moves that it is needed for, if they are few."""
        us = None if only is None else [move.subscriber for move in (*only, *self.pending.values())]
        known = None if us is None else np.array([u for u in us if 0 <= u < len(self.load.at)], dtype=np.int64)
        trial = WhatIf(self.load, self.distance, known)
        for move in self.pending.values():
            if trial.at[move.subscriber] == move.source:
                trial.move(move.subscriber, move.target)
        return trial

    def plan(self, now: float) -> Plan:
        """One iteration: drops what is pointless, asks the strategy, decides."""
        self._decide(self._begin(now), self.projected(), now)
        self._heard(now)
        return self.latest

    def _heard(self, now: float) -> None:
        self.patience.heard(now, self.latest.wish, len(self.latest.moves))

    def dry_run(self, now: float) -> Plan:
        """What ``plan`` would do now, without doing it."""
        return answer(self.question(now))

    # The same in two halves, so that between them time may pass and the load may change.

    def question(self, now: float) -> PlanRequest:
        load, pending, rested = self.load.snapshot(), dict(self.pending), dict(self._rested)
        return PlanRequest(
            load, self.strategy, self.limits, pending, rested, now, self.distance, replace(self.patience)
        )

    def ask(self, now: float) -> PlanRequest:
        """A question whose answer will be adopted."""
        self.latest = Plan()
        self._drop(self.latest, now)
        self._asked, self._renewed = self.load.status.copy(), set()
        return self.question(now)

    def adopt(self, answered: Plan, now: float) -> Plan:
        """Takes the moves of the answer that are still right; each of the others is refused with its reason."""
        plan = self.latest = Plan(wish=answered.wish)
        self._drop(plan, now)
        current = []
        for move in answered.moves:
            if self._outdated(move):
                self._note(plan, Decision(now, move, Reason.POINTLESS, 0.0, 0.0))
            else:
                current.append(move)
        self._decide(current, self.projected(current), now)
        self._heard(now)
        return plan

    def _outdated(self, move: Migration) -> bool:
        """Its subscriber left, and the number is another's; or its broker was to be emptied, and is not any more."""
        return move.subscriber in self._renewed or (
            move.must and self._asked[move.source] != self.load.status[move.source]
        )

    # How it decides.

    def _begin(self, now: float) -> Iterator[Migration]:
        plan = self.latest = Plan()
        self._drop(plan, now)
        view = self.projected()
        view.stage = self.patience.stage(now)
        return self._noting(view, plan)

    def _noting(self, view: WhatIf, plan: Plan) -> Iterator[Migration]:
        """The strategy's suggestions; what it has in mind beside them goes into the plan."""
        for move in self.strategy.suggest(view):
            plan.wish = view.wish
            yield move
        plan.wish = view.wish

    def _drop(self, plan: Plan, now: float) -> None:
        for u, move in list(self.pending.items()):
            at = int(self.load.at[u])
            if at == move.target:
                self._over(u, now, Reason.DONE)
            elif at != move.source or self.load.status[move.target] >= Status.DRAINING:
                del self.pending[u]
                plan.dropped.append(move)
                self._note(plan, Decision(now, move, Reason.POINTLESS, 0.0, 0.0))
        self._rested = {u: until for u, until in self._rested.items() if until > now}

    def _decide(self, suggestions: Iterable[Migration], trial: WhatIf, now: float) -> None:
        plan = self.latest
        ceiling = trial.loads.maximum
        room = np.full((2, trial.m), self.limits.per_broker)  # to leave, to arrive
        for move in self.pending.values():
            room[0, move.source] -= 1
            room[1, move.target] -= 1
        waiting: list[Migration] = []
        crowded = 0
        for turn in range(ROUNDS):
            again: list[Migration] = []
            for move in suggestions:
                reason = self._judge(trial, move, ceiling, room, now)
                if reason in (Reason.RAISES, Reason.CROWDED) and turn < ROUNDS - 1:
                    again.append(move)
                    continue
                before = trial.loads.maximum if reason is Reason.ACCEPTED else ceiling
                if reason is Reason.ACCEPTED:
                    trial.move(move.subscriber, move.target)
                    room[0, move.source] -= 1
                    room[1, move.target] -= 1
                    self.pending[move.subscriber] = move
                    plan.moves.append(move)
                after = trial.loads.maximum if reason is Reason.ACCEPTED else ceiling
                self._note(plan, Decision(now, move, reason, before, after))
                crowded = crowded + 1 if reason in (Reason.SOURCE, Reason.TARGET) else 0
                if reason is Reason.MOVES or crowded > PATIENCE * self.limits.moves:
                    return
            waiting, suggestions = again, again
            if not waiting:
                return

    def _judge(self, trial: WhatIf, move: Migration, ceiling: float, room: Longs, now: float) -> Reason:
        u, source, target = move.subscriber, move.source, move.target
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
        if len(self.pending) >= self.limits.moves:
            return Reason.MOVES
        if room[0, source] <= 0:
            return Reason.SOURCE
        if room[1, target] <= 0:
            return Reason.TARGET
        if move.must:
            return Reason.ACCEPTED
        if self._rested.get(u, now) > now:
            return Reason.COOLING
        return self._weigh(trial, move, ceiling)

    def _weigh(self, trial: WhatIf, move: Migration, ceiling: float) -> Reason:
        u, source, target = move.subscriber, move.source, move.target
        arriving = float(trial.relative[target] + trial.added(u)[target] / trial.capacity[target])
        if arriving > ceiling * (1 + ROUNDING):
            return Reason.RAISES
        if self.limits.least_gain > 0:
            # Of what a subscriber weighs on average: a share of a broker's load would be more people the more it has.
            least = self.limits.least_gain * float(trial.relative[trial.live].sum()) / max(1, int(trial.count.sum()))
            leaving = float(trial.relative[source] - trial.release(u) / trial.capacity[source])
            gain = max(trial.relative[source], trial.relative[target]) - max(leaving, arriving)
            if gain < least and move.worth < least:
                return Reason.WORTHLESS
        return Reason.ACCEPTED

    def _note(self, plan: Plan, decision: Decision) -> None:
        plan.decisions.append(decision)
        self.log.append(decision)


def answer(question: PlanRequest) -> Plan:
    """The plan for the moment of the question, with the first of many refusals; nothing outside of it is touched."""
    balancer = Balancer(question.load, question.strategy, question.limits, distance=question.distance)
    balancer.pending, balancer._rested = dict(question.pending), dict(question.rested)
    balancer.patience = replace(question.patience)
    plan = balancer.plan(question.now)
    refused = [each for each in plan.decisions if not each.accepted][:REFUSALS]
    decisions = [each for each in plan.decisions if each.accepted] + refused
    return Plan(plan.moves, plan.dropped, decisions, plan.wish)
