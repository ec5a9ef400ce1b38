"""The network and its balance, as the coordinator shows them."""

from __future__ import annotations

from typing import Any

from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Instruction, Reply, Sample
from tocsin.coordinator.core.members import Member, Members
from tocsin.coordinator.core.migrations import Migrations
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.coordinator.core.placement import Placement
from tocsin.coordinator.core.plans import Plans


class Queries:
    def __init__(
        self, model: NetworkModel, members: Members, migrations: Migrations, plans: Plans, placement: Placement
    ) -> None:
        self._model, self._members, self._migrations = model, members, migrations
        self._plans, self._placement = plans, placement

    def topology(self, event: ev.ShowTopology, now: float) -> list[Instruction]:
        loads = self._model.load.loads
        body = {
            "brokers": [self._row(each, now) for each in self._members.values()],
            "subscribers": len(self._model.subscribers),
            "cov": loads.cov,
            "mean": loads.mu,
            "maximum": loads.maximum,
            "bound": self._model.load.lower_bound(),
            "pending": len(self._migrations.pending),
            "strategy": self._plans.strategy,
            "balancing": self._plans.mode,
            "placement": self._placement.name,
        }
        return [Reply(event.call, body)]

    def _row(self, member: Member, now: float) -> dict[str, Any]:
        load = self._model.load
        return {
            "name": member.name,
            "url": member.row.url,
            "state": member.state,
            "capacity": member.row.capacity,
            "subscribers": int(load.count[member.number]),
            "load_in": float(load.loads.I[member.number]),
            "load_out": float(load.loads.O[member.number]),
            **{name: getattr(member.last, name, 0) for name in ("connections", "deliveries", "waiting", "lagging")},
            "role": getattr(member.last, "role", ""),
            "links": getattr(member.last, "links", {}),
            "last_report": None if member.reported_at is None else now - member.reported_at,
            "leaving": sum(each.source == member.number for each in self._migrations.pending.values()),
        }

    def sample(self) -> Sample:
        load, loads = self._model.load, self._model.load.loads
        brokers = {
            each.name: (float(loads.I[each.number]), float(loads.O[each.number]), int(load.count[each.number]))
            for each in self._members.values()
            if each.alive
        }
        pending = len(self._migrations.pending)
        return Sample(loads.mu, loads.maximum, loads.cov, load.lower_bound(), brokers, pending)
