"""Evaluates the balance: requests plans, adopts them, and shows the plan of now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from tocsin.balancing.central_guards import CentralGuard
from tocsin.balancing.central_host import CentralHost, plan_for
from tocsin.balancing.decisions import Decision, Plan
from tocsin.balancing.host.load_balancer import Deferral
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.plan_request import PlanRequest
from tocsin.balancing.strategies.strategy import Strategy
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Instruction, Note, Refuse, Reply, RequestPlan
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.errors import SystemFailure


class Plans:
    """``offloaded``: the driver makes plans elsewhere (RequestPlan, PlanReady) while the machine goes on."""

    def __init__(
        self,
        config: CoordinatorConfig,
        host: CentralHost,
        model: NetworkModel,
        offloaded: bool,
    ) -> None:
        self.strategy, self._every, self._offloaded = config.strategy, config.balance_every, offloaded
        self.mode = config.balancing.mode
        self.host, self._model = host, model
        self._evaluated_at = float("-inf")
        self._deferral: Deferral | None = None  # at the last evaluation
        self._requests = 0
        self._to_adopt: int | None = None  # numbers of the requests under way
        self._to_show: int | None = None
        self._callers: list[ev.Call] = []

    def use(self, name: str, strategy: Strategy, guards: Sequence[CentralGuard]) -> None:
        self.strategy = name
        self.host.use(strategy, guards)
        self._to_adopt = None  # the plan under way is the previous strategy's

    def evaluate_soon(self) -> None:
        self._evaluated_at = float("-inf")

    def due(self, now: float) -> bool:
        return now - self._evaluated_at >= self._every

    def evaluate(self, now: float) -> list[Instruction]:
        self._evaluated_at = now
        # The plan never drops a pending migration: Migrations cancels one as soon as it becomes pointless.
        if not self._offloaded:
            before = self._cov()
            return self._begin(self.host.plan(now), before, now)
        if self._to_adopt is not None:
            return []
        self._to_adopt, instruction = self._request(self.host.request_plan(now))
        return [instruction]

    def show(self, event: ev.ShowPlan, now: float) -> list[Instruction]:
        """Callers that ask while a plan is being made get that one."""
        if not self._offloaded:
            return [Reply(event.call, self._described(plan_for(self.host.snapshot(now)), now))]
        self._callers.append(event.call)
        if self._to_show is not None:
            return []
        self._to_show, instruction = self._request(self.host.snapshot(now))
        return [instruction]

    def _request(self, request: PlanRequest) -> tuple[int, RequestPlan]:
        self._requests += 1
        return self._requests, RequestPlan(self._requests, request)

    def ready(self, event: ev.PlanReady, now: float) -> list[Instruction]:
        if event.number == self._to_show:
            callers, self._callers, self._to_show = self._callers, [], None
            if event.plan is None:
                error = SystemFailure("the plan could not be made", hint="see the coordinator's log")
                return [Refuse(call, error) for call in callers]
            body = self._described(event.plan, now)
            return [Reply(call, body) for call in callers]
        if event.number != self._to_adopt:
            return []
        self._to_adopt = None
        if event.plan is None:
            return []
        before = self._cov()
        plan = self.host.adopt(event.plan, now)
        # They were accepted when the plan was made, so a refusal now is worth a note.
        refused = [self._note(each) for each in plan.decisions if not each.accepted]
        return [*self._begin(plan, before, now), *refused]

    def _begin(self, plan: Plan, before: float, now: float) -> list[Instruction]:
        out: list[Instruction] = [self._summary(plan.migrations, before)] if plan.migrations else []
        out += [self._note(each) for each in plan.decisions if each.accepted]
        return out + self._deferral_note(now)

    def _deferral_note(self, now: float) -> list[Instruction]:
        """Report a change of what is held back; that there was nothing before and is nothing now is no news."""
        held, before = self.host.deferral(now), self._deferral
        self._deferral = held
        if held is None or (before is not None and held.state == before.state) or (before is None and not held.actions):
            return []
        return [Note("deferred", held.text)]

    def _note(self, decision: Decision) -> Note:
        text = f"{decision.reason}: {decision.migration.reason or self.strategy}"
        return Note("migration" if decision.accepted else "refused", text, *self._model.names(decision.migration))

    def _summary(self, migrations: list[Migration], before: float) -> Note:
        """One line for all migrations of an evaluation."""
        reasons = Counter(each.reason or self.strategy for each in migrations)
        text = "; ".join(f"{count} × {reason}" for reason, count in reasons.most_common(3))
        plural = "s" if len(migrations) != 1 else ""
        return Note("plan", f"{len(migrations)} migration{plural}, cov {before:.3f} to {self._cov():.3f}: {text}")

    def _cov(self) -> float:
        """As if all pending migrations were done."""
        return self.host.projected(()).loads.cov

    def _described(self, plan: Plan, now: float) -> dict[str, Any]:
        load = self._model.load
        # Subscribers may have left since the request, and brokers may have been forgotten.
        planned = [each for each in plan.migrations if self._is_current(each)]
        dropped = {each.subscriber for each in plan.dropped}
        going_on = [each for u, each in self.host.pending.items() if u not in dropped]
        after, before = load.as_if([*going_on, *planned]), load.loads
        migrations = []
        for each in planned:
            subscriber, source, target = self._model.names(each)
            reason = each.reason or self.strategy
            row = {"subscriber": subscriber, "from": source, "to": target, "gain": each.gain, "reason": reason}
            migrations.append(row)
        refused = [
            {"subscriber": self._model.names(each.migration)[0], "reason": str(each.reason)}
            for each in plan.decisions
            if not each.accepted
        ]
        return {
            "strategy": self.strategy,
            "before": {"cov": before.cov, "maximum": before.maximum, "mean": before.mu},
            "after": {"cov": after.cov, "maximum": after.maximum, "mean": after.mu},
            "bound": load.lower_bound(),
            "migrations": migrations,
            "refused": refused,
            "deferred": self._deferred(plan, now),
        }

    def _is_current(self, migration: Migration) -> bool:
        subscriber, _, target = self._model.names(migration)
        return bool(subscriber and target) and int(self._model.load.at[migration.subscriber]) == migration.source

    def _deferred(self, plan: Plan, now: float) -> dict[str, Any] | None:
        """The plan that is held back because it only pays in the long run, and when it is evaluated again."""
        held = self.host.deferral(now, plan)
        if held is None:
            return None
        seconds = max(held.seconds, self._evaluated_at + self._every - now, 0.0)
        return {"state": held.state, "migrations": held.actions, "next_evaluation": seconds, "text": held.text}
