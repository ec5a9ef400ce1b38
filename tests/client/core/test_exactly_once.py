"""Whatever happens to the connections, each subscription gets each of its notifications, in order and once.

A model of a broker talks to the client's state machine. What is on its way between them is in two lists; a cut throws
both away. Requests are answered in any order, notifications of different subscriptions overtake each other, and the
broker repeats itself.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from application_rules import ApplicationRules
from client_harness import ClientHarness, notify
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tocsin.client.core import events as ev
from tocsin.client.core.session import Phase
from tocsin.wire import messages as wire

LIVE = -1


class Broker:
    """One connection of a broker: each number is LIVE, or at the last execution that was sent."""

    def __init__(self, log: list[set[int]]) -> None:
        self.log = log
        self.positions: dict[int, int] = {}
        self.asked: list[wire.Subscribe] = []
        self.down: list[Any] = []

    def hear(self, message: Any) -> None:
        match message:
            case wire.Hello():
                self.down.append(wire.Welcome(message.id, "b", 10.0, 1 << 20))
            case wire.Subscribe():
                self.asked.append(message)
            case wire.Unsubscribe():
                self.positions.pop(message.subscription, None)
                self.down.append(wire.Unsubscribed(message.id, message.subscription))

    def answer(self, place: int) -> None:
        message = self.asked.pop(place)
        value = message.args["x"] if isinstance(message.args, dict) else message.args[0]
        number = 5 + value
        at = self.positions.get(number, LIVE)
        after = message.after
        if after is None:
            after = len(self.log) if at == LIVE else at
            self.positions[number] = at
        else:
            self.positions[number] = after
        self.down.append(wire.Subscribed(message.id, number, "C", after))

    def execute(self, numbers: set[int]) -> None:
        self.log.append(numbers)
        for number in sorted(numbers):
            if self.positions.get(number) == LIVE:
                self.down.append(notify(len(self.log), number))

    def catch_up(self, number: int, most: int) -> None:
        at = self.positions[number]
        missed = [place for place, hit in enumerate(self.log, 1) if place > at and number in hit]
        for execution in missed[:most]:
            self.down.append(notify(execution, number))
            self.positions[number] = execution
        if len(missed) <= most:
            self.positions[number] = LIVE
            self.down.append(wire.Live(number, len(self.log)))


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

    @rule(numbers=st.sets(st.integers(5, 7)))
    def execute(self, numbers: set[int]) -> None:
        if self.broker is None:
            self.log.append(numbers)
        else:
            self.broker.execute(numbers)

    @rule(data=st.data())
    @precondition(lambda self: self.broker is not None and self.broker.asked)
    def answer(self, data: Any) -> None:
        self.broker.answer(data.draw(st.integers(0, len(self.broker.asked) - 1)))

    @rule(data=st.data(), most=st.integers(1, 3))
    @precondition(lambda self: self.behind())
    def catch_up(self, data: Any, most: int) -> None:
        self.broker.catch_up(data.draw(st.sampled_from(self.behind())), most)

    @rule(number=st.integers(5, 7))
    def lag(self, number: int) -> None:
        if self.broker is not None and self.broker.positions.get(number) == LIVE:
            self.broker.positions[number] = len(self.log)
            self.broker.down.append(wire.Lagging(number, len(self.log)))

    @rule(number=st.integers(5, 7), back=st.integers(0, 5))
    def repeat(self, number: int, back: int) -> None:
        """Sends something again that was sent before."""
        if self.broker is None or number not in self.broker.positions:
            return
        at = self.broker.positions[number]
        sent = [place for place, hit in enumerate(self.log, 1) if number in hit and (at == LIVE or place <= at)]
        if sent:
            self.broker.down.append(notify(sent[max(0, len(sent) - 1 - back)], number))

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
                self.broker.hear(message)

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

    def behind(self) -> list[int]:
        found = self.broker.positions if self.broker is not None else {}
        return sorted(number for number, at in found.items() if at != LIVE)

    def step(self, event: ev.Event) -> None:
        """Where a subscription begins is known when it is confirmed, and is not in the future."""
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

    def wanted(self, handle: int) -> list[int]:
        number, begin = 5 + self.values[handle], self.begins[handle]
        return [place for place, hit in enumerate(self.log, 1) if place > begin and number in hit]

    @invariant()
    def nothing_is_missing_and_nothing_comes_twice(self) -> None:
        for handle in self.harness.items:
            got = self.harness.got(handle)
            assert got == self.wanted(handle)[: len(got)]

    @invariant()
    def nothing_is_acknowledged_that_was_not_consumed(self) -> None:
        for message in self.harness.said(wire.Ack):
            for number, position in message.positions.items():
                for handle, entry in self.harness.state.subscriptions.by_handle.items():
                    if entry.current_id == number and handle in self.begins and self.begins[handle] < position:
                        rest = self.harness.got(handle)[self.taken[handle] :]
                        assert not rest or rest[0] > min(position, entry.consumed.execution)

    def teardown(self) -> None:
        """In the end everything heals, and everybody has everything."""
        if self.broker is None:
            self.connect()
        for _ in range(1_000):
            self.up(10_000)
            while self.broker.asked:
                self.broker.answer(0)
            for number in self.behind():
                self.broker.catch_up(number, 1_000)
            if self.broker.down:
                down, self.broker.down = self.broker.down, []
                self.step(ev.Received(self.harness.connection, down))
            if self.read == len(self.harness.sent) and not self.broker.asked and not self.broker.down:
                break
        else:
            raise AssertionError("they never stop talking")
        subscriptions = self.harness.state.subscriptions
        assert subscriptions.current.requests == {}
        for handle, entry in subscriptions.by_handle.items():
            assert subscriptions.current.phases[entry.current_id] is Phase.LIVE
            assert self.harness.got(handle) == self.wanted(handle)
        assert set(self.broker.positions) == {entry.current_id for entry in subscriptions.by_handle.values()}


def mixed(messages: list[Any], data: Any) -> list[Any]:
    """Notifications of one subscription keep their order, those of different ones don't."""
    out: list[Any] = []
    run: list[wire.Notify] = []

    def flush() -> None:
        queues: dict[int, list[wire.Notify]] = defaultdict(list)
        for message in run:
            queues[message.subscription].append(message)
        while queues:
            number = data.draw(st.sampled_from(sorted(queues))) if len(queues) > 1 else next(iter(queues))
            out.append(queues[number].pop(0))
            if not queues[number]:
                del queues[number]
        run.clear()

    for message in messages:
        if isinstance(message, wire.Notify):
            run.append(message)
        else:
            flush()
            out.append(message)
    flush()
    return out


Deliveries.TestCase.settings = settings(max_examples=150, stateful_step_count=60, deadline=None)
TestDeliveries = Deliveries.TestCase
