"""What the coordinator shows: the plan of now, the network, the balance."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from tocsin.balancing.decisions import Decision, Plan
from tocsin.balancing.model.load import NOWHERE
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.plan_request import PlanRequest
from tocsin.balancing.regroup_gate import Waiting, Wish
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Note, Refuse, Reply, RequestPlan, Sample
from tocsin.coordinator.core.load_reports import Reporting
from tocsin.coordinator.core.members import Member
from tocsin.errors import SystemTrouble


class Looking(Reporting):
    def _plan(self, event: ev.Plan) -> None:
        """Who asks while an answer is being worked out gets that one."""
        if not self.apart:
            self._out.append(Reply(event.call, self._shown(self.balancer.dry_run(self._now))))
            return
        self._lookers.append(event.call)
        if self._looked is None:
            self._looked = self._ponder(self.balancer.question(self._now))

    def _ponder(self, question: PlanRequest) -> int:
        self._questions += 1
        self._out.append(RequestPlan(self._questions, question))
        return self._questions

    def _show(self, plan: Plan | None) -> None:
        lookers, self._lookers, self._looked = self._lookers, [], None
        if plan is None:
            trouble = SystemTrouble("the plan could not be made", hint="the coordinator's log says why")
            self._out += [Refuse(call, trouble) for call in lookers]
        else:
            body = self._shown(plan)
            self._out += [Reply(call, body) for call in lookers]

    def _shown(self, plan: Plan) -> dict[str, Any]:
        # Since it was asked for some may have left, and brokers may have been forgotten.
        planned = [each for each in plan.moves if self._stands(each)]
        dropped = {move.subscriber for move in plan.dropped}
        going_on = [move for u, move in self.balancer.pending.items() if u not in dropped]
        after, before = self.load.as_if([*going_on, *planned]), self.load.loads
        moves = [
            {
                "subscriber": self._name(move.subscriber),
                "from": self._by_number[move.source].name,
                "to": self._by_number[move.target].name,
                "worth": move.worth,
                "why": move.why or self.config.strategy,
            }
            for move in planned
        ]
        refused = [
            {"subscriber": self._name(each.move.subscriber), "reason": each.reason.value}
            for each in plan.decisions
            if not each.accepted
        ]
        return {
            "strategy": self.config.strategy,
            "before": {"cov": before.cov, "maximum": before.maximum, "mean": before.mu},
            "after": {"cov": after.cov, "maximum": after.maximum, "mean": after.mu},
            "bound": self.load.lower_bound(),
            "moves": moves,
            "refused": refused,
            "held": self._held(plan.wish),
        }

    def _held(self, wish: Wish | None) -> dict[str, Any] | None:
        """What is not done now because it only pays in the long run, and what has to happen before it is."""
        patience = self.balancer.patience
        word = replace(patience, wish=wish or patience.wish).word(self._now)
        if word.waiting is Waiting.NONE:
            return None
        seconds = max(word.seconds, self._balanced + self.config.balance_every - self._now, 0.0)
        return {"state": word.waiting.value, "moves": word.moves, "judged_in": seconds, "text": word.text}

    def _note_patience(self) -> None:
        """Into the log when it has changed; that there is nothing to gain is only worth knowing after there was."""
        word, before = self.balancer.patience.word(self._now), self._word
        self._word = word.waiting
        if word.waiting is not before and word.text and {word.waiting, before} != {Waiting.NONE, Waiting.VAIN}:
            self._out.append(Note("held", word.text))

    def _stands(self, move: Migration) -> bool:
        known = bool(self._name(move.subscriber)) and move.target in self._by_number
        return known and int(self.load.at[move.subscriber]) == move.source

    def _topology(self, event: ev.Topology) -> None:
        loads = self.load.loads
        body = {
            "brokers": [self._row(each) for each in self.members.values()],
            "subscribers": len(self.picture.subscribers),
            "cov": loads.cov,
            "mean": loads.mu,
            "maximum": loads.maximum,
            "bound": self.load.lower_bound(),
            "pending": len(self.transfers),
            "strategy": self.config.strategy,
            "placement": self.config.placement,
        }
        self._out.append(Reply(event.call, body))

    def _row(self, member: Member) -> dict[str, Any]:
        loads, last = self.load.loads, member.last
        return {
            "name": member.name,
            "url": member.row.url,
            "state": member.state,
            "capacity": member.row.capacity,
            "subscribers": int(self.load.count[member.number]),
            "load_in": float(loads.I[member.number]),
            "load_out": float(loads.O[member.number]),
            "connections": last.connections if last is not None else 0,
            "deliveries": last.deliveries if last is not None else 0,
            "waiting": last.waiting if last is not None else 0,
            "lagging": last.lagging if last is not None else 0,
            "heard": None if member.heard is None else self._now - member.heard,
            "leaving": sum(each.source is member for each in self.transfers.values()),
        }

    def _sample(self) -> Sample:
        loads, count = self.load.loads, self.load.count
        brokers = {
            each.name: (float(loads.I[each.number]), float(loads.O[each.number]), int(count[each.number]))
            for each in self.members.values()
            if each.alive
        }
        return Sample(loads.mu, loads.maximum, loads.cov, self.load.lower_bound(), brokers, len(self.transfers))

    def _name(self, u: int) -> str:
        """A strategy of somebody else's may suggest whom it likes."""
        known = 0 <= u < len(self.load.at) and self.load.at[u] != NOWHERE
        return self.picture.subscribers.name(u) if known else ""

    def _note(self, decision: Decision) -> Note:
        move = decision.move
        source, target = (self._by_number.get(number) for number in (move.source, move.target))
        text = f"{decision.reason.value}: {move.why or self.config.strategy}"
        return Note(
            "move" if decision.accepted else "refused",
            text,
            self._name(move.subscriber),
            source.name if source is not None else "",
            target.name if target is not None else "",
        )

    def _summary(self, moves: list[Migration], before: float) -> Note:
        """One line for all that a look at the balance has decided."""
        reasons = Counter(move.why or self.config.strategy for move in moves)
        why = "; ".join(f"{count} × {text}" for text, count in reasons.most_common(3))
        return Note(
            "plan", f"{len(moves)} move{'s' if len(moves) != 1 else ''}, cov {before:.3f} to {self._cov():.3f}: {why}"
        )

    def _cov(self) -> float:
        """As if all pending moves were done."""
        return self.balancer.projected(()).loads.cov
