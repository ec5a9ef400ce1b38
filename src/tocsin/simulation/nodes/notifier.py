"""The notifier of the simulated data cluster: production's ``Dispatch`` over simulated connections.

A connection carries requests without waiting for answers; the broker's side takes them in order, answers several
together, refuses one now and then, and ends connections that are idle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import TYPE_CHECKING

import msgspec

from tocsin.broker.core.events import Notified
from tocsin.cluster.model import OutboxEntry
from tocsin.cluster.notify import dispatch as on
from tocsin.cluster.notify.dispatch import Dispatch, make_batch
from tocsin.cluster.notify.retry_policy import RetryPolicy
from tocsin.simulation.network.connection import Ended, Opened, Owner, Side, connect

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.cluster import DataCluster

TIMEOUT = 10.0
BANDWIDTH = 1e7
#: Small, so that there are many requests, many reads, and batches that end early.
BATCH, BATCH_BYTES, READ = 3, 600, 8
#: Later entries of other channels that may be sent before a channel's oldest one.
OVERTAKEN = 2 * READ
#: Seconds that a call of the catalog takes at most.
CATALOG = 0.02
#: What brokers allow to be unanswered, and the seconds after which they answer those that may wait.
ALLOWED, TOGETHER = (1, 2, 4), 0.005
#: Part of the requests that a broker refuses, and seconds after which it ends an idle connection.
REFUSED, IDLE = 0.01, (2.0, 8.0)


_messages = msgspec.json.Decoder(Notified | list[Notified])


class Notifier:
    def __init__(self, cluster: DataCluster, rng: Random, gone_after: float) -> None:
        self.cluster, self.rng, self.gone_after = cluster, rng, gone_after
        self.addresses: dict[str, BrokerNode] = {}
        self.complaints: list[str] = []
        self._recipients: dict[str, _Recipient] = {}

    def boot(self) -> None:
        self._recipients = {}
        self.wake([broker.name for broker in self.cluster.data.brokers.values() if broker.state == "up"])

    def wake(self, brokers: Iterable[str], *, returned: bool = False) -> None:
        for name in brokers:
            if name not in self._recipients:
                dispatch = Dispatch(RetryPolicy(self.gone_after, self.rng), batch=BATCH, read=READ)
                self._recipients[name] = _Recipient(self, name, dispatch)
            self._recipients[name].handle(on.Wake(returned))


class _Recipient:
    """One broker."""

    def __init__(self, notifier: Notifier, name: str, dispatch: Dispatch) -> None:
        self.cluster, self.rng, self.node = notifier.cluster, notifier.rng, notifier.addresses[name]
        self.name, self.dispatch = name, dispatch
        self.link: _Link | None = None
        self._overtaken: dict[OutboxEntry, int] = {}

    def handle(self, event: on.Event) -> None:
        data = self.cluster.data
        for it in self.dispatch.handle(event, self.cluster.clock.now):
            match it:
                case on.ReadOutbox():
                    broker = data.brokers.get(self.name)
                    found = data.entries(broker.id, it.limit, it.known) if broker is not None else []
                    self._later(on.OutboxRead(found, broker))
                case on.MakeBatch():
                    self._check_order(it)
                    self._later(make_batch(it.entries, partial(self.cluster.message, it.broker), BATCH_BYTES))
                case on.Connect():
                    self.link = _Link(self)
                case on.Post():
                    assert self.link is not None
                    self.link.post(it)
                case on.Close():
                    assert self.link is not None
                    self.link.side.abort()
                case on.Delete():
                    self.cluster.later(self.rng.uniform(0.0, CATALOG), self._delete, it)
                case on.Pause():
                    self.cluster.later(it.seconds, self.handle, on.PauseEnded(it.id))
                case on.GiveUp():
                    data.give_up(it.broker)
                    self._later(on.GaveUp())
                case on.Report():
                    if it.outcome == "gone" and self.cluster.trace:
                        self.cluster.trace.say(self.cluster.name, f"declares {self.name} gone")

    def _later(self, event: on.Event) -> None:
        self.cluster.later(self.rng.uniform(0.0, CATALOG), self.handle, event)

    def _check_order(self, it: on.MakeBatch) -> None:
        """No channel's oldest entry waits while many later ones of other channels are sent."""
        age = {entry: place for place, entry in enumerate(self.cluster.data.outbox)}
        sent = {*self.dispatch.window.entries, *it.entries}
        oldest: dict[int, OutboxEntry] = {}
        for entry in age:
            if entry.broker == it.broker.id and entry not in sent:
                oldest.setdefault(entry.channel, entry)
        self._overtaken = {entry: self._overtaken.get(entry, 0) for entry in oldest.values()}
        for entry in self._overtaken:
            self._overtaken[entry] += sum(age.get(each, -1) > age[entry] for each in it.entries)
            if self._overtaken[entry] == OVERTAKEN:
                self.cluster.notifier.complaints.append(
                    f"{OVERTAKEN} later entries were sent to {self.name} before {entry}"
                )

    def _delete(self, it: on.Delete) -> None:
        self.cluster.data.delete(it.entries)
        self._later(on.Deleted(it.entries))


class _Link(Owner):
    """A connection to a broker, as ``tocsin.http.pipeline`` keeps it."""

    def __init__(self, to: _Recipient) -> None:
        self.to, self.cluster = to, to.cluster
        self.side = Side(self.cluster, self)
        self._requests = self._answers = 0
        self._silent = True  # nothing came since the oldest unanswered request
        self._open = False
        connect(self.side, to.node, _Endpoint(to.node, to.rng), BANDWIDTH)
        self.cluster.on_death.append(self.side.abort)
        self.cluster.later(TIMEOUT, self._late, 0)

    def post(self, it: on.Post) -> None:
        if self._requests == self._answers:
            self._silent = True
        self._requests += 1
        self.cluster.later(TIMEOUT, self._late, self._requests)
        self.side.out.write((b"+" if it.defer else b"-") + it.body)

    def _late(self, request: int) -> None:
        unanswered = self._answers < request if request else not self._open
        if unanswered and self.side.alive:
            self.side.abort()
            self.to.handle(on.Disconnected("no answer in time"))

    # -- from the broker

    def opened(self, side: Side) -> None:
        if side.alive:
            self._open = True
            self.to.handle(on.Connected())

    def arrived(self, side: Side, data: bytes) -> None:
        self._silent = False
        for line in data.split():
            if side.alive:
                self._answers += 1
                status, _, allowed = line.partition(b"/")
                self.to.handle(on.Answered(int(status), int(allowed)))

    def ended(self, side: Side, how: Ended) -> None:
        self.to.handle(on.Disconnected(how.reason, stale=self._answers > 0 and self._silent))


class _Endpoint(Owner):
    """The broker's side of it, as its notify endpoint behaves."""

    def __init__(self, node: BrokerNode, rng: Random) -> None:
        self.node, self.rng = node, rng
        self._requests: deque[bytes] = deque()
        self._taking = False
        self._owed = 0
        self._latest = 0.0
        self._allowed = rng.choice(ALLOWED)

    def accept(self, side: Side) -> None:
        if side.other.alive:
            side.alive = True
            self.side, self._latest = side, self.node.clock.now
            self.node.on_death.append(side.abort)
            side.out.write(Opened())
            self._idle()

    def arrived(self, side: Side, data: bytes) -> None:
        self._latest = self.node.clock.now
        self._requests.append(data)
        self._next()

    def _next(self) -> None:
        """One after the other: what follows one that waits for its answer waits too."""
        while self._requests and not self._taking and self.side.alive:
            if self.rng.random() < REFUSED:
                self._answer()
                self.side.out.write(b"503/0 ")
                self.side.close(Ended(None, "refused"), TIMEOUT)
                return
            data = self._requests.popleft()
            found = _messages.decode(data[1:])
            self._taking = True
            side = self.side

            def done(value: object, error: Exception | None, defer: bool = data[:1] == b"+", side: Side = side) -> None:
                if side.alive:
                    self._taken(defer)

            self.node.notify(found if isinstance(found, list) else [found], done)

    def _taken(self, defer: bool) -> None:
        self._taking = False
        self._owed += 1
        if defer and self._owed < self._allowed:
            self.node.later(TOGETHER, self._answer)
        else:
            self._answer(b"204/%d " % self._allowed)
        self._next()

    def _answer(self, last: bytes = b"204/0 ") -> None:
        if self._owed and self.side.alive:
            self.side.out.write(b"204/0 " * (self._owed - 1) + last)
        self._owed = 0

    def _idle(self) -> None:
        """Ends the connection where nothing came for a while."""
        if not self.side.alive:
            return
        if self.node.clock.now - self._latest > IDLE[0] and not self._taking:
            self._answer()
            self.side.close(Ended(None, "idle"), TIMEOUT)
        else:
            self.node.later(self.rng.uniform(*IDLE), self._idle)

    def ended(self, side: Side, how: Ended) -> None:
        """What it had not taken goes nowhere."""
        self._requests.clear()
