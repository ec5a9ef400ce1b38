"""What the coordinator shows: the plan of now, the network, the balance."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tocsin.balancing.decisions import Decision
from tocsin.balancing.load import NOWHERE
from tocsin.balancing.move import Move
from tocsin.coordinator import events as ev
from tocsin.coordinator.events import Note, Reply, Sample
from tocsin.coordinator.members import Member
from tocsin.coordinator.reporting import Reporting

#: Refusals that a plan shows.
REFUSALS = 1_000


class Looking(Reporting):
    def _plan(self, event: ev.Plan) -> None:
        plan = self.balancer.dry_run(self._now)
        dropped = {move.subscriber for move in plan.dropped}
        going_on = [move for u, move in self.balancer.pending.items() if u not in dropped]
        after, before = self.load.as_if([*going_on, *plan.moves]), self.load.loads
        moves = [
            {
                "subscriber": self._name(move.subscriber),
                "from": self._by_number[move.source].name,
                "to": self._by_number[move.target].name,
                "worth": move.worth,
                "why": move.why or self.config.strategy,
            }
            for move in plan.moves
        ]
        refused = [
            {"subscriber": self._name(each.move.subscriber), "reason": each.reason.value}
            for each in plan.decisions
            if not each.accepted
        ]
        body = {
            "strategy": self.config.strategy,
            "before": {"cov": before.cov, "maximum": before.maximum, "mean": before.mu},
            "after": {"cov": after.cov, "maximum": after.maximum, "mean": after.mu},
            "bound": self.load.lower_bound(),
            "moves": moves,
            "refused": refused[:REFUSALS],
        }
        self._out.append(Reply(event.call, body))

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
        source, target = self._by_number[move.source].name, self._by_number[move.target].name
        text = f"{decision.reason.value}: {move.why or self.config.strategy}"
        return Note("move", text, self._name(move.subscriber), source, target)

    def _summary(self, moves: list[Move], before: float) -> Note:
        """One line for all that a look at the balance has decided."""
        reasons = Counter(move.why or self.config.strategy for move in moves)
        why = "; ".join(f"{count} × {text}" for text, count in reasons.most_common(3))
        after = self.balancer.projected().loads.cov
        return Note("plan", f"{len(moves)} moves, cov {before:.3f} to {after:.3f}: {why}")
