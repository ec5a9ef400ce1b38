"""Heads and edges with their hosts and mediators, driven second by second.

A second ends with a measurement; then hosts exchange reports, then each runs one iteration; then topics join and the
burst begins. So what happens at 30 s is first measured at 31 s. ``instant``: control messages and migrations take no
time, as in the paper's simulation; else a message takes the latency of its link, and a client that of its notification.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

from tocsin.balancing.deadlines.strategies import EdgeStrategy, make_head
from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import ActionKind, AnyAction
from tocsin.balancing.host.host import (
    Composition,
    Event,
    Execute,
    Executed,
    Host,
    Output,
    Received,
    Send,
    Tick,
    Trigger,
)
from tocsin.balancing.strategies.tao2013.balancing_cost import BalancingCost
from tocsin.balancing.strategies.tao2013.distribution import Distribution
from tocsin.balancing.strategies.tao2013.load_status import Thresholds
from tocsin.balancing.strategies.tao2013.mediator import Forward, Mediator
from tocsin.balancing.strategies.tao2013.metrics import BYTE, LoadTable, Origin, Role, TopicUse
from tocsin.balancing.strategies.tao2013.topic_load import TopicLoad
from tocsin.balancing.strategies.tao2013.waiting_time import Path, allowed_waiting
from tocsin.simulation.deadlines.output_queues import Discipline, OutputQueues
from tocsin.simulation.deadlines.results import Migrated, Results
from tocsin.simulation.deadlines.setup import PUBLISHED, Setup, Topic

#: Seconds after a migration in which a deadline would have to be missed without it, for the migration to be needed.
FORESIGHT = 60.0
#: The world triggers iterations, so that all hosts have all reports before.
NEVER = 1e12
EXECUTES = frozenset({ActionKind.MIGRATE})


@dataclass(frozen=True)
class Options:
    """How the network behaves that is simulated. ``composition``: None where nothing is balanced."""

    strategy: EdgeStrategy
    composition: Callable[[], Composition] | None
    distribution: Distribution
    discipline: Discipline = Discipline.FAIR
    sheds: bool = False
    instant: bool = True


@dataclass
class Edge:
    name: str
    head: str
    queues: OutputQueues
    model: TopicLoad
    host: Host | None
    clients: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Head:
    """``publishers``: of each topic, by name."""

    name: str
    model: TopicLoad
    host: Host | None
    mediator: Mediator
    publishers: dict[str, list[str]] = field(default_factory=dict)


class World:
    def __init__(self, setup: Setup, options: Options, seed: int = 0) -> None:
        self.setup, self.options, self.now = setup, options, 0.0
        self.topics = {topic.name: topic for topic in setup.topics}
        self.active: dict[str, float] = {}
        self.results = Results()
        self._rng = Random(f"world {seed}")
        self._calendar: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()
        self.limits = Thresholds(static_uplink=options.strategy.static_uplink)
        self.heads = {name: self._head(name, seed) for name in setup.clusters}
        self.edges = {edge: self._edge(edge, head, seed) for head, edges in setup.clusters.items() for edge in edges}
        for topic in setup.topics:
            names = [f"{topic.name}/p{number}" for number in range(topic.publishers)]
            self.heads[topic.home].publishers[topic.name] = names

    def _head(self, name: str, seed: int) -> Head:
        others = [each for each in self.setup.clusters if each != name]
        edges = self.setup.clusters[name]
        model = TopicLoad(name, self.setup.brokers[name], Role.HEAD, limits=Thresholds())
        host = None
        if self.options.composition is not None:
            composition = replace(make_head(), balance_every=NEVER)
            host = Host(name, model, composition, Random(f"{name} {seed}"), EXECUTES)
            host.neighbours = others
        mediator = Mediator(name, lambda: edges, lambda: others, limits=self.limits)
        return Head(name, model, host, mediator)

    def _edge(self, name: str, head: str, seed: int) -> Edge:
        resources = self.setup.brokers[name]
        cost = BalancingCost(self.setup.latency.client)
        smoothing = self.options.strategy.smoothing
        model = TopicLoad(name, resources, smoothing=smoothing, limits=self.limits, cost=cost)
        host = None
        if self.options.composition is not None:
            composition = replace(self.options.composition(), balance_every=NEVER)
            host = Host(name, model, composition, Random(f"{name} {seed}"), EXECUTES)
            host.neighbours = [head, *(each for each in self.setup.clusters[head] if each != name)]
        queues = OutputQueues(resources.uplink, self.options.discipline, self.options.sheds)
        return Edge(name, head, queues, model, host)

    # Time.

    def run(self) -> Results:
        for second in range(self.setup.seconds + 1):
            self._at(float(second))
            self._measure()
            self._hosts()
            self._join(second)
            self._sample(second)
        return self._ended()

    def _at(self, until: float) -> None:
        """To this time; what is on the calendar happens on the way."""
        while self._calendar and self._calendar[0][0] <= until + 1e-9:
            when, _, action = heapq.heappop(self._calendar)
            self._flow(when)
            action()
        self._flow(until)

    def _flow(self, until: float) -> None:
        if until > self.now:
            for edge in self.edges.values():
                edge.queues.advance(self.now, until, self.demands(edge))
            self.now = until

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        if self.options.instant or seconds <= 0.0:
            seconds = 0.0
        heapq.heappush(self._calendar, (self.now + seconds, next(self._order), action))

    def demands(self, edge: Edge) -> dict[str, float]:
        """Bits a second that arrive in each output queue."""
        found = {}
        for name, clients in edge.clients.items():
            topic = self.topics[name]
            found[name] = self.rate(topic) * topic.size * BYTE * len(clients)
        return found

    def rate(self, topic: Topic) -> float:
        return topic.rate * self.active.get(topic.name, 0.0)

    # Measurement.

    def _measure(self) -> None:
        for edge in self.edges.values():
            edge.model.observe(self._uses(edge))
        for head in self.heads.values():
            head.model.observe(self._published(head))

    def _uses(self, edge: Edge) -> Iterable[TopicUse]:
        for name, clients in edge.clients.items():
            topic = self.topics[name]
            waiting = edge.queues.queues[name].waiting
            origin = self._origin([head for head in self.heads.values() if head.publishers.get(name)], edge.head)
            allowed = self.allowed(topic, edge)
            yield TopicUse(
                name, tuple(clients), self.rate(topic), topic.size, float(len(clients)), waiting, allowed, origin
            )

    def _published(self, head: Head) -> Iterable[TopicUse]:
        for name, publishers in head.publishers.items():
            if not publishers:
                continue
            topic = self.topics[name]
            rate = len(publishers) * PUBLISHED * self.active.get(name, 0.0)
            edges = [edge for edge in self.edges.values() if edge.clients.get(name)]
            local = [edge for edge in edges if edge.head == head.name]
            remote = {edge.head for edge in edges} - {head.name}
            origin = self._origin([self.heads[edge.head] for edge in edges], head.name)
            copies = float(len(local) + len(remote))
            yield TopicUse(name, tuple(publishers), rate, topic.size, copies, origin=origin)

    def _origin(self, heads: list[Head], own: str) -> Origin:
        names = {head.name for head in heads}
        if not names:
            return Origin.NONE
        if own not in names:
            return Origin.REMOTE
        return Origin.LOCAL if names == {own} else Origin.BOTH

    def allowed(self, topic: Topic, edge: Edge) -> float:
        """Times in heads are not simulated, and those of arrival and departure are left out as in the paper."""
        latency = self.setup.latency
        paths = [
            Path(latency.publisher, 0.0 if head.name == edge.head else latency.broker, latency.broker, latency.client)
            for head in self.heads.values()
            if head.publishers.get(topic.name)
        ]
        return allowed_waiting(topic.deadline, paths)

    # Hosts.

    def _hosts(self) -> None:
        if self.options.composition is None:
            return
        for head in self.heads.values():
            self._forward(head.mediator.tick(self.now), head)
        for event in (Tick(), Trigger()):
            brokers: list[Edge | Head] = [*self.heads.values(), *self.edges.values()]
            for broker in brokers:
                self._handle(broker, event)
            self._at(self.now)

    def _handle(self, broker: Edge | Head, event: Event) -> None:
        if broker.host is not None:
            self._carry_out(broker, broker.host.handle(event, self.now))

    def _carry_out(self, broker: Edge | Head, outputs: Iterable[Output]) -> None:
        for each in outputs:
            match each:
                case Send(str() as to, message):
                    self._send(broker, to, message)
                case Execute():
                    self._execute(broker, each)

    def _send(self, broker: Edge | Head, to: str, message: ms.Message) -> None:
        if isinstance(broker, Head):
            return self._arrive(broker.name, to, message)
        head = self.heads[broker.head]
        sender = broker.name
        return self.later(
            self.setup.latency.broker, lambda: self._forward(head.mediator.handle(sender, to, message, self.now), head)
        )

    def _forward(self, forwards: Iterable[Forward], head: Head) -> None:
        for each in forwards:
            edge = self.edges.get(each.to)
            if each.to in self.heads or (edge is not None and edge.head != head.name):
                # Of another cluster: its head passes it on.
                other = self.heads[each.to if edge is None else edge.head]
                self._mediated(other, each)
            else:
                self._arrive(each.sender, each.to, each.message)

    def _mediated(self, head: Head, each: Forward) -> None:
        self.later(
            self.setup.latency.broker,
            lambda: self._forward(head.mediator.handle(each.sender, each.to, each.message, self.now), head),
        )

    def _arrive(self, sender: str, to: str, message: ms.Message) -> None:
        if to == sender:
            return
        broker: Edge | Head = self.heads[to] if to in self.heads else self.edges[to]
        self.later(self.setup.latency.broker, lambda: self._handle(broker, Received(sender, message)))

    # Migrations.

    def _execute(self, broker: Edge | Head, execute: Execute) -> None:
        action = execute.action
        use = [part for part in map(broker.model.table.part, action.units) if part is not None]
        clients = [client for part in use for client in part.clients]
        needless = isinstance(broker, Edge) and self._needless(broker)
        in_order = not isinstance(broker, Edge) or self._in_order(broker, action)
        self.results.migrations.append(
            Migrated(
                self.now, action.source, action.target, action.units, len(clients), action.reason, needless, in_order
            )
        )
        mediator = self.heads[broker.head if isinstance(broker, Edge) else broker.name].mediator
        mediator.ordered(execute.session, clients)
        begun = self.now

        def migrate() -> None:
            for client in clients:
                self._migrate(broker, action, client)
                mediator.confirmed(execute.session, client)
            notice = self.setup.latency.client if self.options.instant else 0.0
            broker.model.cost.add(self.now - begun + notice)
            self._handle(broker, Executed(execute.session, execute.position))

        self.later(self.setup.latency.client, migrate)

    def _migrate(self, broker: Edge | Head, action: AnyAction, client: str) -> None:
        name = client.partition("/")[0]
        if isinstance(broker, Head):
            broker.publishers[name].remove(client)
            self.heads[action.target].publishers.setdefault(name, []).append(client)
            return
        broker.clients[name].remove(client)
        if not broker.clients[name]:
            del broker.clients[name]
        self._subscribe(self.edges[action.target], name, [client])

    def _subscribe(self, edge: Edge, name: str, clients: Iterable[str]) -> None:
        topic = self.topics[name]
        edge.queues.queue(name, topic.size, self.allowed(topic, edge))
        edge.clients.setdefault(name, []).extend(clients)

    def _needless(self, edge: Edge) -> bool:
        """Whether its deadlines would hold for a while if it kept everything."""
        copy, before = deepcopy(edge.queues), sum(queue.late + queue.shed for queue in edge.queues.queues.values())
        copy.advance(self.now, self.now + FORESIGHT, self.demands(edge))
        return sum(queue.late + queue.shed for queue in copy.queues.values()) <= before

    def _in_order(self, edge: Edge, action: AnyAction) -> bool:
        """By table IV for queue depth: of bundles that fit, those without waiting messages, then those that may wait
        longest."""
        table, target = edge.model.table, self.edges[action.target].model.table

        def rank(use: TopicUse) -> tuple[bool, float]:
            return use.waiting > 0.0, -use.allowed

        moved = {unit.partition("/")[0] for unit in action.units}
        last = max(rank(table.uses[topic]) for topic in moved)
        return not any(
            use.topic not in moved and rank(use) < last and self.limits.objection(target, target.including(use)) is None
            for use in table
        )

    # Phases.

    def _join(self, second: int) -> None:
        if 1 <= second <= len(self.setup.topics):
            topic = self.setup.topics[second - 1]
            self.active[topic.name] = 1.0
            name = self._place(topic)
            self._subscribe(self.edges[name], topic.name, topic.clients)
            self.results.joined[topic.name] = name
        if second == self.setup.burst_at:
            for name in self.setup.burst:
                self.active[name] = self.setup.factor

    def _place(self, topic: Topic) -> str:
        if not self.options.strategy.distributes:
            return self.setup.first
        tables: dict[str, LoadTable] = {
            name: edge.model.table for name, edge in self.edges.items() if edge.head == topic.home
        }
        use = TopicUse(topic.name, topic.clients, topic.rate, topic.size, float(topic.subscribers))
        return self.options.distribution.allocate(use, tables) or self.setup.first

    # Results.

    def _sample(self, second: int) -> None:
        self.results.times.append(second)
        for edge in self.edges.values():
            used = sum(self.demands(edge).values()) / edge.model.table.resources.uplink
            self.results.uplink.setdefault(edge.name, []).append(used)
            for topic, queue in edge.queues.queues.items():
                series = self.results.depth.setdefault((edge.name, topic), [0.0] * second)
                series.append(queue.waiting)

    def _ended(self) -> Results:
        for edge in self.edges.values():
            for topic, queue in edge.queues.queues.items():
                queue.end(self.now)
                for found, value in (
                    (self.results.arrived, queue.arrived),
                    (self.results.late, queue.late),
                    (self.results.shed, queue.shed),
                ):
                    found[topic] = found.get(topic, 0.0) + value
                self.results.longest[topic] = max(queue.longest, self.results.longest.get(topic, 0.0))
                if queue.gaps:
                    self.results.gaps[edge.name, topic] = queue.gaps
        return self.results
