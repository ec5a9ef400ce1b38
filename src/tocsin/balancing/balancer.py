"""Strategies suggest, the balancer decides.

It shows the strategy the load as if all pending moves were done, takes its suggestions one by one, and refuses what may
not be: a move to a broker that takes nobody, a second move of somebody who is on the way or has just arrived, more
than the limits allow, a move that gains too little or would raise the maximum. Each decision is kept with its reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np

from tocsin.balancing.arrays import Floats, Longs
from tocsin.balancing.components import LoadState, Reports
from tocsin.balancing.decisions import Decision, Limits, Plan, Reason
from tocsin.balancing.load import Load, Status
from tocsin.balancing.move import Move
from tocsin.balancing.strategy import Strategy
from tocsin.balancing.trial import Trial

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
        self.pending: dict[int, Move] = {}
        self.log: deque[Decision] = deque(maxlen=kept)
        self.latest = Plan()
        self._rested: dict[int, float] = {}  # when each may be moved again

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

    def _over(self, u: int, now: float, reason: Reason) -> None:
        move = self.pending.pop(u, None)
        if move is not None:
            self._rested[u] = now + self.limits.cool_down
            self._note(Plan(), Decision(now, move, reason, 0.0, 0.0))

    # What it answers.

    def projected(self) -> Trial:
        """The load as if all pending moves were done."""
        trial = Trial(self.load, self.distance)
        for move in self.pending.values():
            if trial.at[move.subscriber] == move.source:
                trial.move(move.subscriber, move.target)
        return trial

    def plan(self, now: float) -> Plan:
        """One iteration: drops what is pointless, asks the strategy, decides."""
        self._decide(self._begin(now), now)
        return self.latest

    def dry_run(self, now: float) -> Plan:
        """What ``plan`` would do now, without doing it."""
        other = Balancer(self.load, self.strategy, self.limits, distance=self.distance)
        other.pending, other._rested = dict(self.pending), dict(self._rested)
        return other.plan(now)

    # The same as three steps, for a LoadBalancingManager.

    def select_load_to_move(self, reports: Reports, criterion: str, state: LoadState, now: float) -> Iterator[Move]:
        return self._begin(now)

    def select_target(self, reports: Reports, criterion: str, state: LoadState, now: float) -> Longs:
        """Who may be a target at all; the suggestions say which of them."""
        return np.flatnonzero(self.projected().accepts)

    def rebalance(self, criterion: str, target: Longs, load_to_move: Iterator[Move], now: float) -> None:
        self._decide(load_to_move, now)

    # How it decides.

    def _begin(self, now: float) -> Iterator[Move]:
        self.latest = Plan()
        self._drop(self.latest, now)
        return self.strategy.suggest(self.projected())

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

    def _decide(self, suggestions: Iterable[Move], now: float) -> None:
        plan, trial = self.latest, self.projected()
        ceiling = trial.loads.maximum
        room = np.full((2, trial.m), self.limits.per_broker)  # to leave, to arrive
        for move in self.pending.values():
            room[0, move.source] -= 1
            room[1, move.target] -= 1
        waiting: list[Move] = []
        for turn in range(ROUNDS):
            again: list[Move] = []
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
                if reason is Reason.MOVES:
                    return
            waiting, suggestions = again, again
            if not waiting:
                return

    def _judge(self, trial: Trial, move: Move, ceiling: float, room: Longs, now: float) -> Reason:
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

    def _weigh(self, trial: Trial, move: Move, ceiling: float) -> Reason:
        u, source, target = move.subscriber, move.source, move.target
        arriving = float(trial.relative[target] + trial.added(u)[target] / trial.capacity[target])
        if arriving > ceiling * (1 + ROUNDING):
            return Reason.RAISES
        if self.limits.least_gain > 0:
            least = self.limits.least_gain * trial.loads.mu
            leaving = float(trial.relative[source] - trial.release(u) / trial.capacity[source])
            gain = max(trial.relative[source], trial.relative[target]) - max(leaving, arriving)
            if gain < least and move.worth < least:
                return Reason.WORTHLESS
        return Reason.ACCEPTED

    def _note(self, plan: Plan, decision: Decision) -> None:
        plan.decisions.append(decision)
        self.log.append(decision)
