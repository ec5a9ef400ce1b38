"""The data cluster: channels whose executions find something for subscriptions, results that are kept for a while,
brokers that are told and come to pull. It reads like the specification; Spark is the one part that is not real here.
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from tocsin.broker.core.events import Line
from tocsin.broker.core.instructions import Publish
from tocsin.broker.upstream.effects import Refused
from tocsin.broker.upstream.protocol import PAGE as SUBSCRIPTIONS
from tocsin.broker.upstream.protocol import ChannelState
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done
from tocsin.simulation.nodes.notifier import Notifier
from tocsin.simulation.nodes.publisher import FEED, Record
from tocsin.wire.position import Position

#: Lines that one answer to a catch-up holds: few, so that there are many answers.
PAGE = 4


class Execution(Struct, eq=False):
    """``found``: what each kind got, whether or not anybody asked for it. ``stored``: what is kept, by subscription."""

    number: int
    started: float
    time: float
    found: dict[str, bytes]
    stored: dict[int, bytes]
    expired: float | None = None


class Channel(Struct, eq=False):
    """``chance``: of each kind to be found by an execution; ``size``: bytes of a result, by kind."""

    name: str
    period: float
    chance: float
    size: dict[str, int]
    push: bool = False
    retention: float = 1e9
    epoch: int = 1
    running: bool = False
    executions: list[Execution] = field(default_factory=list)
    first: int = 1  # the oldest that is kept
    numbers: dict[str, int] = field(default_factory=dict)  # kind: subscription
    late: dict[int, None] = field(default_factory=dict)  # came too late for the execution that is under way

    @property
    def last(self) -> int:
        return len(self.executions)


class Subscription(Struct, eq=False):
    """Every execution behind ``begin`` has seen it."""

    number: int
    channel: Channel
    kind: str
    begin: int
    holders: dict[str, None] = field(default_factory=dict)


class DataCluster(Node):
    """Durable are subscriptions, executions, brokers and what is left to tell them; it may stop and start again."""

    def __init__(self, network: Network, rng: Random, gone_after: float) -> None:
        super().__init__("cluster", network)
        self.rng = rng
        self.channels: dict[str, Channel] = {}
        self.subscriptions: dict[int, Subscription] = {}
        self.names: dict[int, tuple[str, str]] = {}  # of all that ever were: channel, kind
        self.brokers: dict[str, str] = {}  # up or gone
        self.outbox: dict[str, dict[tuple[str, int], None]] = {}
        self.teller = Notifier(self, rng, gone_after)
        self.producing = True
        self.records: list[str] = []  # what was published, by its id
        self.posts: dict[str, list[tuple[int, str, str]]] = {}  # key: its answer
        self._number = 0

    def boot(self) -> None:
        super().boot()
        self.teller.boot()
        for channel in self.channels.values():
            channel.running = False
            channel.late.clear()
            self.later(channel.period * self.rng.random(), self._run, channel)
        for each in self.subscriptions.values():
            each.begin = each.channel.last  # nobody remembers where it began
        self.later(1.0, self._expire)

    # -- executions

    def _run(self, channel: Channel) -> None:
        self.later(channel.period * self.rng.uniform(0.7, 1.3), self._run, channel)
        if self.producing and not channel.running:
            self.execute(channel)

    def execute(self, channel: Channel, everything: bool = False) -> None:
        """It sees the subscriptions of now, and is committed a little later. One at a time."""
        if channel.running:
            self.later(0.05, self.execute, channel, everything)
            return
        channel.running = True
        chance = 1.0 if everything else channel.chance
        kinds = [kind for kind in channel.size if self.rng.random() < chance]
        seen = dict(channel.numbers)
        self.later(self.rng.uniform(0.02, 0.3), self._commit, channel, kinds, seen, self.clock.now)

    def _commit(self, channel: Channel, kinds: list[str], seen: dict[str, int], started: float) -> None:
        channel.running = False
        late, channel.late = channel.late, {}
        mine = {seen[kind]: kind for kind in kinds if kind in seen and seen[kind] in self.subscriptions}
        if not mine:
            return  # without a result it takes no number
        number = channel.last + 1
        for each in late:
            if each in self.subscriptions:
                self.subscriptions[each].begin = number
        found = {kind: result(channel, kind, number) for kind in kinds}
        stored = {each: found[kind] for each, kind in mine.items()}
        channel.executions.append(Execution(number, started, self.clock.now, found, stored))
        brokers = {name: None for each in mine for name in self.subscriptions[each].holders}
        if self.trace:
            what = ", ".join(f"{channel.name}({kind})#{each}" for each, kind in mine.items())
            self.trace.say(self.name, f"execution {channel.name}/{number} found something for {what}")
        for name in brokers:
            self.outbox.setdefault(name, {})[channel.name, number] = None
        self.teller.wake(brokers)

    def _expire(self) -> None:
        self.later(1.0, self._expire)
        now = self.clock.now
        for channel in self.channels.values():
            while channel.first <= channel.last:
                oldest = channel.executions[channel.first - 1]
                if oldest.time >= now - channel.retention:
                    break
                oldest.expired = now
                channel.first += 1

    # -- what brokers ask for; each answers by ``done``

    def register(self, broker: str, done: Done) -> None:
        returned = self.brokers.get(broker) == "gone"
        self.brokers[broker] = "up"
        self.teller.wake([broker], returned=True)
        done(returned, None)

    def list_channels(self, body: None, done: Done) -> None:
        found = [ChannelState(each.name, Position(each.epoch, each.last)) for each in self.channels.values()]
        done(found, None)

    def list_subscriptions(self, body: tuple[str, str, int], done: Done) -> None:
        name, broker, after = body
        mine = [each for each in self.subscriptions.values() if each.channel.name == name and broker in each.holders]
        done([(each.number, [each.kind]) for each in mine if each.number > after][:SUBSCRIPTIONS], None)

    def subscribe(self, body: tuple[str, str, list[Any]], done: Done) -> None:
        broker, name, args = body
        channel = self.channels[name]
        if broker not in self.brokers:
            done(None, no("broker"))
            return
        wrong = [str(each[0]) for each in args if each[0] not in channel.size]
        if wrong:  # the whole request is refused
            done(None, Refused({"code": "type_mismatch", "message": f"there is no kind {wrong[0]}"}, 400))
            return
        outcomes: list[int] = []
        for each in args:
            kind = str(each[0])
            number = channel.numbers.get(kind)
            if number is None:
                self._number += 1
                number = channel.numbers[kind] = self._number
                self.names[number] = (name, kind)
                self.subscriptions[number] = Subscription(number, channel, kind, channel.last)
                if channel.running:
                    channel.late[number] = None
            self.subscriptions[number].holders[broker] = None
            outcomes.append(number)
        done((outcomes, Position(channel.epoch, channel.last)), None)

    def subscription(self, number: int, done: Done) -> None:
        """Behind which execution it begins; None while one is under way that has not seen it."""
        found = self.subscriptions.get(number)
        if found is None:
            done(None, no("subscription"))
        else:
            done(None if number in found.channel.late else found.begin, None)

    def unsubscribe(self, body: tuple[str, str, list[int]], done: Done) -> None:
        broker, _, numbers = body
        for number in numbers:
            found = self.subscriptions.get(number)
            if found is None:
                continue
            found.holders.pop(broker, None)
            if not found.holders:
                del self.subscriptions[number]
                del found.channel.numbers[found.kind]
        done(None, None)

    def post(self, wish: Publish, done: Done) -> None:
        """The same key is the same post, and counts once."""
        if wish.feed != FEED:
            done(None, no("feed"))
            return
        if wish.key not in self.posts:
            records = [msgspec.json.decode(record, type=Record) for record in wish.records]
            wrong = [place for place, record in enumerate(records) if record.wrong]
            self.posts[wish.key] = [(place, "type_mismatch", "it does not fit") for place in wrong]
            self.records += [record.id for record in records if not record.wrong]
        done(self.posts[wish.key], None)

    def lines(self, broker: str, channel: Channel, number: int) -> list[Line]:
        stored = channel.executions[number - 1].stored
        held = [each for each in stored if each in self.subscriptions and broker in self.subscriptions[each].holders]
        return [Line(each, number, 1, Raw(stored[each])) for each in sorted(held)]

    def pull(self, body: tuple[str, str, int], done: Done) -> None:
        broker, name, number = body
        channel = self.channels[name]
        if number < channel.first:
            done(None, no("execution", first=channel.first))
        else:
            done(self.lines(broker, channel, number), None)

    def results(self, body: tuple[str, int, int], done: Done) -> None:
        name, subscription, after = body
        channel = self.channels[name]
        if after < channel.first - 1:
            done(None, no("execution", first=channel.first))
            return
        lines = []
        for execution in channel.executions[after:]:
            if subscription in execution.stored:
                lines.append(Line(subscription, execution.number, 1, Raw(execution.stored[subscription])))
                if len(lines) == PAGE:
                    break
        done((lines, len(lines) == PAGE), None)


def no(kind: str, **more: Any) -> Refused:
    """There is none of this kind."""
    return Refused({"code": "not_found", "message": f"no such {kind}", "kind": kind, **more})


def result(channel: Channel, kind: str, number: int) -> bytes:
    """Of as many bytes as the channel's results of this kind have, and like no other."""
    row = {"kind": kind, "channel": channel.name, "n": number}
    text = msgspec.json.encode([row])
    return text[:-2] + b',"pad":"' + b"x" * max(0, channel.size[kind] - len(text)) + b'"}]'
