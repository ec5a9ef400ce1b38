"""The coordinator as a pure state machine: ``handle(event, now) -> [instruction]``.

Brokers report their subscribers; of two brokers that claim the same subscriber the latest claim counts. The store keeps
nothing about subscribers: after a restart the brokers report everything again, and no subscriber migrates before all of
them have.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from tocsin.balancing.central_host import CentralHost
from tocsin.balancing.model.load import Load
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Instruction, Refuse
from tocsin.coordinator.core.load_reports import LoadReports
from tocsin.coordinator.core.members import Members
from tocsin.coordinator.core.membership import Membership
from tocsin.coordinator.core.migrations import Migrations
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.coordinator.core.placement import Placement
from tocsin.coordinator.core.plans import Plans
from tocsin.coordinator.core.queries import Queries
from tocsin.coordinator.core.reconfiguration import Reconfiguration
from tocsin.coordinator.core.strategy_chain import exchanger, guards, strategy_chain
from tocsin.coordinator.core.tickets import Tickets
from tocsin.errors import TocsinError

#: Seconds between two removals of expired state.
EXPIRY = 60.0


class CoordinatorState:
    """Owns the parts and passes each event to one of them.

    Handlers return their instructions, so that one that raises emits nothing. ``wall_clock`` dates tickets and
    ``nonce`` makes them unique. ``offloaded``: the driver makes plans elsewhere.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        secret: bytes,
        rng: random.Random,
        wall_clock: Callable[[], float],
        nonce: Callable[[], str],
        *,
        offloaded: bool = False,
    ) -> None:
        limits = config.limits
        self.model = NetworkModel()
        self.members = Members(config, self.model)
        self.host = CentralHost(self.model.load, strategy_chain(config), guards=guards(config))
        tickets = self._tickets = Tickets(secret, wall_clock, nonce)
        self.migrations = Migrations(limits, self.host, self.model, self.members, tickets)
        self.membership = Membership(config, secret, nonce, self.model, self.members, self.migrations)
        self.placement = Placement(config.placement, rng, self.model, self.members, self.migrations, tickets)
        self.load_reports = LoadReports(
            self.model, self.members, self.membership, self.migrations, tickets, exchanger(config), config.interval
        )
        self.plans = Plans(config, self.host, self.model, offloaded)
        self.queries = Queries(self.model, self.members, self.migrations, self.plans, self.placement)
        self.reconfiguration = Reconfiguration(config, self.plans, self.placement, self.load_reports)
        self._now = 0.0
        self._expired_at = 0.0
        self._handlers: dict[type[Any], Callable[[Any, float], list[Instruction]]] = {
            ev.Restored: self._restored,
            ev.Register: self.membership.register,
            ev.Report: self.load_reports.report,
            ev.Leave: self.membership.leave,
            ev.Place: self.placement.place,
            ev.Drain: self._drain,
            ev.Forget: self.membership.forget,
            ev.Reconfigure: self.reconfiguration.reconfigure,
            ev.ShowPlan: self.plans.show,
            ev.PlanReady: self.plans.ready,
            ev.ShowTopology: self.queries.topology,
            ev.ListBrokers: self.placement.list_brokers,
            ev.Tick: self._tick,
        }

    @property
    def load(self) -> Load:
        return self.model.load

    @property
    def config(self) -> CoordinatorConfig:
        """The configuration in use, with changes at run time."""
        return self.reconfiguration.config

    def handle(self, event: ev.Event, now: float) -> list[Instruction]:
        self._now = now = max(self._now, now)
        if self.members.started is None:
            self.members.started = now
        try:
            return self._handlers[type(event)](event, now)
        except TocsinError as error:
            if isinstance(event, ev.Request):
                return [Refuse(event.call, error)]
            raise

    def _restored(self, event: ev.Restored, now: float) -> list[Instruction]:
        self.membership.restore(event.brokers)
        return self.reconfiguration.restore(event.choice)

    def _drain(self, event: ev.Drain, now: float) -> list[Instruction]:
        out = self.membership.drain(event, now)
        self.plans.evaluate_soon()
        return out

    def _tick(self, event: ev.Tick, now: float) -> list[Instruction]:
        self.members.tick(now)
        out = self.membership.evict_silent(now)
        out += self.migrations.expire(now)
        out += self.placement.count(now)
        self.load_reports.resolve_claims(now)
        if now - self._expired_at >= EXPIRY:
            self._expired_at = now
            self.model.expire(now)
            self._tickets.expire(now)
        if self.plans.due(now) and self.members.complete(now):
            out += self.plans.evaluate(now)
            out.append(self.queries.sample())
        return out
