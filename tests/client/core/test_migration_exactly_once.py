"""A client migrates between brokers many times, with failures at any point: each subscription receives each of its
notifications once, in order, and a migration never leaves the client without a connection.

The brokers are models. Each has its own ids for subscriptions and its own speed: one may have sent an execution that
the other does not know yet.
"""

from __future__ import annotations

from typing import Any

from application_rules import ApplicationRules
from client_harness import ClientHarness, notify
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from seeds import examples
from tocsin.client.core import events as ev
from tocsin.client.core.session import Phase
from tocsin.wire import messages as wire

LIVE = -1


class Host:
    """A broker: the id of the subscription to x is ``first + x``, and it knows the log up to ``seen``."""

    def __init__(self, name: str, first: int, log: list[set[int]]) -> None:
        self.name = name
        self.first = first
        self.log = log
        self.seen = len(log)


class BrokerConnection:
    """One connection to a broker: each subscription is LIVE, or at the last execution that was sent."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.positions: dict[int, int] = {}
        self.requests: list[Any] = []
        self.down: list[Any] = []
        self.read = 0

    def receive(self, message: Any) -> None:
        match message:
            case wire.Hello():
                self.down.append(wire.Welcome(message.id, self.host.name, 10.0, 1 << 20))
            case wire.Subscribe() | wire.Publish():
                self.requests.append(message)
            case wire.Unsubscribe():
                self.positions.pop(message.subscription, None)
                self.down.append(wire.Unsubscribed(message.id, message.subscription))

    def answer(self, place: int) -> None:
        message = self.requests.pop(place)
        if isinstance(message, wire.Publish):
            self.down.append(wire.Published(message.id, len(message.records)))
            return
        id_ = self.host.first + (message.args["x"] if isinstance(message.args, dict) else message.args[0])
        here = self.positions.get(id_)
        at = self.host.seen if here in (None, LIVE) else here
        after = at if message.after is None else min(message.after, at)
        self.positions[id_] = after if message.after is not None else LIVE if here is None else here
        self.down.append(wire.Subscribed(message.id, id_, "C", after))

    def notify(self, execution: int) -> None:
        for x in sorted(self.host.log[execution - 1]):
            if self.positions.get(self.host.first + x) == LIVE:
                self.down.append(notify(execution, self.host.first + x))

    def lagging(self) -> list[int]:
        return sorted(id_ for id_, at in self.positions.items() if at != LIVE)

    def catch_up(self, id_: int, most: int) -> None:
        at, x = self.positions[id_], id_ - self.host.first
        missed = [e for e, hit in enumerate(self.host.log[: self.host.seen], 1) if e > at and x in hit]
        for execution in missed[:most]:
            self.down.append(notify(execution, id_))
            self.positions[id_] = execution
        if len(missed) <= most:
            self.positions[id_] = LIVE
            self.down.append(wire.Live(id_, self.host.seen))

    def lag(self, id_: int) -> None:
        if self.positions.get(id_) == LIVE:
            self.positions[id_] = self.host.seen
            self.down.append(wire.Lagging(id_, self.host.seen))


class Migrations(ApplicationRules):
    token: str | None = "t"

    def __init__(self) -> None:
        super().__init__(ClientHarness("one", token=self.token, wait_for_broker=True))
        self.hosts = {name: Host(name, first, self.log) for name, first in (("one", 10), ("two", 20), ("three", 30))}
        self.connections: dict[int, BrokerConnection] = {}
        self.requests = self.tickets = 0
        self.record_begins()
        self.step(ev.OpenRequested())
        self.connected(1)
        self.flow(1, 3)

    # -- the application ---------------------------------------------------------------------------------------------

    @rule()
    def consume(self) -> None:
        for handle in sorted(self.harness.items):
            self.consume_one(handle)

    @rule(retry=st.booleans())
    def publish(self, retry: bool) -> None:
        self.requests += 1
        self.step(ev.PublishRequested(self.requests, "F", [b"{}"], retry))

    # -- the brokers -------------------------------------------------------------------------------------------------

    @rule(values=st.sets(st.integers(0, 2)), notified=st.sets(st.sampled_from(["one", "two", "three"])))
    def execute(self, values: set[int], notified: set[str]) -> None:
        self.log.append(values)
        for name in sorted(notified):
            self.notify_broker(name)

    def notify_broker(self, name: str) -> None:
        """Notifies a broker of all executions that it does not know yet."""
        host = self.hosts[name]
        while host.seen < len(self.log):
            host.seen += 1
            for connection in self.connections.values():
                if connection.host is host:
                    connection.notify(host.seen)

    @rule(data=st.data())
    @precondition(lambda self: any(connection.requests for connection in self.connections.values()))
    def answer(self, data: Any) -> None:
        connection = self.connections[
            data.draw(st.sampled_from([n for n, connection in self.connections.items() if connection.requests]))
        ]
        connection.answer(data.draw(st.integers(0, len(connection.requests) - 1)))

    @rule(data=st.data(), most=st.integers(1, 3))
    @precondition(lambda self: any(connection.lagging() for connection in self.connections.values()))
    def catch_up(self, data: Any, most: int) -> None:
        connection = self.connections[
            data.draw(st.sampled_from([n for n, connection in self.connections.items() if connection.lagging()]))
        ]
        connection.catch_up(data.draw(st.sampled_from(connection.lagging())), most)

    @rule(x=st.integers(0, 2))
    def lag(self, x: int) -> None:
        for connection in self.connections.values():
            connection.lag(connection.host.first + x)

    @rule()
    def ping(self) -> None:
        for connection in self.connections.values():
            connection.down.append(wire.Ping({"C": connection.host.seen}))

    @rule(data=st.data(), name=st.sampled_from(["one", "two", "three"]), at_once=st.booleans())
    @precondition(lambda self: self.connections)
    def migrate(self, data: Any, name: str, at_once: bool) -> None:
        """Any connection may order it, also one that is being joined or left."""
        self.tickets += 1
        number = data.draw(st.sampled_from(sorted(self.connections)))
        self.connections[number].down.append(wire.Migrate(name, name, f"ticket {self.tickets}"))
        if at_once:
            self.downwards(number, 10_000)

    @rule(name=st.sampled_from(["one", "two", "three"]), steps=st.integers(0, 4))
    @precondition(
        lambda self: self.harness.state.current is not None and self.harness.state.current.number in self.connections
    )
    def follow(self, name: str, steps: int) -> None:
        """A migration without faults for some steps, so that many migrations proceed."""
        number = self.harness.state.current.number
        self.flow(number, 2)
        self.tickets += 1
        self.step(ev.Received(number, [wire.Migrate(name, name, f"ticket {self.tickets}")]))
        for new in self.pending:
            self.connected(new)
            self.flow(new, steps)

    @rule(data=st.data())
    @precondition(lambda self: any(connection.positions for connection in self.connections.values()))
    def spoil(self, data: Any) -> None:
        """A broker that is being joined has a gap, or refuses."""
        joining = self.harness.state.joining
        connection = self.connections.get(joining.number) if joining is not None else None
        if connection is None:
            return
        if connection.requests and isinstance(connection.requests[0], wire.Subscribe):
            connection.down.append(
                wire.Error(connection.requests.pop(0).id, data.draw(st.sampled_from(["busy", "not_found"])), "no")
            )
        elif connection.lagging():
            id_ = connection.lagging()[0]
            connection.down.append(wire.Gap(id_, connection.positions[id_], len(self.log) + 1, "retention"))

    # -- the network -------------------------------------------------------------------------------------------------

    @rule(data=st.data(), most=st.integers(1, 10))
    @precondition(lambda self: self.connections)
    def up(self, data: Any, most: int) -> None:
        self.upwards(data.draw(st.sampled_from(sorted(self.connections))), most)

    def upwards(self, number: int, most: int) -> None:
        connection = self.connections[number]
        for message in self.harness.lines[number].sent[connection.read : connection.read + most]:
            connection.read += 1
            connection.receive(message)

    @rule(data=st.data(), most=st.integers(1, 10))
    @precondition(lambda self: any(connection.down for connection in self.connections.values()))
    def down(self, data: Any, most: int) -> None:
        self.downwards(
            data.draw(st.sampled_from([n for n, connection in self.connections.items() if connection.down])), most
        )

    def downwards(self, number: int, most: int) -> None:
        connection = self.connections[number]
        if self.harness.lines[number].reading:
            part, connection.down = connection.down[:most], connection.down[most:]
            self.step(ev.Received(number, part))

    @rule(data=st.data(), rounds=st.integers(1, 3))
    @precondition(lambda self: self.open)
    def go_on(self, data: Any, rounds: int) -> None:
        """One connection works without faults for some rounds."""
        number = data.draw(st.sampled_from(self.open))
        if number in self.pending:
            self.connected(number)
        self.flow(number, rounds)

    def flow(self, number: int, rounds: int) -> None:
        for _ in range(rounds):
            if number not in self.connections:
                return
            self.upwards(number, 10_000)
            connection = self.connections[number]
            while connection.requests:
                connection.answer(0)
            for id_ in connection.lagging():
                connection.catch_up(id_, 1_000)
            self.downwards(number, 10_000)

    @rule(data=st.data(), code=st.sampled_from([None, 1001, 1013, 4102]))
    @precondition(lambda self: self.open)
    def cut(self, data: Any, code: int | None) -> None:
        """Cuts a connection, also one that is still being opened."""
        number = data.draw(st.sampled_from(self.open))
        self.connections.pop(number, None)
        self.harness.lines[number].online = self.harness.lines[number].open = False
        self.step(ev.Disconnected(number, code))

    @rule(code=st.sampled_from([4001, 4002, 4006, 1002]))
    @precondition(lambda self: self.harness.state.joining is not None)
    def refuse(self, code: int) -> None:
        """Close codes that would stop a client do not stop one that can stay at its broker."""
        number = self.harness.state.joining.number
        self.connections.pop(number, None)
        self.harness.lines[number].online = self.harness.lines[number].open = False
        self.step(ev.Disconnected(number, code))

    @rule(data=st.data())
    @precondition(lambda self: self.pending)
    def connect(self, data: Any) -> None:
        self.connected(data.draw(st.sampled_from(self.pending)))

    def connected(self, number: int) -> None:
        self.connections[number] = BrokerConnection(self.hosts[self.harness.lines[number].url])
        self.harness.lines[number].online = True
        self.step(ev.Connected(number))

    @rule()
    def tick(self) -> None:
        if self.harness.timer is not None:
            self.harness.now, self.harness.timer = max(self.harness.now, self.harness.timer), None
            self.step(ev.Timer())

    # -- what must hold ----------------------------------------------------------------------------------------------

    @property
    def open(self) -> list[int]:
        return [number for number, line in self.harness.lines.items() if number and line.open]

    @property
    def pending(self) -> list[int]:
        return [number for number in self.open if not self.harness.lines[number].online]

    def record_begins(self) -> None:
        """Records where a subscription begins when it is confirmed, and checks that this is not in the future."""
        subscriptions = self.harness.state.subscriptions
        confirm = subscriptions.confirm

        def record_and_confirm(entry: Any, session: Any) -> None:
            assert entry.execution <= len(self.log)
            self.begins.setdefault(entry.handle, entry.execution)
            confirm(entry, session)

        subscriptions.confirm = record_and_confirm

    def step(self, event: ev.Event) -> None:
        state = self.harness.state
        before = state.current.number if state.current is not None and state.current.ready else None
        did = self.harness.do(event)
        for each in did:
            if isinstance(each, ev.Close):
                self.connections.pop(each.connection, None)
        broke = isinstance(event, ev.Disconnected) and event.connection == before
        if before is not None and not broke and ev.Close(before) not in did:
            assert state.current is not None and state.current.ready, (
                "a migration must not leave the client without a connection"
            )
        assert state.stage.value != "stopped"

    def expected(self, handle: int) -> list[int]:
        return [e for e, hit in enumerate(self.log, 1) if e > self.begins[handle] and self.values[handle] in hit]

    @invariant()
    def no_notification_is_missing_or_repeated(self) -> None:
        for handle in self.harness.items:
            got = self.harness.got(handle)
            assert got == self.expected(handle)[: len(got)]
        assert self.harness.state.status.gaps == 0

    @invariant()
    def a_client_has_at_most_two_connections(self) -> None:
        assert sorted(self.open) == sorted(connection.number for connection in self.harness.state.connections)
        assert len(self.open) <= 2

    @invariant()
    def a_ticket_is_used_once_and_returned_once(self) -> None:
        sent = [message for line in self.harness.lines.values() for message in line.sent]
        used = [message.ticket for message in sent if isinstance(message, wire.Hello) and message.ticket]
        assert len(used) == len(set(used))
        for line in self.harness.lines.values():
            returned = [message.ticket for message in line.sent if isinstance(message, wire.MigrationFailed)]
            assert len(returned) == len(set(returned))

    @invariant()
    def nothing_is_acknowledged_that_was_not_consumed(self) -> None:
        for line in self.harness.lines.values():
            for message in line.sent:
                for id_, position in message.positions.items() if isinstance(message, wire.Ack) else ():
                    for handle, entry in self.harness.state.subscriptions.by_handle.items():
                        if entry.current_id == id_ and handle in self.begins and self.begins[handle] < position:
                            rest = self.harness.got(handle)[self.taken[handle] :]
                            assert not rest or rest[0] > min(position, entry.consumed.execution)

    def teardown(self) -> None:
        """All faults end, and each subscription has all its notifications."""
        for name in self.hosts:
            self.notify_broker(name)
        for _ in range(200):
            for number in self.pending:
                self.connected(number)
            for number in list(self.connections):
                self.flow(number, 1)
            for _ in range(3):
                self.consume()
            if (
                self.harness.state.stage.value == "waiting"
                or self.harness.state.subscriptions.current.retry_at is not None
            ):
                self.tick()
        state = self.harness.state
        assert state.stage.value == "ready" and state.connections == [state.current]
        session = state.subscriptions.current
        assert session.requests == {} and state.current.publications == {}
        for handle, entry in state.subscriptions.by_handle.items():
            assert session.phases[entry.current_id] is Phase.LIVE
            assert self.harness.got(handle) == self.expected(handle)
        (connection,) = self.connections.values()
        assert set(connection.positions) == {entry.current_id for entry in state.subscriptions.by_handle.values()}
        ended = [each.request for each in self.harness.done if isinstance(each, ev.Resolve | ev.Reject)]
        assert sorted(ended) == list(range(1, self.requests + 1))
        gone = [each.handle for each in self.harness.did(ev.Ended)]
        assert len(gone) == len(set(gone)) and not set(gone) & set(state.subscriptions.by_handle)


class AnonymousMigrations(Migrations):
    """Without a token."""

    token = None


Migrations.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=80, deadline=None)
AnonymousMigrations.TestCase.settings = settings(max_examples=examples(75), stateful_step_count=80, deadline=None)
TestMigrations = Migrations.TestCase
TestAnonymousMigrations = AnonymousMigrations.TestCase
