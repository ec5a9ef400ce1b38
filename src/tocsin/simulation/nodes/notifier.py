"""Telling brokers of executions, as the data cluster's teller does it: each broker in order, tried again with growing
pauses, declared gone after too long a silence. The outbox is durable; how often it was tried is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING

from msgspec import Struct

from tocsin.broker.core.events import Line
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.simulation.network.process import Process, Question, Work

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.cluster import DataCluster

TIMEOUT = 10.0
#: Executions that are told in one request: few, so that there are more requests.
AT_ONCE = 3


class Tell(Struct, frozen=True):
    channel: str
    execution: int
    epoch: int
    lines: list[Line] | None = None


class _Road(Struct, eq=False):
    """To one broker. ``turn``: a pause that was cut short is over, and whoever waited in it has nothing to do."""

    broker: str
    patience: RetryPolicy
    busy: bool = False
    again: bool = False
    waiting: bool = False
    turn: int = 0


class Notifier:
    def __init__(self, cluster: DataCluster, rng: Random, gone_after: float) -> None:
        self.cluster, self.rng, self.gone_after = cluster, rng, gone_after
        self.addresses: dict[str, BrokerNode] = {}
        self._roads: dict[str, _Road] = {}

    def boot(self) -> None:
        self._roads = {}
        self.wake([name for name, state in self.cluster.brokers.items() if state == "up"])

    def wake(self, brokers: Iterable[str], *, returned: bool = False) -> None:
        for name in brokers:
            road = self._roads.setdefault(name, _Road(name, RetryPolicy(self.gone_after, self.rng)))
            road.again = True
            if returned:
                road.patience.answered()
                if road.waiting:
                    road.turn += 1
                    road.waiting = road.busy = False
            if not road.busy:
                road.busy = True
                Process(self.cluster, self._serve(road))

    def _serve(self, road: _Road) -> Work:
        cluster = self.cluster
        while road.again:
            road.again = False
            while cluster.brokers.get(road.broker) == "up" and cluster.outbox.get(road.broker):
                gathered = sorted(cluster.outbox[road.broker])[:AT_ONCE]
                found = [self._message(road.broker, *each) for each in gathered]
                tells = [each for each in found if each is not None]
                if tells:
                    try:
                        yield self._post(road.broker, tells)
                    except (Lost, Refused):
                        delay = road.patience.failed(cluster.clock.now)
                        if delay is None:
                            self._give_up(road)
                            break
                        road.waiting, turn = True, road.turn
                        yield delay
                        if road.turn != turn:
                            return
                        road.waiting = False
                        continue
                    road.patience.answered()
                for each in gathered:
                    cluster.outbox[road.broker].pop(each, None)
        road.busy = False

    def _post(self, broker: str, tells: list[Tell]) -> Question:
        node = self.addresses[broker]
        return self.cluster.network.ask(self.cluster, node, node.notify, tells, TIMEOUT)

    def _message(self, broker: str, name: str, number: int) -> Tell | None:
        channel = self.cluster.channels[name]
        if number < channel.first:
            return Tell(name, number, channel.epoch)  # it finds out when it pulls, and says so to whom it concerns
        lines = self.cluster.lines(broker, channel, number)
        if not lines:
            return None
        return Tell(name, number, channel.epoch, lines if channel.push else None)

    def _give_up(self, road: _Road) -> None:
        if self.cluster.trace:
            self.cluster.trace.say(self.cluster.name, f"declares {road.broker} gone")
        self.cluster.brokers[road.broker] = "gone"
        self.cluster.outbox.pop(road.broker, None)
        road.patience.answered()
