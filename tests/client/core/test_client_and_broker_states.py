"""The state machines of clients and brokers over a faulty network, with a data cluster that answers at any time, while
clients migrate from one broker to the other: each subscription receives each of its notifications once, in order, or a
gap for those made while no broker held the subscription.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import count
from typing import Any

from client_harness import ClientHarness
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from seeds import examples
from tocsin.broker.core import events as happened
from tocsin.broker.core import instructions as do
from tocsin.broker.core.state import BrokerState
from tocsin.client.core import events as ev
from tocsin.client.notification import Gap
from tocsin.config import BrokerConfig, BrokerLimits
from tocsin.wire import messages as wire
from tocsin.wire.position import Position
from tocsin.wire.reports import MigrationOrder, ReportReply

CLIENTS = 2
FETCHED = 3  # lines at a time
NAMES = ("one", "two")

Peer = tuple[int, int]  # client, connection


class Site:
    """A broker and its subscriptions at the data cluster: x by id. A subscription made again gets a new id."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.holds: dict[int, int] = {}
        self.notifications: deque[int] = deque()
        self.requests: list[Any] = []  # to the data cluster
        self.start()

    def start(self) -> None:
        config = BrokerConfig(
            name=self.name,
            heartbeat=3.0,
            silence=9.0,
            grace=5.0,
            anonymous="all",
            limits=BrokerLimits(cache_results=3),
        )
        self.state = BrokerState(config, lambda ticket, subscriber: None if subscriber in ticket else "not yours")


class ClientsAndBrokers(RuleBasedStateMachine):
    """A tick is one second."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.log: list[set[int]] = [set() for _ in range(5)]
        self.results: list[set[int]] = [set() for _ in self.log]  # ids with results
        self.sites = {name: Site(name) for name in NAMES}
        self.ids = count(1)
        self.harnesses = [
            ClientHarness(*NAMES, wait_for_broker=True, subscriber=f"subscriber-{client}") for client in range(CLIENTS)
        ]
        self.read: dict[Peer, int] = {}
        self.down: dict[Peer, list[Any]] = {}  # messages in flight to a client
        self.handles: list[tuple[int, int]] = []  # (client, x)
        self.begins: dict[int, int] = {}
        self.taken: dict[int, int] = {}
        self.tickets: Iterator[int] = count(1)
        for harness in self.harnesses:
            harness.now = self.now
            harness.do(ev.OpenRequested())
            self.record_begins(harness)

    # -- the machines ------------------------------------------------------------------------------------------------

    def site(self, peer: Peer) -> Site:
        return self.sites[self.harnesses[peer[0]].lines[peer[1]].url]

    def handle(self, site: Site, event: Any) -> None:
        for instruction in site.state.handle(event, self.now):
            match instruction:
                case do.Send(peers, encoded):
                    messages = [message for data in encoded for message in wire.decode_answers(data)]
                    for peer in peers:
                        if peer in self.down:
                            self.down[peer] += messages
                case do.Close(peer, close):
                    self.broken(peer, close.code)
                case do.Subscribe() | do.Unsubscribe() | do.Pull() | do.Fetch():
                    site.requests.append(instruction)

    def broken(self, peer: Peer, code: int | None) -> None:
        """Messages in flight are lost in both directions."""
        if self.down.pop(peer, None) is not None:
            client, connection = peer
            line = self.harnesses[client].lines[connection]
            line.online = line.open = False
            self.step(client, ev.Disconnected(connection, code))

    def record_begins(self, harness: ClientHarness) -> None:
        """Records where a subscription begins when it is confirmed, and checks that this is not in the future."""
        confirm = harness.state.subscriptions.confirm

        def record_and_confirm(entry: Any, session: Any) -> None:
            assert entry.execution <= len(self.log)
            self.begins.setdefault(entry.handle, entry.execution)
            confirm(entry, session)

        harness.state.subscriptions.confirm = record_and_confirm

    def step(self, client: int, event: ev.Event) -> None:
        harness = self.harnesses[client]
        harness.now = self.now
        before = len(harness.done)
        harness.do(event)
        for instruction in harness.done[before:]:
            if isinstance(instruction, ev.Close):
                peer = (client, instruction.connection)
                if self.down.pop(peer, None) is not None:
                    self.handle(self.site(peer), happened.Closed(peer))

    def peers(self) -> list[Peer]:
        """Connections that are open or being opened."""
        return [
            (c, n) for c, harness in enumerate(self.harnesses) for n, line in harness.lines.items() if n and line.open
        ]

    # -- the application ---------------------------------------------------------------------------------------------

    @rule(client=st.integers(0, CLIENTS - 1), x=st.integers(0, 2), named=st.booleans())
    def subscribe(self, client: int, x: int, named: bool) -> None:
        self.handles.append((client, x))
        args: Any = {"x": x} if named else [x]
        self.step(client, ev.SubscribeRequested(len(self.handles), "C", args, max_pending=3))

    @rule(data=st.data(), drain=st.booleans())
    @precondition(lambda self: self.handles)
    def unsubscribe(self, data: Any, drain: bool) -> None:
        handle = data.draw(st.integers(1, len(self.handles)))
        self.step(self.handles[handle - 1][0], ev.UnsubscribeRequested(handle, drain))

    @rule()
    def consume(self) -> None:
        for handle, (client, _) in enumerate(self.handles, 1):
            got = self.harnesses[client].got(handle)
            if self.taken.get(handle, 0) < len(got):
                self.step(client, ev.Consumed(handle, Position(0, got[self.taken.get(handle, 0)])))
                self.taken[handle] = self.taken.get(handle, 0) + 1

    # -- the data cluster --------------------------------------------------------------------------------------------

    @rule(values=st.sets(st.integers(0, 2)))
    def execute(self, values: set[int]) -> None:
        self.log.append(values)
        self.results.append(set())
        for site in self.sites.values():
            hit = {id_ for id_, x in site.holds.items() if x in values}
            self.results[-1] |= hit
            if hit:
                site.notifications.append(len(self.log))

    @rule(name=st.sampled_from(NAMES))
    def notify(self, name: str) -> None:
        site = self.sites[name]
        if site.notifications:
            self.handle(site, happened.Notified("C", site.notifications.popleft()))

    def line(self, id_: int, execution: int) -> happened.Line:
        return happened.Line(id_, execution, 1, b"[1]")

    @rule(name=st.sampled_from(NAMES), data=st.data())
    def answer(self, name: str, data: Any) -> None:
        site = self.sites[name]
        if site.requests:
            self.answered(site, data.draw(st.integers(0, len(site.requests) - 1)))

    def id_of(self, site: Site, x: int) -> int:
        for id_, value in site.holds.items():
            if value == x:
                return id_
        id_ = next(self.ids)
        site.holds[id_] = x
        return id_

    def answered(self, site: Site, place: int) -> None:
        match site.requests.pop(place):
            case do.Subscribe(channel, args):
                ids = [self.id_of(site, each["x"] if isinstance(each, dict) else each[0]) for each in args]
                self.handle(site, happened.Subscribed(channel, ids, Position(0, len(self.log))))
            case do.Unsubscribe(channel, subscriptions):
                for id_ in subscriptions:
                    site.holds.pop(id_, None)
                self.handle(site, happened.Unsubscribed(channel))
            case do.Pull(channel, position):
                execution = position.execution
                lines = [self.line(id_, execution) for id_ in sorted(self.results[execution - 1] & set(site.holds))]
                self.handle(site, happened.Pulled(channel, position, lines))
            case do.Fetch(job, _, subscription, (_, after)):
                every = [e for e, hit in enumerate(self.results, 1) if e > after and subscription in hit]
                lines = [self.line(subscription, execution) for execution in every[:FETCHED]]
                self.handle(site, happened.Fetched(job, lines, len(every) > FETCHED))

    # -- the coordinator ---------------------------------------------------------------------------------------------

    @rule(client=st.integers(0, CLIENTS - 1), name=st.sampled_from(NAMES), valid=st.booleans(), fast=st.booleans())
    def migrate(self, client: int, name: str, valid: bool, fast: bool) -> None:
        """A broker that has the subscriber sends it to the other one. A forged ticket is refused."""
        subscriber = self.harnesses[client].state.subscriber
        (other,) = [each for each in NAMES if each != name]
        ticket = f"{next(self.tickets)} {subscriber if valid else 'forged'}"
        order = MigrationOrder(subscriber, other, other, ticket)
        self.handle(self.sites[name], happened.Ordered(ReportReply(1, migrations=[order])))
        if fast:
            for peer in [peer for peer in self.down if peer[0] == client]:
                self.deliver_to(peer, 1_000)

    @rule(client=st.integers(0, CLIENTS - 1), name=st.sampled_from(NAMES))
    def drop(self, client: int, name: str) -> None:
        """The coordinator knows a newer connection, so the broker closes this one."""
        state = self.harnesses[client].state
        if state.current is not None and state.current.ready and state.current.candidate.url != name:
            self.handle(self.sites[name], happened.Ordered(ReportReply(1, drop=[state.subscriber])))

    # -- network, time and kills -------------------------------------------------------------------------------------

    @rule(data=st.data())
    @precondition(lambda self: self.down)
    def up(self, data: Any) -> None:
        self.up_from(data.draw(st.sampled_from(sorted(self.down))))

    def up_from(self, peer: Peer) -> None:
        sent = self.harnesses[peer[0]].lines[peer[1]].sent
        if self.read[peer] < len(sent):
            messages, self.read[peer] = sent[self.read[peer] :], len(sent)
            self.handle(self.site(peer), happened.Received(peer, messages))

    @rule(data=st.data(), most=st.integers(1, 10))
    @precondition(lambda self: self.down)
    def deliver(self, data: Any, most: int) -> None:
        self.deliver_to(data.draw(st.sampled_from(sorted(self.down))), most)

    def deliver_to(self, peer: Peer, most: int) -> None:
        if self.down.get(peer) and self.harnesses[peer[0]].lines[peer[1]].reading:
            part, self.down[peer] = self.down[peer][:most], self.down[peer][most:]
            self.step(peer[0], ev.Received(peer[1], part))

    @rule(data=st.data())
    @precondition(lambda self: len(self.peers()) > len(self.down))
    def connect(self, data: Any) -> None:
        self.connected(data.draw(st.sampled_from([peer for peer in self.peers() if peer not in self.down])))

    def connected(self, peer: Peer) -> None:
        self.down[peer], self.read[peer] = [], 0
        self.harnesses[peer[0]].lines[peer[1]].online = True
        self.handle(self.site(peer), happened.Opened(peer))
        self.step(peer[0], ev.Connected(peer[1]))

    @rule(data=st.data(), rounds=st.integers(1, 4))
    @precondition(lambda self: self.peers())
    def go_on(self, data: Any, rounds: int) -> None:
        """One client and its broker work without faults for some rounds."""
        peer = data.draw(st.sampled_from(self.peers()))
        if peer not in self.down:
            self.connected(peer)
        for _ in range(rounds):
            if peer in self.down:
                self.up_from(peer)
                self.work(self.site(peer))
                self.deliver_to(peer, 1_000)

    def work(self, site: Site) -> None:
        while site.notifications or site.requests:
            while site.notifications:
                self.notify(site.name)
            while site.requests:
                self.answered(site, 0)

    @rule(data=st.data())
    @precondition(lambda self: self.down)
    def cut(self, data: Any) -> None:
        peer = data.draw(st.sampled_from(sorted(self.down)))
        self.handle(self.site(peer), happened.Closed(peer))
        self.broken(peer, None)

    @rule(data=st.data(), slow=st.booleans())
    @precondition(lambda self: self.down)
    def congest(self, data: Any, slow: bool) -> None:
        peer = data.draw(st.sampled_from(sorted(self.down)))
        self.handle(self.site(peer), happened.Congested(peer) if slow else happened.Drained(peer))

    @rule()
    def tick(self) -> None:
        self.now += 1
        for site in self.sites.values():
            self.handle(site, happened.Tick())
        for client, harness in enumerate(self.harnesses):
            if harness.timer is not None and self.now >= harness.timer:
                harness.timer = None
                self.step(client, ev.Timer())

    @rule(name=st.sampled_from(NAMES), recovers=st.booleans())
    def kill(self, name: str, recovers: bool) -> None:
        """The broker restarts with only the state of the data cluster."""
        site = self.sites[name]
        site.requests.clear()
        site.start()
        for peer in [peer for peer in self.down if self.site(peer) is site]:
            self.broken(peer, None)
        if recovers:
            held = [(id_, [x]) for id_, x in sorted(site.holds.items())]
            self.handle(site, happened.Recovered("C", held, Position(0, len(self.log))))

    # -- what must hold ----------------------------------------------------------------------------------------------

    def expected(self, handle: int) -> list[int]:
        """All notifications except those in announced gaps."""
        client, x = self.handles[handle - 1]
        harness = self.harnesses[client]
        missed = [item for item in harness.items[handle] if isinstance(item, Gap)]
        gone = {e for item in missed for e in range(item.after + 1, item.next)} - set(harness.got(handle))
        begin = self.begins[handle]
        return [e for e, hit in enumerate(self.log, 1) if e > begin and x in hit and e not in gone]

    @invariant()
    def no_notification_is_missing_or_repeated(self) -> None:
        for handle, (client, _) in enumerate(self.handles, 1):
            got = self.harnesses[client].got(handle)
            assert not got or got == self.expected(handle)[: len(got)]

    @invariant()
    def a_client_has_at_most_two_connections(self) -> None:
        for client, harness in enumerate(self.harnesses):
            assert sum(peer[0] == client for peer in self.peers()) == len(harness.state.connections) <= 2

    def teardown(self) -> None:
        """All faults end, and each subscription has all its notifications."""
        for _ in range(200):
            self.tick()
            for peer in self.peers():
                if peer not in self.down:
                    self.connected(peer)
            for peer in list(self.down):
                if peer in self.down:
                    self.up_from(peer)
                if peer in self.down:
                    self.handle(self.site(peer), happened.Drained(peer))
            for site in self.sites.values():
                self.work(site)
            for peer in list(self.down):
                self.deliver_to(peer, 1_000)
            for _ in range(10):
                self.consume()
        for client, harness in enumerate(self.harnesses):
            assert harness.state.status.state == "connected" and harness.state.connections == [harness.state.current]
            assert harness.state.subscriptions.current.requests == {}
            for handle in harness.state.subscriptions.by_handle:
                assert harness.got(handle) == self.expected(handle), (client, handle)


ClientsAndBrokers.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=60, deadline=None)
TestClientsAndBrokers = ClientsAndBrokers.TestCase
