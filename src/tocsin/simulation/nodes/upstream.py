"""A broker's upstream: the production protocol over the simulated network."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Line, Notified
from tocsin.broker.upstream import protocol
from tocsin.broker.upstream.effects import Lost
from tocsin.broker.upstream.protocol import UpstreamProtocol
from tocsin.simulation.network.process import Done, Process, Request, watched

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.cluster import DataCluster

TIMEOUT = 10.0
#: Seconds between two checks whether the broker is registered.
REGISTERED_CHECK = 0.1
#: The share of pulls with results that break off in the middle.
BREAKS = 0.02


class Upstream:
    """``settled``: it is known whether an earlier notification was missed."""

    def __init__(self, node: BrokerNode, cluster: DataCluster, rng: Random) -> None:
        self.node, self.cluster, self.rng = node, cluster, rng
        self.registered = self.settled = False
        self.protocol = UpstreamProtocol(
            node.handle, lambda: node.state.be_subscriptions.channels, rng, settle=self._settle, ready=self._ready
        )
        self._waiting: list[Callable[[], None]] = []

    def start(self) -> None:
        Process(self.node, self.protocol.poll(), self._perform)
        if self.node.config.anonymous != "all":
            Process(self.node, watched(self.protocol.follow_grants(), self._learn), self._perform)

    def _learn(self, effect: Any, value: Any) -> Any:
        """The witness of the broker learns the grants when the broker does."""
        if isinstance(effect, protocol.FetchGrants) and self.node.witness is not None:
            value, self.node.witness.rules = value
        return value

    def carry_out(self, command: do.Upstream) -> None:
        Process(self.node, self.protocol.carry_out(command), self._perform)

    def notify(self, notifications: list[Notified], done: Done) -> None:
        """Notifications that come too early wait with their answer."""
        if not self.settled:
            self._waiting.append(lambda: self.notify(notifications, done))
            return
        self.node.on_notify(notifications)
        done(None, None)

    def _settle(self, settled: bool) -> None:
        self.settled = settled
        if settled:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each()

    def _ready(self) -> None:
        self.registered = True
        if self.node.trace:
            self.node.trace.say(self.node.name, "is ready")

    def _perform(self, command: Any) -> Request:
        cluster, me = self.cluster, self.node.name
        match command:
            case do.Subscribe():
                return self._ask(cluster.subscribe, command.channel, me, command.args)
            case do.Unsubscribe():
                return self._ask(cluster.data.unsubscribe, command.channel, command.subscriptions, me)
            case do.Pull():
                return self._pull(command)
            case do.Fetch():
                execution = command.position.execution
                return self._ask(cluster.results, command.channel, command.subscription, execution, command.same_as)
            case do.Publish():
                return self._ask(cluster.post, command)
            case protocol.UntilRegistered():
                return self._until_registered
            case protocol.Register():
                return self._ask(cluster.register, me)
            case protocol.ListChannels():
                return self._ask(cluster.list_channels)
            case protocol.ListSubscriptions():
                return self._ask(cluster.list_subscriptions, command.channel, me, command.after_id)
            case protocol.FindBegin():
                return self._ask(cluster.begins_after, command.subscription)
            case protocol.FetchGrants():
                return self.node.network.request(self.node, cluster, cluster.grants, command.version, TIMEOUT)
        raise AssertionError(command)

    def _ask(self, *body: Any) -> Request:
        """A method of the data cluster and its arguments."""
        return self.node.network.request(self.node, self.cluster, self.cluster.serve, body, TIMEOUT)

    def _until_registered(self, done: Done) -> None:
        if self.registered:
            done(None, None)
        else:
            self.node.later(REGISTERED_CHECK, self._until_registered, done)

    def _pull(self, command: do.Pull) -> Request:
        """Lines come in two parts, and the second part not always."""
        node, life = self.node, self.node.life

        def take(lines: list[Line]) -> None:
            node.take(self.protocol.pulled, command, lines)

        def question(done: Done) -> None:
            def answered(lines: list[Line] | None, error: Exception | None) -> None:
                if error is None and lines and node.life == life:
                    half = len(lines) // 2
                    if half:
                        take(lines[:half])
                    if self.rng.random() < BREAKS:
                        lines, error = None, Lost("it broke off")
                    else:
                        take(lines[half:])
                done(lines, error)

            self._ask(self.cluster.pull, command.channel, command.position.execution, node.name)(answered)

        return question
