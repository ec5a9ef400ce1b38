"""A broker's road to the data cluster, step by step as ``tocsin.broker.link`` goes it over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from tocsin.broker import events as ev
from tocsin.broker import instructions as do
from tocsin.simulation.process import Done, Process, Question, Refused, Work, insist
from tocsin.simulation.telling import Tell

if TYPE_CHECKING:
    from tocsin.simulation.broker import BrokerNode
    from tocsin.simulation.cluster import DataCluster

MIN_BACKOFF, MAX_BACKOFF = 0.1, 5.0
#: Seconds between two looks at what exists there.
LOOK = 5.0
TIMEOUT = 10.0


class Link:
    """``settled``: it is known whether something was lost before what is told now."""

    def __init__(self, node: BrokerNode, cluster: DataCluster, rng: Random) -> None:
        self.node, self.cluster, self.rng = node, cluster, rng
        self.registered = self.settled = False
        self._waiting: list[Callable[[], None]] = []

    def start(self) -> None:
        Process(self.node, self._look())

    def carry_out(self, it: Any) -> None:
        match it:
            case do.Want():
                Process(self.node, self._want(it))
            case do.Unwant():
                Process(self.node, self._unwant(it))
            case do.Pull():
                Process(self.node, self._pull(it))
            case do.Fetch():
                Process(self.node, self._fetch(it))

    def told(self, tell: Tell, done: Done) -> None:
        """What comes too early waits with its answer."""
        if not self.settled:
            self._waiting.append(lambda: self.told(tell, done))
            return
        self.node.handle(ev.Told(tell.channel, tell.execution, tell.lines, tell.epoch))
        done(None, None)

    def _settle(self, settled: bool) -> None:
        self.settled = settled
        if settled:
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                each()

    def _ask(self, serve: Callable[[Any, Done], None], body: Any) -> Callable[[], Question]:
        return lambda: self.node.network.ask(self.node, self.cluster, serve, body, TIMEOUT)

    def _insist(self, serve: Callable[[Any, Done], None], body: Any) -> Work:
        return insist(self._ask(serve, body), self.rng, MIN_BACKOFF, MAX_BACKOFF)

    def _look(self) -> Work:
        node, cluster, first = self.node, self.cluster, True
        while True:
            self._settle(False)
            returned = yield from self._registered()
            if not first and not returned:
                self._settle(True)
            channels = yield from self._insist(cluster.list_channels, None)
            if first:
                for name, (position, epoch) in channels.items():
                    mine = yield from self._insist(cluster.list_subscriptions, (name, node.name))
                    node.handle(ev.Inherited(name, mine, position, epoch))
                self.registered = True
                node.ready()
            if returned:
                node.handle(ev.Returned({name: position for name, (position, _) in channels.items()}))
            self._settle(True)
            first = False
            yield LOOK

    def _registered(self) -> Work:
        """Whether the data cluster had given this broker up, or may have."""
        tries = 0

        def register() -> Question:
            nonlocal tries
            tries += 1
            return self._ask(self.cluster.register, self.node.name)()

        returned = yield from insist(register, self.rng, MIN_BACKOFF, MAX_BACKOFF)
        return returned or tries > 1

    def _want(self, it: do.Want) -> Work:
        found = yield from self._subscribe(it.channel, it.args)
        self.node.handle(ev.Wanted(it.channel, *found))

    def _subscribe(self, channel: str, args: list[Any]) -> Work:
        try:
            return (yield from self._insist(self.cluster.subscribe, (self.node.name, channel, args)))
        except Refused:
            yield from self._insist(self.cluster.register, self.node.name)
            return (yield from self._subscribe(channel, args))

    def _unwant(self, it: do.Unwant) -> Work:
        while not self.registered:  # nothing is let go that may be on the list of what is inherited
            yield 0.1
        yield from self._insist(self.cluster.unsubscribe, (self.node.name, it.channel, it.subscriptions))
        self.node.handle(ev.Unwanted(it.channel))

    def _pull(self, it: do.Pull) -> Work:
        name, execution, epoch = it.channel, it.execution, it.epoch
        try:
            lines = yield from self._insist(self.cluster.pull, (self.node.name, name, execution))
            half = len(lines) // 2
            if half:
                self.node.handle(ev.Pulled(name, execution, lines[:half], last=False, epoch=epoch))
            self.node.handle(ev.Pulled(name, execution, lines[half:], last=False, epoch=epoch))
        except Refused:
            self.node.handle(ev.Returned({name: execution}, epoch))
        self.node.handle(ev.Pulled(name, execution, [], epoch=epoch))

    def _fetch(self, it: do.Fetch) -> Work:
        begin = 0
        if it.begin:
            try:
                begin = yield from self._insist(self.cluster.subscription, it.subscription)
            except Refused:
                begin = 0
            if begin is None:
                self.node.handle(ev.FetchEarly(it.job))
                return
        try:
            lines, more = yield from self._insist(self.cluster.results, (it.channel, it.subscription, it.after))
        except Refused as error:
            self.node.handle(ev.FetchGap(it.job, error.first))
            return
        self.node.handle(ev.Fetched(it.job, lines, more, begin))
