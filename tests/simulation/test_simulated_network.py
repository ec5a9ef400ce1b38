"""The simulated network: delays, losses, partitions; requests and connections."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tocsin.broker.core.instructions import Command
from tocsin.broker.upstream.effects import Lost, Refused, retry
from tocsin.effects import Pause
from tocsin.simulation.network.clock import Clock
from tocsin.simulation.network.connection import BROKEN, Ended, Owner, Side, pair
from tocsin.simulation.network.network import LinkQuality, Network, Partition
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Process
from tocsin.simulation.network.trace import Trace


class Machine(Node, Owner):
    """Records its events."""

    def __init__(self, name: str, network: Network) -> None:
        super().__init__(name, network)
        self.seen: list[Any] = []
        self.boot()

    def opened(self, side: Side) -> None:
        self.seen.append("opened")

    def arrived(self, side: Side, data: bytes) -> None:
        self.seen.append(data)

    def ended(self, side: Side, how: Ended) -> None:
        self.seen.append(how)

    def eased(self, side: Side) -> None:
        self.seen.append("eased")

    def serve(self, body: Any, done: Any) -> None:
        self.seen.append(body)
        done(body * 2, None)


class Rig:
    def __init__(self) -> None:
        self.clock = Clock()
        self.network = Network(self.clock, Trace(self.clock), Random(1))
        self.a, self.b = Machine("a", self.network), Machine("b", self.network)
        self.answers: list[Any] = []

    def ask(self, body: Any, timeout: float = 5.0) -> None:
        self.network.request(self.a, self.b, self.b.serve, body, timeout)(
            lambda value, error: self.answers.append(value if error is None else type(error).__name__)
        )

    def connection(self, bandwidth: float = 1e6) -> tuple[Side, Side]:
        side = Side(self.a, self.a, 1)
        other = pair(side, self.b, self.b, bandwidth)
        other.alive = True
        return side, other


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_request_is_answered(rig):
    rig.ask(4)
    rig.clock.run(1.0)
    assert (rig.b.seen, rig.answers) == ([4], [8])


def test_a_partition_blocks_requests_and_a_one_way_partition_only_answers(rig):
    rig.network.partitions.append(Partition(frozenset({"a"})))
    rig.ask(4)
    rig.clock.run(6.0)
    assert (rig.b.seen, rig.answers) == ([], ["Lost"])
    rig.network.partitions[:] = [Partition(frozenset({"b"}), one_way=True)]
    rig.ask(5)
    rig.clock.run(20.0)
    assert (rig.b.seen, rig.answers) == ([5], ["Lost", "Lost"])


def test_a_dead_process_refuses_and_a_dead_machine_stays_silent(rig):
    rig.b.die()
    rig.ask(4)
    rig.clock.run(1.0)
    assert rig.answers == ["Lost"]
    rig.b.die(silent=True)
    rig.ask(4)
    rig.clock.run(5.0)
    assert rig.answers == ["Lost"]
    rig.clock.run(7.0)
    assert rig.answers == ["Lost", "Lost"]


def test_a_duplicated_request_is_answered_once(rig):
    rig.network.quality = LinkQuality(twice=1.0)
    rig.ask(4)
    rig.clock.run(3.0)
    assert (rig.b.seen, rig.answers) == ([4, 4], [8])


def test_a_frozen_machine_answers_later(rig):
    rig.b.freeze(2.0)
    for body in (1, 2, 3):
        rig.ask(body)
    rig.clock.run(1.9)
    assert rig.b.seen == []
    rig.clock.run(3.0)
    assert sorted(rig.b.seen) == [1, 2, 3] and len(rig.answers) == 3


def test_bytes_of_a_connection_keep_their_order_and_its_bandwidth(rig):
    side, other = rig.connection(bandwidth=100.0)
    other.out.write(b"x" * 100)
    other.out.write(b"y" * 100)
    rig.clock.run(1.5)
    assert rig.a.seen == [b"x" * 100]
    rig.clock.run(3.0)
    assert rig.a.seen == [b"x" * 100, b"y" * 100]
    side.out.write(b"z")
    rig.clock.run(4.0)
    assert rig.b.seen == [b"z"]


def test_a_connection_stalls_during_a_partition_and_continues_after_it(rig):
    side, _ = rig.connection()
    partition = Partition(frozenset({"a"}))
    rig.network.partitions.append(partition)
    side.out.write(b"1")
    rig.clock.run(2.0)
    side.out.write(b"2")
    rig.network.remove_partition(partition)
    rig.clock.run(4.0)
    assert rig.b.seen == [b"1", b"2"]


def test_a_sender_gives_up_in_a_long_partition_and_the_other_side_does_not_notice(rig):
    side, other = rig.connection()
    partition = Partition(frozenset({"a"}))
    rig.network.partitions.append(partition)
    side.out.write(b"1")
    rig.clock.run(30.0)
    assert [type(each) for each in rig.a.seen] == [Ended] and rig.b.seen == [] and other.alive
    rig.network.remove_partition(partition)
    other.out.write(b"hello?")
    rig.clock.run(31.0)
    assert rig.b.seen == [BROKEN] and not other.alive and not side.alive


def test_bytes_for_a_paused_reader_stay_with_the_writer(rig):
    _, other = rig.connection()
    other.out.pause(True)
    other.out.write(b"x" * 5_000)
    rig.clock.run(1.0)
    assert rig.a.seen == [] and other.out.backlog > 0
    other.out.pause(False)
    rig.clock.run(2.0)
    assert rig.a.seen == [b"x" * 5_000] and other.out.backlog == 0


def test_a_close_frame_arrives_after_earlier_data(rig):
    _, other = rig.connection()
    other.out.write(b"last data")
    other.close(Ended(4102, "migrated"), 5.0)
    rig.clock.run(1.0)
    assert rig.a.seen == [b"last data", Ended(4102, "migrated")]


def test_production_effects_pause_retry_and_receive_a_refusal(rig):
    tries, refusals = [], []

    def attempt(done: Any) -> None:
        tries.append(rig.clock.now)
        if len(tries) < 3:
            done(None, Lost("no"))
        else:
            done(None, Refused({"message": "never"}))

    def work() -> Any:
        yield Pause(1.0)
        try:
            yield from retry(Command(), Random(1))
        except Refused as error:
            refusals.append(str(error))

    Process(rig.a, work(), {Command(): attempt}.__getitem__)
    rig.clock.run(10.0)
    assert refusals == ["never"] and len(tries) == 3 and tries[0] == 1.0 < tries[1] < tries[2]


def test_a_process_ends_when_its_machine_dies(rig):
    steps = []

    def work() -> Any:
        while True:
            steps.append(rig.clock.now)
            yield Pause(1.0)

    Process(rig.a, work(), {}.__getitem__)
    rig.clock.run(2.5)
    rig.a.die()
    rig.a.boot()
    rig.clock.run(9.0)
    assert steps == [0.0, 1.0, 2.0]
