"""Runs the balancing host of this broker: other brokers' messages in, messages and migrations out."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from random import Random

from msgspec import Struct

from tocsin.balancing.brokers.broker_load import LOAD, SUBSCRIBERS, BrokerLoad
from tocsin.balancing.brokers.components import EXECUTES
from tocsin.balancing.brokers.strategies import blueprint, make, settings_of
from tocsin.balancing.catalogue.places import BROKERS, catalogue
from tocsin.balancing.catalogue.view import CatalogueView, view
from tocsin.balancing.host.host import (
    Composition,
    Event,
    Execute,
    Executed,
    Host,
    PeerLost,
    Received,
    Send,
    Tick,
    Trigger,
)
from tocsin.broker.core import events as ev
from tocsin.broker.core.balancing.peer_list import PeerList
from tocsin.broker.core.balancing.population import BrokerPopulation
from tocsin.broker.core.be_subscriptions import BESubscriptions
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.instructions import Departing, SavePeers, SendToPeer
from tocsin.broker.core.load_reports import LoadReports
from tocsin.broker.core.model.departures import TIMEOUT, Departures
from tocsin.broker.core.sessions import Sessions
from tocsin.broker.core.user_sessions import UserSessions
from tocsin.config import BrokerBalancing, BrokerConfig
from tocsin.errors import UserError
from tocsin.wire.reports import MigrationOrder

#: Newcomers that are compared in a second; those beyond stay where they are.
NEWCOMERS = 32
#: Other brokers that clients get to know, where no coordinator says which.
ALTERNATIVES = 8
#: Refusals that are shown.
SHOWN = 10


class Means(Struct, frozen=True):
    """What the driver provides: tickets for this broker, random numbers, and a text that is unique to this start."""

    permit: Callable[[str, float], str]
    rng: Random
    epoch: str


class PeerView(Struct, frozen=True):
    """``load`` and ``subscribers`` are None if they are not known at the moment."""

    broker: str
    url: str
    reachable: bool
    load: float | None
    subscribers: float | None


class BalancingView(Struct, frozen=True):
    """What balances at this broker."""

    mode: str
    strategy: str
    settings: dict[str, float]
    draining: bool = False
    load: float = 0.0
    subscribers: float = 0.0
    peers: list[PeerView] = []
    sessions: int = 0
    leaving: int = 0
    arriving: int = 0
    migrated: int = 0
    messages_in: int = 0
    messages_out: int = 0
    refusals: list[str] = []


def check(config: BrokerConfig) -> None:
    """Refuses a strategy, setting or component that does not exist, and components that do not work together."""
    balancing = config.balancing
    if balancing.mode == "peers":
        make(balancing.strategy, balancing.settings, balancing.components)
    elif balancing.peers or balancing.components:
        given = "peers" if balancing.peers else "components"
        raise UserError(f"balancing.{given} is given, and mode is coordinator", hint='set balancing.mode = "peers"')


def reconfigured(config: BrokerConfig) -> ev.UseStrategy:
    """From a configuration that was read again; refuses what cannot be changed while the broker runs."""
    if config.balancing.mode != "peers":
        raise UserError("balancing.mode cannot change while the broker runs", hint="restart the broker")
    check(config)
    return ev.UseStrategy(config.balancing)


def composition(config: BrokerBalancing) -> Composition:
    return make(config.strategy, config.settings, config.components)


class PeerBalancer:
    """``migrated``: subscribers that have left for another broker."""

    def __init__(
        self,
        context: Context,
        sessions: Sessions,
        be_subscriptions: BESubscriptions,
        users: UserSessions,
        load_reports: LoadReports,
        means: Means,
    ) -> None:
        config = context.config
        self.context, self._load_reports = context, load_reports
        self.departures = Departures()
        self.peers = PeerList(config.name)
        self._population = BrokerPopulation(context, sessions, be_subscriptions, users, self.departures)
        self.load = BrokerLoad(config.name, self._population, means.permit, config.capacity, seconds=TIMEOUT)
        self.config = config.balancing
        self.host = Host(config.name, self.load, composition(self.config), means.rng, EXECUTES, means.epoch)
        self.migrated = self.messages_in = self.messages_out = 0
        self._set()
        load_reports.departures = self.departures

    # -- events

    def known(self, event: ev.PeersKnown, out: Out) -> None:
        if self.peers.learn(event.peers):
            out.append(SavePeers(dict(self.peers.addresses)))
        if not self.context.config.coordinator:
            some = islice(sorted(self.peers.addresses.items()), ALTERNATIVES)
            self.context.alternatives = {name: address.url for name, address in some}

    def received(self, event: ev.PeerMessage, out: Out) -> None:
        self.peers.answered(event.sender)
        self.messages_in += 1
        self._handle(Received(event.sender, event.message), out)

    def answered(self, event: ev.PeerAnswered, out: Out) -> None:
        self.peers.answered(event.broker)

    def unreachable(self, event: ev.PeerUnreachable, out: Out) -> None:
        if self.peers.failed(event.broker, self.context.now):
            out.append(SavePeers(dict(self.peers.addresses)))
        self._handle(PeerLost(event.broker), out)

    def drain(self, event: ev.DrainSelf, out: Out) -> None:
        self.load.draining = not event.undo

    def use(self, event: ev.UseStrategy, out: Out) -> None:
        """Open sessions go on; what other brokers sent to the previous strategy is judged by this one."""
        self.host.use(composition(event.balancing), self.context.now)
        self.config = event.balancing
        self._set()

    def _set(self) -> None:
        """What the strategy's settings change beside the host."""
        given = settings_of(self.config.strategy) | self.config.settings
        self.load.cool_down = given["cool_down"]
        if given["choices"] <= 1:
            self.context.newcomers = None
        elif self.context.newcomers is None:
            self.context.newcomers = []

    def tick(self, out: Out) -> None:
        self.load.tick()
        for departure in self.departures.ended(self._is_here, self.context.now):
            self.migrated += departure.left
            self._handle(Executed(departure.session, departure.position, departure.left > 0), out)
        if self.context.newcomers is not None:
            newcomers, self.context.newcomers = self.context.newcomers, []
            for name in newcomers[:NEWCOMERS]:
                if self._is_here(name):
                    self._handle(Trigger(self.load.unit(name), SUBSCRIBERS), out)
        self._handle(Tick(), out)

    def _is_here(self, name: str) -> bool:
        return self._population.subscriptions(name) is not None

    # -- the host

    def _handle(self, event: Event, out: Out) -> None:
        self.host.neighbours = self.peers.reachable(self.context.now)
        for output in self.host.handle(event, self.context.now):
            if isinstance(output, Send):
                assert isinstance(output.to, str), "brokers have no key space"
                if output.to in self.peers.addresses:
                    self.messages_out += 1
                    out.append(SendToPeer(output.to, output.message))
            else:
                self._execute(output, out)

    def _execute(self, it: Execute, out: Out) -> None:
        """As ordered by a coordinator: each subscriber joins the other broker before it leaves this one."""
        target = it.action.target
        address = self.peers.addresses.get(target)
        # Permits are the target's word: only members of the units that were agreed on count.
        mine = {each.name for each in self.load.members(it.action)} & it.permits.keys()
        tickets = {name: it.permits[name] for name in it.permits if name in mine and name not in self.departures}
        if address is None or not tickets:
            self._handle(Executed(it.session, it.position, ok=False), out)
            return
        self.departures.begin(it.session, it.position, target, tickets.items(), self.context.now)
        for name, ticket in tickets.items():
            order = MigrationOrder(name, target, address.url, ticket)
            self._load_reports.order(order, out)
            self._load_reports.sent[name] = target
            out.append(Departing(order, it.session))

    # -- for the operator

    def components(self) -> CatalogueView:
        config, known = self.config, catalogue(BROKERS)
        used, _ = known.compose(blueprint(config.strategy, config.settings), config.components)
        return view(known, config.strategy, used.uses())

    def view(self) -> BalancingView:
        config = self.config
        loads = {each.peer: each.load for each in self.host.registry.get_load_report(LOAD)}
        counts = {each.peer: each.load for each in self.host.registry.get_load_report(SUBSCRIBERS)}
        reachable = set(self.peers.reachable(self.context.now))
        return BalancingView(
            config.mode,
            config.strategy,
            settings_of(config.strategy) | config.settings,
            self.load.draining,
            self.load.measure(LOAD),
            self.load.measure(SUBSCRIBERS),
            [
                PeerView(name, address.url, name in reachable, loads.get(name), counts.get(name))
                for name, address in sorted(self.peers.addresses.items())
            ],
            len(self.host.sessions),
            len(self.departures),
            len(self.load.arriving),
            self.migrated,
            self.messages_in,
            self.messages_out,
            [f"{each.by}: {each.reason}" for each in self.host.refusals[-SHOWN:]],
        )
