"""The data cluster in memory, written like its specification. The simulator and tests use it in place of the real one.

It has no clock, no network and no Spark: the caller says when an execution begins and commits, what it found, and what
time it is. ``tests/cluster/contract`` runs the same scripts against this and against the real data cluster.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import count, zip_longest
from typing import Any

import msgspec
from msgspec import Struct, field, structs

from tocsin.cluster.model import Broker, OutboxEntry
from tocsin.errors import AlreadyExists, NotFound, TypeMismatch
from tocsin.identity.grants import ANONYMOUS_ROLE, USER_ROLE, Condition, Grant, GrantTable, Privilege

Arguments = Sequence[Any] | Mapping[str, Any]


class Result(Struct, frozen=True):
    """What one subscription got in one execution: ``results`` is a JSON array. ``gap``: why they are lost."""

    subscription: int
    execution: int
    results: bytes
    gap: str = ""


class Message(Struct, frozen=True):
    """What a broker is notified of. ``results`` come along on a push channel, ``records`` on that of a feed."""

    broker: str
    channel: str
    epoch: int
    execution: int
    results: list[Result] | None = None
    records: list[bytes] | None = None


class Receipt(Struct, frozen=True):
    """``refused`` are places of records that do not fit."""

    accepted: int
    refused: list[int]


class Execution(Struct, eq=False):
    """``found``: results by arguments, whether or not a subscription has them; ``stored``: by subscription."""

    number: int
    started: float
    time: float
    found: dict[str, bytes]
    stored: dict[int, bytes]
    expired: float | None = None
    damaged: bool = False  # its results cannot be read
    records: list[bytes] | None = None  # of a feed's commit, if they are sent along

    def of(self, id: int) -> list[Result]:
        """What a subscription gets of it. Of damaged results it is not known whose they are."""
        if self.damaged:
            return [Result(id, self.number, b"[]", "damaged")]
        return [Result(id, self.number, self.stored[id])] if id in self.stored else []


class Subscription(Struct, eq=False):
    """A BE subscription. Every execution after ``begins_after`` has seen it."""

    id: int
    args: str
    begins_after: int
    brokers: dict[str, None] = field(default_factory=dict)


class Channel(Struct, eq=False):
    """``epoch`` tells it from another one that had the name before; executions count from 1 in each."""

    id: int
    name: str
    epoch: int
    parameters: tuple[str, ...]
    push: bool
    retention: float
    accepts: Callable[[Sequence[Any]], bool]
    feed: bool = False
    executions: list[Execution] = field(default_factory=list)
    first: int = 1  # the oldest execution that is kept
    subscriptions: dict[int, Subscription] = field(default_factory=dict)
    ended: dict[int, str] = field(default_factory=dict)  # arguments of subscriptions that have ended
    seen: dict[str, int] | None = None  # by the execution under way: arguments, subscription
    late: set[int] = field(default_factory=set)  # subscribed after the execution under way began

    @property
    def last(self) -> int:
        return len(self.executions)

    def find(self, args: str) -> Subscription | None:
        return next((each for each in self.subscriptions.values() if each.args == args), None)

    def canonical(self, args: Arguments) -> str:
        """The identity of a subscription: its arguments as JSON, in the order of the parameters."""
        if isinstance(args, Mapping):
            given = {name.lower(): value for name, value in args.items()}
            if set(given) != set(self.parameters):
                raise TypeMismatch(f"channel {self.name!r} takes {', '.join(self.parameters)}")
            args = [given[name] for name in self.parameters]
        if len(args) != len(self.parameters) or not self.accepts(args):
            raise TypeMismatch(f"channel {self.name!r} does not take {list(args)}")
        return canonical(args)


def canonical(args: Sequence[Any]) -> str:
    return msgspec.json.encode(args).decode()


class ReferenceCluster:
    """Everything here is durable except an execution under way and the exact beginning of subscriptions."""

    def __init__(self) -> None:
        self.channels: dict[str, Channel] = {}
        self.dropped: list[Channel] = []
        self.brokers: dict[str, Broker] = {}
        self.outbox: dict[OutboxEntry, None] = {}
        self.feeds: dict[str, Callable[[Any], bool]] = {}
        self.records: dict[str, list[Any]] = {}
        self.roles = {ANONYMOUS_ROLE, USER_ROLE}
        self.grants: list[Grant] = []
        self._posts: dict[tuple[str, str], Receipt] = {}
        self._ids = count(1)

    def restart(self) -> None:
        for channel in self.channels.values():
            channel.seen = None
            channel.late.clear()
            for subscription in channel.subscriptions.values():
                subscription.begins_after = channel.last

    # -- channels

    def create_channel(
        self,
        name: str,
        parameters: Sequence[str],
        *,
        push: bool = False,
        retention: float = math.inf,
        accepts: Callable[[Sequence[Any]], bool] = lambda args: True,
        feed: bool = False,
    ) -> Channel:
        if name.lower() in self.channels:
            raise AlreadyExists("channel", name)
        id = next(self._ids)
        channel = Channel(id, name, id, tuple(each.lower() for each in parameters), push, retention, accepts, feed)
        self.channels[name.lower()] = channel
        return channel

    def drop_channel(self, name: str) -> None:
        """Its subscriptions, its results, its part of the outbox and its grants go with it."""
        channel = self.channel(name)
        self.grants = [each for each in self.grants if (each.privilege, each.name) != ("subscribe", channel.name)]
        del self.channels[name.lower()]
        self.dropped.append(channel)
        self.outbox = {entry: None for entry in self.outbox if entry.channel != channel.id}

    def channel(self, name: str) -> Channel:
        found = self.channels.get(name.lower())
        if found is None:
            raise NotFound("channel", name)
        return found

    # -- brokers

    def register_broker(self, name: str, url: str = "") -> bool:
        """Whether it had been given up."""
        found = self.brokers.get(name) or Broker(next(self._ids), name, url)
        self.brokers[name] = structs.replace(found, url=url, state="up")
        return found.state == "gone"

    def broker(self, name: str) -> Broker:
        found = self.brokers.get(name)
        if found is None:
            raise NotFound("broker", name)
        return found

    def give_up(self, broker: Broker) -> None:
        """Its outbox is deleted; its subscriptions stay for its return."""
        self.brokers[broker.name] = structs.replace(self.brokers[broker.name], state="gone")
        self.outbox = {entry: None for entry in self.outbox if entry.broker != broker.id}

    # -- subscriptions

    def subscribe(self, channel: str, broker: str, args: Sequence[Arguments]) -> list[int]:
        """Ids in the order of ``args``; all or none. Those that have the arguments already are shared."""
        at = self.channel(channel)
        holder = self.broker(broker).name
        found = [self._identity(at, text) for text in [at.canonical(each) for each in args]]
        for each in found:
            each.brokers[holder] = None
        return [each.id for each in found]

    def _identity(self, channel: Channel, args: str) -> Subscription:
        found = channel.find(args)
        if found is None:
            found = Subscription(next(self._ids), args, channel.last)
            channel.subscriptions[found.id] = found
            if channel.seen is not None:
                channel.late.add(found.id)
        return found

    def unsubscribe(self, channel: str, ids: Sequence[int], broker: str | None = None) -> int:
        """How many the broker had; without a broker, for all of them. One without any broker is gone."""
        at = self.channel(channel)
        found = [self._subscription(at, id) for id in ids]
        return sum(self._leave(at, each, broker) for each in found)

    def _leave(self, channel: Channel, subscription: Subscription, broker: str | None) -> bool:
        had = broker is None or broker in subscription.brokers
        if broker is None:
            subscription.brokers.clear()
        else:
            subscription.brokers.pop(broker, None)
        if not subscription.brokers:
            channel.subscriptions.pop(subscription.id, None)
            channel.ended[subscription.id] = subscription.args
            channel.late.discard(subscription.id)
        return had

    def subscriptions(self, channel: str, broker: str | None, after: int = 0, limit: int = 1_000) -> list[Subscription]:
        found = self.channel(channel).subscriptions.values()
        return [each for each in found if each.id > after and (broker is None or broker in each.brokers)][:limit]

    def begins_after(self, channel: str, id: int) -> int | None:
        """None while an execution is under way that has not seen the subscription."""
        at = self.channel(channel)
        found = self._subscription(at, id)
        return None if id in at.late else found.begins_after

    @staticmethod
    def _subscription(channel: Channel, id: int) -> Subscription:
        found = channel.subscriptions.get(id)
        if found is None:
            raise NotFound("subscription", str(id))
        return found

    # -- executions

    def begin(self, channel: Channel) -> None:
        """An execution sees the subscriptions of this moment. A channel has one at a time."""
        channel.seen = {each.args: each.id for each in channel.subscriptions.values()}

    def commit(self, channel: Channel, found: Mapping[str, bytes], started: float, now: float) -> Execution | None:
        """Results, position and outbox in one step. Without a result for a subscription it does not count."""
        seen, channel.seen = channel.seen or {}, None
        late, channel.late = channel.late, set()
        stored = {seen[args]: text for args, text in found.items() if seen.get(args) in channel.subscriptions}
        if not stored or self.channels.get(channel.name.lower()) is not channel:
            return None
        execution = Execution(channel.last + 1, started, now, dict(found), stored)
        channel.executions.append(execution)
        for id in late:
            channel.subscriptions[id].begins_after = execution.number
        brokers = {name: None for id in stored for name in channel.subscriptions[id].brokers}
        for name in brokers:
            self.outbox[OutboxEntry(self.brokers[name].id, channel.id, execution.number)] = None
        return execution

    def append(
        self, channel: Channel, records: list[bytes] | None, found: Mapping[str, bytes], now: float
    ) -> Execution:
        """A commit of a feed's dataset. Every broker with a subscription is notified, whatever it matches. ``found``:
        the records that meet each condition. Without ``records``, they are too many to be sent along."""
        execution = Execution(channel.last + 1, now, now, dict(found), {}, records=records)
        channel.executions.append(execution)
        for name in {name: None for each in channel.subscriptions.values() for name in each.brokers}:
            self.outbox[OutboxEntry(self.brokers[name].id, channel.id, execution.number)] = None
        return execution

    def expire(self, now: float) -> None:
        """Results that are older than their channel's retention. Their outbox entries stay: the gap must be known."""
        for channel in self.channels.values():
            while channel.first <= channel.last:
                oldest = channel.executions[channel.first - 1]
                if oldest.time >= now - channel.retention:
                    break
                oldest.expired = now
                channel.first += 1

    def pull(self, channel: str, number: int, broker: str) -> list[Result]:
        """The results of one execution for the subscriptions that the broker has now."""
        at = self.channel(channel)
        if at.feed or not at.first <= number <= at.last:
            raise self._no_execution(at, number)
        execution = at.executions[number - 1]
        mine = [each.id for each in self.subscriptions(channel, self.broker(broker).name, limit=len(at.subscriptions))]
        return [result for id in sorted(mine) for result in execution.of(id)]

    def results(
        self,
        channel: str,
        id: int,
        after: int,
        limit: int = 100,
        *,
        strict: bool = False,
        same_as: int | None = None,
    ) -> list[Result]:
        """What one subscription got after an execution; 0 means from the oldest that is kept, unless ``strict``.

        ``same_as``: only if it has the arguments of this one, or had them before it ended.
        """
        at = self.channel(channel)
        if same_as is not None and same_as != id:
            every = at.ended | {each.id: each.args for each in at.subscriptions.values()}
            if id not in every or every[id] != every.get(same_as):
                raise NotFound("subscription", str(id))
        if at.feed:
            args = self._subscription(at, id).args
            found = [each for each in at.executions[after:] if args in each.found]
            return [Result(id, each.number, each.found[args]) for each in found][:limit]
        if after < at.first - 1 and (after or strict):
            raise self._no_execution(at, after + 1)
        kept = at.executions[max(after, at.first - 1) :]
        return [result for each in kept for result in each.of(id)][:limit]

    @staticmethod
    def _no_execution(channel: Channel, number: int) -> NotFound:
        error = NotFound("execution", f"{channel.name}/{number}")
        error.fields.update(first=channel.first, last=channel.last)
        return error

    # -- notifications

    def entries(self, broker: int, limit: int, known: Collection[OutboxEntry] = ()) -> list[OutboxEntry]:
        """Without the known ones: the oldest of each channel, then the second of each. Channels with the fewest known
        entries come first, then those that have waited longest."""
        held = Counter(entry.channel for entry in known)
        channels: dict[int, list[OutboxEntry]] = {}
        for entry in self.outbox:  # by age
            if entry.broker == broker and entry not in known:
                channels.setdefault(entry.channel, []).append(entry)
        ranks = zip_longest(*(channels[channel] for channel in sorted(channels, key=held.__getitem__)))
        return [entry for rank in ranks for entry in rank if entry is not None][:limit]

    def delete(self, entries: Sequence[OutboxEntry]) -> None:
        """The broker has answered."""
        for entry in entries:
            self.outbox.pop(entry, None)

    def message(self, broker: Broker, entry: OutboxEntry) -> Message | None:
        """None: nothing has to be sent. What has expired is sent all the same: the broker must learn of the gap."""
        channel = next((each for each in self.channels.values() if each.id == entry.channel), None)
        if channel is None:
            return None
        message = Message(broker.name, channel.name, channel.epoch, entry.execution)
        if channel.feed:
            return structs.replace(message, records=channel.executions[entry.execution - 1].records)
        if not channel.push or entry.execution < channel.first:
            return message
        found = self.pull(channel.name, entry.execution, broker.name)
        return structs.replace(message, results=found) if found else None

    # -- grants

    def create_role(self, name: str) -> None:
        if name.lower() in self.roles:
            raise AlreadyExists("role", name)
        self.roles.add(name.lower())

    def drop_role(self, name: str) -> None:
        """Its grants go with it."""
        self.roles.remove(self._role(name))
        self.grants = [each for each in self.grants if each.role != name.lower()]

    def grant(
        self, privilege: Privilege, name: str | None, role: str, conditions: Mapping[str, tuple[str | None, Any]]
    ) -> None:
        """``conditions``: by parameter, the name of a claim, or None and a value."""
        made = self._grant(privilege, name, role, conditions)
        if made.key not in [each.key for each in self.grants]:
            self.grants.append(made)

    def revoke(
        self, privilege: Privilege, name: str | None, role: str, conditions: Mapping[str, tuple[str | None, Any]]
    ) -> None:
        """Without conditions: all grants of the role on the object."""
        gone = self._grant(privilege, name, role, conditions)
        kept = [
            each
            for each in self.grants
            if (each.role, each.privilege, each.name) != (gone.role, gone.privilege, gone.name)
            or (conditions and each.key != gone.key)
        ]
        if len(kept) == len(self.grants):
            raise NotFound("grant", str(gone))
        self.grants = kept

    def grant_table(self) -> GrantTable:
        return GrantTable(tuple(self.grants), tuple(channel.name for channel in self.channels.values()))

    def _role(self, name: str) -> str:
        if name.lower() not in self.roles:
            raise NotFound("role", name)
        return name.lower()

    def _grant(
        self, privilege: Privilege, name: str | None, role: str, conditions: Mapping[str, tuple[str | None, Any]]
    ) -> Grant:
        if name is None or privilege != "subscribe":
            return Grant(self._role(role), privilege, name)
        channel = self.channel(name)
        for parameter in conditions:
            if parameter.lower() not in channel.parameters:
                raise NotFound("parameter", parameter)
        found = [
            Condition(parameter.lower(), channel.parameters.index(parameter.lower()), claim, value)
            for parameter, (claim, value) in conditions.items()
        ]
        return Grant(self._role(role), privilege, channel.name, tuple(found))

    # -- publications

    def create_feed(self, name: str, fits: Callable[[Any], bool]) -> None:
        self.feeds[name], self.records[name] = fits, []

    def publish(self, feed: str, records: Sequence[Any], key: str) -> Receipt:
        """The same key is the same publication, and counts once."""
        if feed not in self.feeds:
            raise NotFound("feed", feed)
        if (feed, key) not in self._posts:
            refused = [place for place, record in enumerate(records) if not self.feeds[feed](record)]
            accepted = [record for place, record in enumerate(records) if place not in refused]
            self.records[feed] += accepted
            self._posts[feed, key] = Receipt(len(accepted), refused)
        return self._posts[feed, key]
