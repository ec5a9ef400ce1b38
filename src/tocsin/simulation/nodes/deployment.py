"""All parts of a simulated network together."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from random import Random

from msgspec import structs

from tocsin.simulation.identity.account import Account
from tocsin.simulation.identity.people import Device, People
from tocsin.simulation.ledger import Interest
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.network import LinkQuality, Network
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.nodes.broker import BrokerNode
from tocsin.simulation.nodes.client import ClientNode
from tocsin.simulation.nodes.cluster import DataCluster
from tocsin.simulation.nodes.coordinator import CoordinatorNode
from tocsin.simulation.nodes.identity import Identity
from tocsin.simulation.nodes.peer_link import PeerNetwork
from tocsin.simulation.nodes.publisher import Publisher
from tocsin.simulation.nodes.rest_client import RestUser
from tocsin.simulation.random_streams import RandomStreams
from tocsin.simulation.scenario import ClientPlan, Scenario
from tocsin.wire.reports import MigrationOrder

#: Seconds between two rounds of polls over REST when nothing new happens.
QUIET_ROUND = 2.0


class Deployment:
    """``retired`` brokers do not return, nor does a retired coordinator. ``peers`` sees what brokers send each other.
    ``on_migration`` is called with source and order when a migration begins."""

    def __init__(self, scenario: Scenario, chance: RandomStreams, trace: Callable[[Clock], Trace] = Trace) -> None:
        self.scenario, self.chance = scenario, chance
        self.clock = Clock()
        self.trace = trace(self.clock)
        self.network = Network(self.clock, self.trace, chance.of("network"))
        self.cluster = DataCluster(self.network, chance.of("cluster"), scenario.cluster_gone_after)
        self.coordinator = CoordinatorNode(scenario.coordinator, self.network, chance.of("coordinator"))
        self.people = People(scenario.rules)
        if scenario.users:
            self.coordinator.identity = Identity(
                self.coordinator, scenario.coordinator.identity, self.people, chance.of("identity")
            )
        self.brokers: dict[str, BrokerNode] = {}
        self.by_url: dict[str, BrokerNode] = {}
        self.clients: dict[str, ClientNode] = {}
        self.rest_users: dict[str, RestUser] = {}
        self.retired: set[str] = set()
        self.draining: dict[str, None] = {}
        self.on_migration: list[Callable[[BrokerNode, MigrationOrder], None]] = []
        self.peers = PeerNetwork()
        self.calm_since = 0.0
        self._handles = count(1)
        self.cluster.rules = dict(scenario.rules or {})
        for plan in scenario.channels:
            self.cluster.create(structs.replace(plan, size=dict(plan.size)))
        for number in range(scenario.brokers + scenario.spare):
            self._add_broker(number)
        for number, client in enumerate(scenario.clients):
            self._add_rest_user(number, client) if client.rest else self._add_client(number, client)

    @property
    def apps(self) -> list[ClientNode | RestUser]:
        """All applications."""
        return [*self.clients.values(), *self.rest_users.values()]

    def start(self) -> None:
        """Brokers first; clients come one after the other."""
        self.cluster.boot()
        self.coordinator.boot()
        for broker in list(self.brokers.values())[: self.scenario.brokers]:
            broker.boot()
        rng = self.chance.of("arrivals")
        for app in self.apps:
            self.clock.at(rng.uniform(0.2, 3.0), self.arrive, app)

    @staticmethod
    def arrive(app: ClientNode | RestUser) -> None:
        if not app.up:
            app.boot()

    def interest(self, channel: str, kind: str) -> Interest:
        return Interest(next(self._handles), channel, kind)

    def moving(self, source: BrokerNode, order: MigrationOrder) -> None:
        for each in list(self.on_migration):
            each(source, order)

    def calm(self) -> None:
        """Nothing new happens: no results, no records."""
        self.cluster.producing = False
        self.calm_since = self.clock.now
        for client in self.clients.values():
            client.publisher.every = 0.0
        for user in self.rest_users.values():
            user.every = QUIET_ROUND

    def heal(self) -> None:
        """All faults end: machines come back, the network is well, and who was slow is quick."""
        self.network.quality = LinkQuality()
        self.network.partitions.clear()
        self.on_migration.clear()
        if not self.cluster.up:
            self.cluster.boot()
        if not self.coordinator.up and self.coordinator.name not in self.retired:
            self.coordinator.boot()
        for name, broker in self.brokers.items():
            broker.usual()
            broker.skew = 0.0
            if broker.life and not broker.up and name not in self.retired:
                broker.boot()
        self.coordinator.skew = 0.0
        for client in self.clients.values():
            client.usual(1e6)
        for app in self.apps:
            if not app.up:
                app.boot()
        for name, workload in self.cluster.workloads.items():
            if name.lower() not in self.cluster.data.channels:
                self.cluster.create(workload)
        self.network.retry_stalled()
        if self.trace:
            self.trace.say("world", "all faults end")

    # -- building

    def _add_broker(self, number: int) -> None:
        scenario, name = self.scenario, f"b{number + 1}"
        capacity = scenario.capacities[number] if scenario.capacities else 1.0
        config = structs.replace(scenario.broker, name=name, capacity=capacity)
        rng = self.chance.of(f"broker {name}")
        broker = BrokerNode(config, self.network, rng, self.cluster, self.coordinator)
        broker.masked = scenario.masked
        broker.moving = lambda order: self.moving(broker, order)
        broker.network_of_peers = self.peers
        self.peers.brokers[name] = self.brokers[name] = self.by_url[broker.url] = broker
        self.cluster.notifier.addresses[name] = broker

    def _add_client(self, number: int, plan: ClientPlan) -> None:
        name = f"c{number + 1}"
        brokers = list(self.brokers.values())
        first = [] if plan.at is None else [brokers[plan.at]]
        known = [*first, *(each for each in brokers[: plan.urls] if each not in first)]
        rng = self.chance.of(f"client {name}")
        asks = self.coordinator if plan.at is None else None
        client = ClientNode(name, self.network, rng, self.by_url, asks, [broker.url for broker in known])
        client.masked, client.max_pending = self.scenario.masked, plan.max_pending
        client.handles = self._handles
        client.usual(plan.bandwidth)
        client.pace = plan.pace
        if self.scenario.publishing:
            papers = self.chance.of(f"papers of {name}")
            client.publisher = Publisher(client, papers, papers.choice((0.0, 0.0, 0.5, 2.0)))
        self.clients[name] = client
        if plan.user:
            client.account = self._account(client, plan, rng)
        for channel, kind in plan.interests:
            client.subscribe(self.interest(channel, kind))

    def _add_rest_user(self, number: int, plan: ClientPlan) -> None:
        name = f"r{number + 1}"
        rng = self.chance.of(f"client {name}")
        user = self.rest_users[name] = RestUser(name, self.network, rng, self.by_url, self.coordinator)
        user.account = self._account(user, plan, rng)
        for channel, kind in plan.interests:
            interest = self.interest(channel, kind)
            user.interests[interest.handle] = interest

    def _account(self, node: ClientNode | RestUser, plan: ClientPlan, rng: Random) -> Account:
        assert self.coordinator.identity is not None
        device = Device(self.people.person(plan.user), plan.device)
        return Account(node, device, self.coordinator.identity, self.cluster, rng, plan.forgetful)
