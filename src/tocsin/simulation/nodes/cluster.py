"""The data cluster as a simulated machine: the reference cluster, executions that take time, and the notifier."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
from msgspec import Raw

from tocsin.broker.core.events import FeedColumn, Line, Notified
from tocsin.broker.core.instructions import Publish
from tocsin.broker.upstream.effects import Refused
from tocsin.broker.upstream.protocol import PAGE as SUBSCRIPTIONS
from tocsin.broker.upstream.protocol import ChannelState, SubscribeAnswer
from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.errors import NotFound, TocsinError
from tocsin.simulation.feed_scenario import COLUMNS, LARGE, encode, found_by, records_of
from tocsin.simulation.identity.people import CONDITIONS, Rule
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done
from tocsin.simulation.nodes.notifier import Notifier
from tocsin.simulation.nodes.publisher import FEED, Record
from tocsin.simulation.reference_cluster import Channel, ReferenceCluster, Result, canonical
from tocsin.simulation.scenario import ChannelPlan
from tocsin.wire.position import Position

#: Seconds between the beginning of an execution and its commit.
DURATION = (0.02, 0.3)
#: Lines that one answer to a catch-up holds: few, so that there are many answers.
PAGE = 4
#: Seconds that a request for the grants waits for a change, and between two looks at them.
GRANTS_WAIT, GRANTS_CHECK = 4.0, 0.3


class DataCluster(Node):
    """``data`` is durable; the machine may stop and start again.

    ``names``: channel and kind of every subscription that ever was.
    """

    def __init__(self, network: Network, rng: Random, gone_after: float) -> None:
        super().__init__("cluster", network)
        self.rng = rng
        self.data = ReferenceCluster()
        self.data.create_feed(FEED, lambda record: not record.wrong)
        self.workloads: dict[str, ChannelPlan] = {}
        self.names: dict[int, tuple[Channel, str]] = {}
        self.notifier = Notifier(self, rng, gone_after)
        self.producing = True
        self.rules: dict[str, Rule] = {}  # who may subscribe to a channel, where brokers ask for it
        self.data.grant("publish", FEED, "anonymous", {})

    def boot(self) -> None:
        super().boot()
        self.data.restart()
        self.notifier.boot()
        for channel in self.data.channels.values():
            self.later(self.workloads[channel.name].period * self.rng.random(), self._run, channel)
        self.later(1.0, self._expire)

    # -- channels

    def create(self, workload: ChannelPlan) -> None:
        self.workloads[workload.name] = workload
        channel = self.data.create_channel(
            workload.name,
            ["kind"],
            push=workload.push,
            retention=workload.retention,
            accepts=lambda args: args[0] in workload.size,
            feed=workload.feed,
        )
        if workload.name in self.rules:
            self.allow(workload.name, self.rules[workload.name])
        if self.up:
            self.later(workload.period * self.rng.random(), self._run, channel)

    def present(self, channel: Channel) -> bool:
        return self.data.channels.get(channel.name.lower()) is channel

    # -- executions

    def _run(self, channel: Channel) -> None:
        if self.present(channel):
            self.later(self.workloads[channel.name].period * self.rng.uniform(0.7, 1.3), self._run, channel)
            if self.producing and channel.seen is None:
                self.execute(channel)

    def execute(self, channel: Channel, everything: bool = False) -> None:
        """It sees the subscriptions of now, and is committed a little later. One at a time."""
        if channel.seen is not None:
            self.later(0.05, self.execute, channel, everything)
            return
        workload = self.workloads[channel.name]
        if channel.feed:
            self._append(channel, workload, everything)
            return
        chance = 1.0 if everything else workload.chance
        kinds = [kind for kind in workload.size if self.rng.random() < chance]
        self.data.begin(channel)
        self.later(self.rng.uniform(*DURATION), self._commit, channel, kinds, self.clock.now)

    def _append(self, channel: Channel, workload: ChannelPlan, everything: bool) -> None:
        """A commit of a feed's dataset, at once."""
        records = records_of(self.rng, channel.last + 1, max(workload.size.values()), everything)
        sent = None if self.rng.random() < LARGE else [encode(each) for each in records]
        execution = self.data.append(channel, sent, found_by(workload, records), self.clock.now)
        if self.trace:
            self.trace.say(self.name, f"commit {channel.name}/{execution.number} of {len(records)} records")
        self._notify_of(channel, execution.number)

    def _notify_of(self, channel: Channel, number: int) -> None:
        entries = [entry for entry in self.data.outbox if (entry.channel, entry.execution) == (channel.id, number)]
        ids = {broker.id: broker.name for broker in self.data.brokers.values()}
        self.notifier.wake(ids[entry.broker] for entry in entries)

    def _commit(self, channel: Channel, kinds: list[str], started: float) -> None:
        number, sizes = channel.last + 1, self.workloads[channel.name].size
        found = {canonical([kind]): result(channel, kind, number, sizes[kind]) for kind in kinds}
        execution = self.data.commit(channel, found, started, self.clock.now)
        if execution is None:
            return
        if self.trace:
            what = ", ".join(f"{channel.name}({self.names[id][1]})#{id}" for id in execution.stored)
            self.trace.say(self.name, f"execution {channel.name}/{number} found something for {what}")
        self._notify_of(channel, number)

    def message(self, broker: Broker, entry: OutboxEntry) -> bytes | None:
        found = self.data.message(broker, entry)
        if found is None:
            return None
        results = None if found.results is None else lines(found.results)
        records = None if found.records is None else [Raw(record) for record in found.records]
        return msgspec.json.encode(Notified(found.channel, found.execution, results, found.epoch, records))

    def _expire(self) -> None:
        self.later(1.0, self._expire)
        self.data.expire(self.clock.now)

    # -- what brokers ask for

    @staticmethod
    def serve(body: tuple[Callable[..., Any], ...], done: Done) -> None:
        """A method and its arguments."""
        work, *args = body
        try:
            found = work(*args)
        except TocsinError as error:
            done(None, Refused({"code": error.code, "message": error.message, **error.fields}, error.status))
        else:
            done(found, None)

    def grants(self, version: str, done: Done) -> None:
        """When they have another version, or after a while."""
        self._grants(version, self.clock.now + GRANTS_WAIT, done)

    def _grants(self, version: str, until: float, done: Done) -> None:
        table = self.data.grant_table()
        if table.version == version and self.clock.now < until:
            self.later(GRANTS_CHECK, self._grants, version, until, done)
        else:
            done((table, dict(self.rules)), None)

    def allow(self, channel: str, rule: Rule) -> None:
        """From now on this is the rule of the channel, as grants."""
        role = "anonymous" if rule == "anonymous" else "user"
        if channel.lower() in self.data.channels:
            self.data.grants = [grant for grant in self.data.grants if grant.name != channel]
            if rule:
                self.data.grant("subscribe", channel, role, CONDITIONS[rule])
        self.rules[channel] = rule

    def register(self, broker: str) -> bool:
        returned = self.data.register_broker(broker)
        self.notifier.wake([broker], returned=True)
        return returned

    def list_channels(self) -> list[ChannelState]:
        channels = self.data.channels.values()
        return [ChannelState(each.name, Position(each.epoch, each.last), columns_of(each)) for each in channels]

    def list_subscriptions(self, name: str, broker: str, after: int) -> list[tuple[int, list[Any]]]:
        found = self.data.subscriptions(name, broker, after, SUBSCRIPTIONS)
        return [(each.id, msgspec.json.decode(each.args)) for each in found]

    def subscribe(self, name: str, broker: str, args: list[Any]) -> SubscribeAnswer:
        ids = self.data.subscribe(name, broker, args)
        channel = self.data.channel(name)
        for id, each in zip(ids, args, strict=True):
            self.names[id] = (channel, str(each[0]))
        return SubscribeAnswer(list(ids), Position(channel.epoch, channel.last), columns_of(channel))

    def begins_after(self, id: int) -> int | None:
        """The execution after which it begins; None while one is under way that has not seen it."""
        if id not in self.names:
            raise NotFound("subscription", str(id))
        return self.data.begins_after(self.names[id][0].name, id)

    def post(self, request: Publish) -> list[tuple[int, str, str]]:
        records = [msgspec.json.decode(record, type=Record) for record in request.records]
        receipt = self.data.publish(request.feed, records, request.key)
        return [(place, "type_mismatch", "it does not fit") for place in receipt.refused]

    def pull(self, name: str, number: int, broker: str) -> list[Line]:
        return lines(self.data.pull(name, number, broker))

    def results(self, name: str, subscription: int, after: int, same_as: int | None) -> tuple[list[Line], bool]:
        found = self.data.results(name, subscription, after, PAGE, strict=True, same_as=same_as)
        return lines(found), len(found) == PAGE


def columns_of(channel: Channel) -> tuple[FeedColumn, ...]:
    return COLUMNS if channel.feed else ()


def lines(results: list[Result]) -> list[Line]:
    return [Line(each.subscription, each.execution, 1, Raw(each.results), each.gap) for each in results]


def result(channel: Channel, kind: str, number: int, size: int) -> bytes:
    """Of ``size`` bytes, and like no other."""
    row = {"kind": kind, "channel": channel.name, "epoch": channel.epoch, "n": number}
    text = msgspec.json.encode([row])
    return text[:-2] + b',"pad":"' + b"x" * max(0, size - len(text)) + b'"}]'
