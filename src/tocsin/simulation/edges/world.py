"""A run of edges and heads in simulated time: publications pass, subscribers join and migrate, brokers balance.

Machines of the strategy get the same events as in production. Messages among them take no time: they overtake
publications, and the thesis' simulator has no latency either.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

from tocsin.balancing.strategies.cheung2006.composition import Composition
from tocsin.balancing.strategies.cheung2006.mediation import events as ev
from tocsin.balancing.strategies.cheung2006.mediation import outputs as out
from tocsin.balancing.strategies.cheung2006.mediation.edge import Edge
from tocsin.balancing.strategies.cheung2006.mediation.head import Head
from tocsin.balancing.strategies.cheung2006.parameters import Parameters
from tocsin.simulation.edges.broker import EdgeBroker
from tocsin.simulation.edges.head_broker import HeadBroker
from tocsin.simulation.edges.matches import Matches, Quote
from tocsin.simulation.edges.meter import WINDOW
from tocsin.simulation.edges.records import ClusterSessionRecord, EstimateRecord, Records, SessionRecord
from tocsin.simulation.edges.topology import Topology
from tocsin.simulation.edges.workload import Subscriber, Workload
from tocsin.simulation.random_streams import RandomStreams

#: Seconds between two values of the series, and between two samples that stability is judged by.
INTERVAL = 10.0
#: Seconds after the window of the meters that an estimate is compared with what came.
SETTLED = 5.0


@dataclass
class Settings:
    topology: Topology
    parameters: Parameters = field(default_factory=Parameters)
    composition: Composition = field(default_factory=Composition)
    silent_heads: bool = False
    balancing: bool = True


class World:
    def __init__(self, settings: Settings, workload: Workload, seed: int) -> None:
        self.settings, self.workload, self.now = settings, workload, 0.0
        matches = Matches(workload)
        self._quotes, covering, streams = matches.quotes, matches.covering(), RandomStreams(seed)
        self._covering = covering
        self.brokers: dict[str, EdgeBroker] = {}
        self.machines: dict[str, Edge | Head] = {}
        self.heads: dict[str, HeadBroker] = {}
        self._watchers: dict[str, list[str]] = {}
        for cluster in settings.topology.clusters:
            edges = [EdgeBroker(each, workload.subscriptions, covering) for each in cluster.edges]
            self.heads[cluster.name] = HeadBroker(cluster.head, edges)
            self._watchers[cluster.name] = [cluster.name, *(edge.name for edge in edges)]
            names = [edge.name for edge in edges]
            rng = streams.of(f"head/{cluster.name}")
            self.machines[cluster.name] = Head(
                cluster.name, cluster.name, names, settings.parameters, rng, silent=settings.silent_heads
            )
            for edge in edges:
                self.brokers[edge.name] = edge
                rng = streams.of(f"edge/{edge.name}")
                machine = Edge(
                    edge.name, cluster.name, cluster.name, edge, settings.composition, settings.parameters, rng
                )
                self.machines[edge.name] = machine
                edge.press = lambda machine=machine: machine.press  # type: ignore[misc]
        self._connect()
        self.records = Records(list(self.brokers))
        self._where = {each.name: each.subscription for each in workload.subscribers}
        self._events: list[tuple[float, int, str, object]] = []
        self._order = count()
        self._mail: deque[tuple[str, ev.Event]] = deque()
        self.control = self.quotes = 0
        self._last = (0, 0, 0.0, 0)
        self._sessions: dict[str, int] = dict.fromkeys(self.brokers, 0)

    def _connect(self) -> None:
        """Publications go away from the first head."""
        first = self.settings.topology.clusters[0].name
        front: list[tuple[str, str]] = [(first, "")]
        self._source, self._outward = self.heads[first], []
        while front:
            name, origin = front.pop(0)
            self._outward.append(self.heads[name])
            for each in self.settings.topology.links.get(name, ()):
                if each != origin:
                    self.heads[name].onward.append(self.heads[each])
                    front.append((each, name))

    # The loop.

    def run(self) -> Records:
        size = self.workload.size
        for subscriber in self.workload.subscribers:
            self._at(subscriber.at, "join", subscriber)
        self._at(1.0, "tick", None)
        self._at(INTERVAL, "record", None)
        events, source = self._events, self._source
        publications = self._publications()
        published = next(publications, None)
        while events and events[0][0] <= size.seconds:
            at = events[0][0]
            while published is not None and published[0] <= at:
                source.publish(published[1], published[0], published[0])
                published = next(publications, None)
            _, _, what, subject = heapq.heappop(events)
            self.now = at
            self._happen(what, subject)
        return self.records

    def _at(self, time: float, what: str, subject: object) -> None:
        heapq.heappush(self._events, (time, next(self._order), what, subject))

    def _publications(self) -> Iterator[tuple[float, Quote]]:
        """Each publisher at its rate; those that change go on with twice of it."""
        size = self.workload.size
        heap: list[tuple[float, int, int]] = []
        for number, each in enumerate(self.workload.publishers):
            if each.rate > 0:
                heapq.heappush(heap, (each.at + 60.0 / each.rate, number, 0))
        while heap:
            at, number, place = heap[0]
            if at > size.seconds:
                return
            publisher = self.workload.publishers[number]
            quotes = self._quotes[publisher.symbol]
            yield at, quotes[place % len(quotes)]
            faster = 2.0 if publisher.faster and at >= size.change_at else 1.0
            heapq.heapreplace(heap, (at + 60.0 / publisher.rate / faster, number, place + 1))

    def _happen(self, what: str, subject: object) -> None:
        if what == "tick":
            self._tick()
        elif what == "record":
            self._record()
            self._at(self.now + INTERVAL, "record", None)
        elif what == "join":
            assert isinstance(subject, Subscriber)
            self._join(subject)
        elif what == "release":
            self._release(*subject)  # type: ignore[misc]
        elif what == "settled":
            self._settle(*subject)  # type: ignore[misc]

    def _tick(self) -> None:
        now = self.now
        for broker in self.brokers.values():
            broker.advance(now)
        if self.settings.balancing:
            for name, machine in self.machines.items():
                press = machine.press if isinstance(machine, Edge) else None
                if machine.next_due() <= now or (press is not None and press.complete):
                    self._post(name, ev.Tick())
            self._deliver()
        self._at(now + 1.0, "tick", None)

    # Subscribers.

    def _join(self, subscriber: Subscriber) -> None:
        broker = self.brokers[self.settings.topology.clusters[0].edges[0].name]
        broker.advance(self.now)
        self._subscribe(broker, subscriber.name, subscriber.subscription)
        self._changed()

    def _release(self, broker: EdgeBroker, names: tuple[str, ...]) -> None:
        broker.advance(self.now)
        for name in names:
            broker.unsubscribe(name, self._where[name])
            self.control += self._hops(broker, self._where[name])
        self._changed()

    def _subscribe(self, broker: EdgeBroker, name: str, subscription: int) -> None:
        self.control += self._hops(broker, subscription)
        broker.subscribe(name, subscription)

    def _hops(self, broker: EdgeBroker, subscription: int) -> int:
        """Brokers that receive it: the head too, unless what is at the edge covers it."""
        return 1 if self._covering.covered(subscription, broker.present) else 2

    def _changed(self) -> None:
        """Each head holds the covering sets of what is beyond it."""
        for head in reversed(self._outward):
            head.refresh(len(self._covering.css(head.needed())))

    # Messages among machines.

    def _post(self, to: str, event: ev.Event) -> None:
        self._mail.append((to, event))

    def _deliver(self) -> None:
        while self._mail:
            to, event = self._mail.popleft()
            machine = self.machines[to]
            for each in machine.handle(event, self.now):
                self._do(to, each)

    def _do(self, sender: str, output: out.Output) -> None:
        match output:
            case out.Publish(pie):
                to = self._watchers[pie.cluster] if sender in self.brokers else self._around(sender)
                # Via its head to everybody else.
                self.control += len(to)
                for each in to:
                    if each != sender:
                        self._post(each, ev.Received(sender, pie))
            case out.Forward(pie, origin):
                for each in self._around(sender):
                    if each not in (origin, pie.broker):
                        self.control += 1
                        self._post(each, ev.Received(sender, pie))
            case out.Send(to, message):
                self.control += 2
                self._post(to, ev.Received(sender, message))
            case out.Watch(cluster, on):
                self.control += 1
                watchers = self._watchers[cluster]
                if on and sender not in watchers:
                    watchers.append(sender)
                elif not on and sender in watchers:
                    watchers.remove(sender)
                self._note(sender, cluster, on)
            case out.Order(subscriber, target, session, total):
                self._migrate(sender, subscriber, target, session, total)
            case out.Release(names, seconds):
                self._at(self.now + seconds, "release", (self.brokers[sender], names))
            case out.Selected():
                self._selected(sender, output)

    def _around(self, head: str) -> list[str]:
        return list(self.settings.topology.links.get(head, ()))

    def _migrate(self, source: str, subscriber: str, target: str, session: str, total: int) -> None:
        """Subscribed at both until it is released: the thesis' double subscription."""
        self.control += 1
        broker = self.brokers[target]
        broker.advance(self.now)
        subscription = self._where[subscriber]
        if not broker.has(subscriber, subscription):
            self._subscribe(broker, subscriber, subscription)
        self.brokers[source].leave(subscriber)
        self._post(target, ev.Arrived(subscriber, session, total))
        self._changed()

    # Records.

    def _selected(self, source: str, found: out.Selected) -> None:
        record = SessionRecord(self.now, source, found.partner, found.action.value, found.overloaded, found.subscribers)
        self.records.sessions.append(record)
        numbers = {}
        for name in (source, found.partner):
            self._sessions[name] += 1
            numbers[name] = self._sessions[name]
        wait = self.brokers[source].queue_delay() + WINDOW + SETTLED
        self._at(self.now + wait, "settled", (numbers, source, found))

    def _settle(self, numbers: Mapping[str, int], source: str, found: out.Selected) -> None:
        """Unless another session has changed the load meanwhile."""
        size = self.workload.size
        first = self.settings.topology.clusters[0].edges[0].name
        joining = source == first and self.now < size.join_until + WINDOW
        for name, expected in ((source, found.ours), (found.partner, found.theirs)):
            if self._sessions[name] == numbers[name] and found.subscribers:
                self.brokers[name].advance(self.now)
                actual = self.brokers[name].indices()
                self.records.estimates.append(EstimateRecord(self.now, name, name == source, joining, expected, actual))

    def _note(self, sender: str, cluster: str, on: bool) -> None:
        """Sessions of clusters, as their requesters see them."""
        machine = self.machines[sender]
        if not isinstance(machine, Head):
            return
        records = self.records.cluster_sessions
        pair = {sender, cluster}
        position = next(
            (i for i, each in enumerate(records) if {each.source, each.target} == pair and each.ended is None), None
        )
        if on and position is None:
            records.append(ClusterSessionRecord(self.now, None, sender, cluster))
        elif not on and position is not None:
            each = records[position]
            records[position] = ClusterSessionRecord(each.began, self.now, each.source, each.target)

    def _record(self) -> None:
        records, now = self.records, self.now
        records.times.append(now)
        for name, broker in self.brokers.items():
            broker.advance(now)
            indices = broker.indices()
            machine = self.machines[name]
            assert isinstance(machine, Edge)
            machine.record(indices, now)
            values = (indices.input, indices.output, indices.matching_delay, broker.input_wait, broker.output_wait)
            for series, value in zip(records.series.values(), (*values, broker.total), strict=True):
                series[name].append(float(value))
        received = sum(each.received for each in self.brokers.values()) + sum(
            each.received for each in self.heads.values()
        )
        delivered = sum(each.delivered for each in self.brokers.values())
        delays = sum(each.delays for each in self.brokers.values())
        quotes, control, before, earlier = self._last
        copies = delivered - earlier
        records.delivery.append((delays - before) / copies if copies else 0.0)
        more, other = self.control - control, received - quotes
        records.overhead.append(more / (more + other) if more + other else 0.0)
        self._last = (received, self.control, delays, delivered)


def simulate(settings: Settings, workload: Workload, seed: int) -> Records:
    return World(settings, workload, seed).run()
