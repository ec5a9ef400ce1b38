"""The state machines of client and broker, talking to each other over a network that breaks, beside a data cluster that
answers when it likes: each subscription gets each of its notifications, in order and once.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from rig import Rig

from tocsin.broker import events as happened
from tocsin.broker import instructions as do
from tocsin.broker.state import BrokerState
from tocsin.client import events as ev
from tocsin.config import BrokerConfig, BrokerLimits
from tocsin.wire import messages as wire
from tocsin.wire.frames import TEXT, payloads

CLIENTS = 2
FETCHED = 3  # lines at a time


def new_broker() -> BrokerState:
    limits = BrokerLimits(cache_results=3)
    return BrokerState(BrokerConfig(heartbeat=3.0, grace=5.0, limits=limits))


class World(RuleBasedStateMachine):
    """Time passes by ticks of one second. A number of a subscription is 1 + its argument, for ever."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.log: list[set[int]] = [set() for _ in range(5)]
        self.holds: set[int] = set()
        self.tells: deque[int] = deque()
        self.asked: list[Any] = []  # of the data cluster
        self.broker = new_broker()
        self.rigs = [Rig(patient=True, subscriber=f"subscriber-{client}") for client in range(CLIENTS)]
        self.read = [0] * CLIENTS
        self.down: dict[tuple[int, int], list[Any]] = {}  # (client, connection): what is on its way to it
        self.handles: list[tuple[int, int]] = []  # (client, number)
        self.begins: dict[int, int] = {}
        self.taken: dict[int, int] = {}
        for rig in self.rigs:
            rig.now = self.now
            rig.do(ev.Open())
            self.watch(rig)

    # -- the machines ------------------------------------------------------------------------------------------------

    def tell(self, event: Any) -> None:
        for instruction in self.broker.handle(event, self.now):
            match instruction:
                case do.Send(peers, frame):
                    messages = [
                        m for opcode, data in payloads(frame) if opcode == TEXT for m in wire.decode_answers(data)
                    ]
                    for peer in peers:
                        if peer in self.down:
                            self.down[peer] += messages
                case do.Close(peer, close):
                    self.broken(peer, close.code)
                case do.Want() | do.Unwant() | do.Pull() | do.Fetch():
                    self.asked.append(instruction)

    def broken(self, peer: tuple[int, int], code: int | None) -> None:
        """What was on its way is gone, in both directions."""
        if self.down.pop(peer, None) is not None:
            client, connection = peer
            self.rigs[client].lines[connection].online = False
            self.step(client, ev.Disconnected(connection, code))

    def watch(self, rig: Rig) -> None:
        """Where a subscription begins is known when its answer comes, and is not in the future."""
        confirm = rig.state.subscriptions.confirm

        def watched(entry: Any, session: Any) -> None:
            assert entry.cursor <= len(self.log)
            self.begins.setdefault(entry.handle, entry.cursor)
            confirm(entry, session)

        rig.state.subscriptions.confirm = watched

    def step(self, client: int, event: ev.Event) -> None:
        rig = self.rigs[client]
        rig.now = self.now
        before = len(rig.done)
        rig.do(event)
        for instruction in rig.done[before:]:
            if isinstance(instruction, ev.Close):
                peer = (client, instruction.connection)
                if self.down.pop(peer, None) is not None:
                    self.tell(happened.Closed(peer))

    # -- the application ---------------------------------------------------------------------------------------------

    @rule(
        client=st.integers(0, CLIENTS - 1), x=st.integers(0, 2), named=st.booleans(), back=st.none() | st.integers(0, 5)
    )
    def subscribe(self, client: int, x: int, named: bool, back: int | None) -> None:
        self.handles.append((client, 1 + x))
        handle = len(self.handles)
        after = None if back is None else max(0, len(self.log) - back)
        if after is not None:
            self.begins[handle] = after
        args: Any = {"x": x} if named else [x]
        self.step(client, ev.WantSubscribe(handle, "C", args, after, max_pending=3))

    @rule(data=st.data(), drain=st.booleans())
    @precondition(lambda self: self.handles)
    def unsubscribe(self, data: Any, drain: bool) -> None:
        handle = data.draw(st.integers(1, len(self.handles)))
        self.step(self.handles[handle - 1][0], ev.WantUnsubscribe(handle, drain))

    @rule()
    def consume(self) -> None:
        for handle, (client, _) in enumerate(self.handles, 1):
            got = self.rigs[client].got(handle)
            if self.taken.get(handle, 0) < len(got):
                self.step(client, ev.Consumed(handle, got[self.taken.get(handle, 0)]))
                self.taken[handle] = self.taken.get(handle, 0) + 1

    # -- the data cluster --------------------------------------------------------------------------------------------

    @rule(numbers=st.sets(st.integers(1, 3)))
    def execute(self, numbers: set[int]) -> None:
        self.log.append(numbers)
        if numbers & self.holds:
            self.tells.append(len(self.log))

    @rule()
    @precondition(lambda self: self.tells)
    def told(self) -> None:
        self.tell(happened.Told("C", self.tells.popleft()))

    def line(self, number: int, execution: int) -> happened.Line:
        return happened.Line(number, execution, 1, b"[1]")

    @rule(data=st.data())
    @precondition(lambda self: self.asked)
    def answer(self, data: Any) -> None:
        self.answered(data.draw(st.integers(0, len(self.asked) - 1)))

    def answered(self, place: int) -> None:
        match self.asked.pop(place):
            case do.Want(channel, args):
                numbers = [1 + (each["x"] if isinstance(each, dict) else each[0]) for each in args]
                self.holds.update(numbers)
                self.tell(happened.Wanted(channel, numbers, len(self.log)))
            case do.Unwant(channel, subscriptions):
                self.holds.difference_update(subscriptions)
                self.tell(happened.Unwanted(channel))
            case do.Pull(channel, execution):
                lines = [self.line(number, execution) for number in sorted(self.log[execution - 1] & self.holds)]
                self.tell(happened.Pulled(channel, execution, lines))
            case do.Fetch(job, _, subscription, after):
                every = [e for e, hit in enumerate(self.log, 1) if e > after and subscription in hit]
                lines = [self.line(subscription, execution) for execution in every[:FETCHED]]
                self.tell(happened.Fetched(job, lines, len(every) > FETCHED))

    # -- network, time and death -------------------------------------------------------------------------------------

    @rule(client=st.integers(0, CLIENTS - 1))
    def up(self, client: int) -> None:
        rig = self.rigs[client]
        peer = (client, rig.connection)
        if peer in self.down and self.read[client] < len(rig.sent):
            messages, self.read[client] = rig.sent[self.read[client] :], len(rig.sent)
            self.tell(happened.Received(peer, messages))

    @rule(client=st.integers(0, CLIENTS - 1), most=st.integers(1, 10))
    def deliver(self, client: int, most: int) -> None:
        peer = (client, self.rigs[client].connection)
        if self.down.get(peer) and self.rigs[client].reading:
            part, self.down[peer] = self.down[peer][:most], self.down[peer][most:]
            self.step(client, ev.Received(peer[1], part))

    @rule(client=st.integers(0, CLIENTS - 1))
    def connect(self, client: int) -> None:
        rig = self.rigs[client]
        if rig.state.stage.value == "connecting":
            peer = (client, rig.connection)
            self.down[peer], self.read[client], rig.line.online = [], 0, True
            self.tell(happened.Opened(peer))
            self.step(client, ev.Connected(rig.connection))

    @rule(client=st.integers(0, CLIENTS - 1))
    def cut(self, client: int) -> None:
        peer = (client, self.rigs[client].connection)
        if peer in self.down:
            self.tell(happened.Closed(peer))
            self.broken(peer, None)

    @rule(client=st.integers(0, CLIENTS - 1), slow=st.booleans())
    def congest(self, client: int, slow: bool) -> None:
        peer = (client, self.rigs[client].connection)
        if peer in self.down:
            self.tell(happened.Congested(peer) if slow else happened.Drained(peer))

    @rule()
    def tick(self) -> None:
        self.now += 1
        self.tell(happened.Tick())
        for client, rig in enumerate(self.rigs):
            if rig.timer is not None and self.now >= rig.timer:
                rig.timer = None
                self.step(client, ev.Timer())

    @rule(inherits=st.booleans())
    def kill(self, inherits: bool) -> None:
        """The broker comes back with nothing but what the data cluster knows."""
        self.asked.clear()
        self.broker = new_broker()
        for peer in list(self.down):
            self.broken(peer, None)
        if inherits:
            held = [(number, [number - 1]) for number in sorted(self.holds)]
            self.tell(happened.Inherited("C", held, len(self.log)))

    # -- what must hold ----------------------------------------------------------------------------------------------

    def wanted(self, handle: int) -> list[int]:
        _, number = self.handles[handle - 1]
        return [place for place, hit in enumerate(self.log, 1) if place > self.begins[handle] and number in hit]

    @invariant()
    def nothing_is_missing_and_nothing_comes_twice(self) -> None:
        for handle, (client, _) in enumerate(self.handles, 1):
            got = self.rigs[client].got(handle)
            assert not got or got == self.wanted(handle)[: len(got)]

    def teardown(self) -> None:
        """In the end everything heals, and everybody has everything."""
        for _ in range(200):
            self.tick()
            for client in range(CLIENTS):
                self.connect(client)
                self.up(client)
                self.congest(client, slow=False)
            while self.tells:
                self.told()
            while self.asked:
                self.answered(0)
            for client in range(CLIENTS):
                self.deliver(client, 1_000)
            for _ in range(10):
                self.consume()
        for client, rig in enumerate(self.rigs):
            assert rig.state.status.state == "connected" and rig.state.subscriptions.current.requests == {}
            for handle in rig.state.subscriptions.entries:
                assert rig.got(handle) == self.wanted(handle), (client, handle)
                assert rig.state.status.gaps == 0


World.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestWorld = World.TestCase
