"""A broker's road to the data cluster: the production steps, asked over the simulated network."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tocsin.broker.core import events as ev
from tocsin.broker.core.events import Line
from tocsin.broker.upstream import protocol
from tocsin.broker.upstream.effects import Lost
from tocsin.broker.upstream.protocol import UpstreamProtocol
from tocsin.simulation.network.process import Done, Process, Request, walk
from tocsin.simulation.nodes.notifier import Tell

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.cluster import DataCluster

TIMEOUT = 10.0
#: Seconds between two looks of those who wait until the broker is registered.
PATIENCE = 0.1
#: Of the pulls that bring anything, so many break off in the middle.
BREAKS = 0.02


class Upstream:
    """``settled``: it is known whether something was lost before what is told now."""

    def __init__(self, node: BrokerNode, cluster: DataCluster, rng: Random) -> None:
        self.node, self.cluster, self.rng = node, cluster, rng
        self.registered = self.settled = False
        self.road = UpstreamProtocol(
            node.handle, lambda: node.state.channels, rng, settle=self._settle, ready=self._ready
        )
        self._waiting: list[Callable[[], None]] = []

    def start(self) -> None:
        Process(self.node, walk(self.road.look(), self._perform))

    def carry_out(self, it: Any) -> None:
        Process(self.node, walk(self.road.carry_out(it), self._perform))

    def told(self, tells: list[Tell], done: Done) -> None:
        """What comes too early waits with its answer."""
        if not self.settled:
            self._waiting.append(lambda: self.told(tells, done))
            return
        for tell in tells:
            self.node.handle(ev.Told(tell.channel, tell.execution, tell.lines, tell.epoch))
        done(None, None)

    def _settle(self, settled: bool) -> None:
        self.settled = settled
        if settled:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each()

    def _ready(self) -> None:
        self.registered = True
        self.node.ready()

    def _perform(self, wish: Any) -> float | Request:
        cluster, me = self.cluster, self.node.name
        match wish:
            case protocol.UntilRegistered():
                return self._until_registered
            case protocol.Register():
                return self._ask(cluster.register, me)
            case protocol.Look():
                return self._ask(cluster.list_channels, None)
            case protocol.Inherit():
                return self._ask(cluster.list_subscriptions, (wish.channel, me, wish.after))
            case protocol.Subscribe():
                return self._ask(cluster.subscribe, (me, wish.channel, wish.args))
            case protocol.Unsubscribe():
                return self._ask(cluster.unsubscribe, (me, wish.channel, wish.subscriptions))
            case protocol.Begin():
                return self._ask(cluster.subscription, wish.subscription)
            case protocol.Fetch():
                return self._ask(cluster.results, (wish.channel, wish.subscription, wish.after))
            case protocol.Post():
                return self._ask(cluster.post, wish)
            case protocol.Pull():
                return self._pull(wish)
        raise AssertionError(wish)

    def _ask(self, serve: Callable[[Any, Done], None], body: Any) -> Request:
        return self.node.network.request(self.node, self.cluster, serve, body, TIMEOUT)

    def _until_registered(self, done: Done) -> None:
        if self.registered:
            done(None, None)
        else:
            self.node.later(PATIENCE, self._until_registered, done)

    def _pull(self, wish: protocol.Pull) -> Request:
        """Lines come in two parts, and the second part not always."""
        node, life = self.node, self.node.life

        def question(done: Done) -> None:
            def answered(lines: list[Line] | None, error: Exception | None) -> None:
                if error is None and lines and node.life == life:
                    half = len(lines) // 2
                    if half:
                        node.take(wish.take, lines[:half])
                    if self.rng.random() < BREAKS:
                        lines, error = None, Lost("it broke off")
                    else:
                        node.take(wish.take, lines[half:])
                done(lines, error)

            self._ask(self.cluster.pull, (node.name, wish.channel, wish.execution))(answered)

        return question
