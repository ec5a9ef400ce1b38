"""Despite any breaks of connections, each subscription receives each of its notifications once, in order.

A model of a broker talks to the client's state machine. Two lists hold the messages in flight; a cut discards both.
The broker answers requests in any order, reorders notifications of different subscriptions, and repeats messages.
"""

from __future__ import annotations

from collections import defaultdict
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


class Broker:
    """One connection of a broker: each subscription is LIVE, or at the last execution that was sent."""

    def __init__(self, log: list[set[int]]) -> None:
        self.log = log
        self.positions: dict[int, int] = {}
        self.requests: list[wire.Subscribe] = []
        self.down: list[Any] = []

    def receive(self, message: Any) -> None:
        match message:
            case wire.Hello():
                self.down.append(wire.Welcome(message.id, "b", 10.0, 1 << 20))
            case wire.Subscribe():
                self.requests.append(message)
            case wire.Unsubscribe():
                self.positions.pop(message.subscription, None)
                self.down.append(wire.Unsubscribed(message.id, message.subscription))

    def answer(self, place: int) -> None:
        message = self.requests.pop(place)
        value = message.args["x"] if isinstance(message.args, dict) else message.args[0]
        id_ = 5 + value
        at = self.positions.get(id_, LIVE)
        after = message.after
        if after is None:
            after = len(self.log) if at == LIVE else at
            self.positions[id_] = at
        else:
            self.positions[id_] = after
        self.down.append(wire.Subscribed(message.id, id_, "C", after))

    def execute(self, ids: set[int]) -> None:
        self.log.append(ids)
        for id_ in sorted(ids):
            if self.positions.get(id_) == LIVE:
                self.down.append(notify(len(self.log), id_))

    def catch_up(self, id_: int, most: int) -> None:
        at = self.positions[id_]
        missed = [place for place, hit in enumerate(self.log, 1) if place > at and id_ in hit]
        for execution in missed[:most]:
            self.down.append(notify(execution, id_))
            self.positions[id_] = execution
        if len(missed) <= most:
            self.positions[id_] = LIVE
            self.down.append(wire.Live(id_, len(self.log)))


class Deliveries(ApplicationRules):
    def __init__(self) -> None:
        super().__init__(ClientHarness(token="t", wait_for_broker=True))
        self.read = 0
        self.broker: Broker | None = None
        self.harness.do(ev.OpenRequested())

    @rule(data=st.data())
    @precondition(lambda self: self.harness.items)
    def consume(self, data: Any) -> None:
        self.consume_one(data.draw(st.sampled_from(sorted(self.harness.items))))

    # -- the broker --------------------------------------------------------------------------------------------------

    @rule(ids=st.sets(st.integers(5, 7)))
    def execute(self, ids: set[int]) -> None:
        if self.broker is None:
            self.log.append(ids)
        else:
            self.broker.execute(ids)

    @rule(data=st.data())
    @precondition(lambda self: self.broker is not None and self.broker.requests)
    def answer(self, data: Any) -> None:
        self.broker.answer(data.draw(st.integers(0, len(self.broker.requests) - 1)))

    @rule(data=st.data(), most=st.integers(1, 3))
    @precondition(lambda self: self.lagging())
    def catch_up(self, data: Any, most: int) -> None:
        self.broker.catch_up(data.draw(st.sampled_from(self.lagging())), most)

    @rule(id_=st.integers(5, 7))
    def lag(self, id_: int) -> None:
        if self.broker is not None and self.broker.positions.get(id_) == LIVE:
            self.broker.positions[id_] = len(self.log)
            self.broker.down.append(wire.Lagging(id_, len(self.log)))

    @rule(id_=st.integers(5, 7), back=st.integers(0, 5))
    def repeat(self, id_: int, back: int) -> None:
        """Repeats a notification."""
        if self.broker is None or id_ not in self.broker.positions:
            return
        at = self.broker.positions[id_]
        sent = [place for place, hit in enumerate(self.log, 1) if id_ in hit and (at == LIVE or place <= at)]
        if sent:
            self.broker.down.append(notify(sent[max(0, len(sent) - 1 - back)], id_))

    @rule()
    @precondition(lambda self: self.broker is not None)
    def ping(self) -> None:
        self.broker.down.append(wire.Ping({"C": len(self.log)}))

    # -- the network -------------------------------------------------------------------------------------------------

    @rule(most=st.integers(1, 10))
    def up(self, most: int) -> None:
        if self.broker is not None:
            for message in self.harness.sent[self.read : self.read + most]:
                self.read += 1
                self.broker.receive(message)

    @rule(most=st.integers(1, 10), data=st.data())
    @precondition(lambda self: self.broker is not None and self.broker.down and self.harness.reading)
    def down(self, most: int, data: Any) -> None:
        part, self.broker.down = self.broker.down[:most], self.broker.down[most:]
        self.step(ev.Received(self.harness.connection, mixed(part, data)))

    @rule(code=st.sampled_from([None, 1001, 1011, 4102]))
    @precondition(lambda self: self.broker is not None)
    def cut(self, code: int | None) -> None:
        self.broker = None
        self.harness.line.online = False
        self.step(ev.Disconnected(self.harness.connection, code))

    @rule()
    @precondition(lambda self: self.broker is None)
    def connect(self) -> None:
        while self.harness.state.stage.value != "connecting":
            self.harness.tick()
        self.broker, self.read = Broker(self.log), 0
        self.harness.connect()

    # -- what must hold ----------------------------------------------------------------------------------------------

    def lagging(self) -> list[int]:
        found = self.broker.positions if self.broker is not None else {}
        return sorted(id_ for id_, at in found.items() if at != LIVE)

    def step(self, event: ev.Event) -> None:
        """Records where a subscription begins when it is confirmed, and checks that this is not in the future."""
        subscriptions = self.harness.state.subscriptions
        original = subscriptions.confirm

        def confirm(entry: Any, session: Any) -> None:
            if entry.handle not in self.begins:
                assert entry.execution <= len(self.log)
                self.begins[entry.handle] = entry.execution
            original(entry, session)

        subscriptions.confirm = confirm
        try:
            self.harness.do(event)
        finally:
            subscriptions.confirm = original

    def expected(self, handle: int) -> list[int]:
        id_, begin = 5 + self.values[handle], self.begins[handle]
        return [place for place, hit in enumerate(self.log, 1) if place > begin and id_ in hit]

    @invariant()
    def no_notification_is_missing_or_repeated(self) -> None:
        for handle in self.harness.items:
            got = self.harness.got(handle)
            assert got == self.expected(handle)[: len(got)]

    @invariant()
    def nothing_is_acknowledged_that_was_not_consumed(self) -> None:
        for message in self.harness.sent_of(wire.Ack):
            for id_, position in message.positions.items():
                for handle, entry in self.harness.state.subscriptions.by_handle.items():
                    if entry.current_id == id_ and handle in self.begins and self.begins[handle] < position:
                        rest = self.harness.got(handle)[self.taken[handle] :]
                        assert not rest or rest[0] > min(position, entry.consumed.execution)

    def teardown(self) -> None:
        """All faults end, and each subscription has all its notifications."""
        if self.broker is None:
            self.connect()
        for _ in range(1_000):
            self.up(10_000)
            while self.broker.requests:
                self.broker.answer(0)
            for id_ in self.lagging():
                self.broker.catch_up(id_, 1_000)
            if self.broker.down:
                down, self.broker.down = self.broker.down, []
                self.step(ev.Received(self.harness.connection, down))
            if self.read == len(self.harness.sent) and not self.broker.requests and not self.broker.down:
                break
        else:
            raise AssertionError("client and broker do not become idle")
        subscriptions = self.harness.state.subscriptions
        assert subscriptions.current.requests == {}
        for handle, entry in subscriptions.by_handle.items():
            assert subscriptions.current.phases[entry.current_id] is Phase.LIVE
            assert self.harness.got(handle) == self.expected(handle)
        assert set(self.broker.positions) == {entry.current_id for entry in subscriptions.by_handle.values()}


def mixed(messages: list[Any], data: Any) -> list[Any]:
    """Keeps the order of notifications of one subscription, and reorders those of different ones."""
    out: list[Any] = []
    run: list[wire.Notify] = []

    def flush() -> None:
        queues: dict[int, list[wire.Notify]] = defaultdict(list)
        for message in run:
            queues[message.subscription].append(message)
        while queues:
            id_ = data.draw(st.sampled_from(sorted(queues))) if len(queues) > 1 else next(iter(queues))
            out.append(queues[id_].pop(0))
            if not queues[id_]:
                del queues[id_]
        run.clear()

    for message in messages:
        if isinstance(message, wire.Notify):
            run.append(message)
        else:
            flush()
            out.append(message)
    flush()
    return out


Deliveries.TestCase.settings = settings(max_examples=examples(150), stateful_step_count=60, deadline=None)
TestDeliveries = Deliveries.TestCase
