"""A subscriber as the protocol's page describes it: it keeps a position per subscription, drops duplicates, resumes."""

from __future__ import annotations

from typing import Any

import msgspec
from model_cluster import Log

from tocsin.wire import messages as wire


class Sub:
    """``cursor`` None: the broker has not confirmed yet where it begins."""

    def __init__(self, channel: str, args: Any, kind: str) -> None:
        self.channel, self.args, self.kind = channel, args, kind
        self.cursor: int | None = None
        self.start = 0
        self.begun = 0  # executions begun when it was confirmed
        self.known: int | None = None
        self.id: int | None = None
        self.live = False
        self.got: dict[int, bytes] = {}
        self.missing: set[int] = set()

    def take(self, message: wire.Notify, log: Log) -> None:
        assert self.cursor is not None
        if message.execution <= self.cursor:
            return
        self._pass(message.execution - 1, log)
        self.got[message.execution] = msgspec.json.encode(message.results)
        self.cursor = message.execution

    def skip(self, gap: wire.Gap) -> None:
        assert self.cursor is not None
        if gap.reason == "released":  # all results of the previous id have arrived
            self.known = gap.subscription
        if gap.next - 1 > self.cursor:
            self.missing |= set(range(self.cursor + 1, gap.next))
            self.cursor = gap.next - 1

    def reach(self, execution: int, log: Log) -> None:
        assert self.cursor is not None
        if execution > self.cursor:
            self._pass(execution, log)
            self.cursor = execution

    def _pass(self, execution: int, log: Log) -> None:
        """The broker claims that all results up to there were sent: none may be missing."""
        assert self.cursor is not None
        lost = [each for each in range(self.cursor + 1, execution + 1) if self._promised(log, each)]
        assert not lost, f"{self.channel}({self.kind}) at {self.cursor} loses {lost}"

    def _promised(self, log: Log, execution: int) -> bool:
        """An execution that began before the confirmation need not include the subscription."""
        return self.kind in log.found.get(execution, {}) and log.which[execution] > self.begun

    def check(self, log: Log) -> None:
        """At rest, it has every result, or a gap was announced."""
        here = [n for n in log.found if n > self.start and (self._promised(log, n) or n in self.got)]
        expected = {n: log.found[n][self.kind] for n in here}
        assert self.got == {n: expected[n] for n in expected if n not in self.missing or n in self.got}
        assert list(self.got) == sorted(self.got)


class Client:
    """A ``forgetful`` client knows only its positions, not its ids: the broker has to know them."""

    def __init__(self, name: int, user: str | None, forgetful: bool = False) -> None:
        self.name, self.user, self.forgetful = name, user, forgetful
        self.peer: int | None = None
        self.inbox: list[wire.FromBroker] = []
        self.subs: dict[tuple[str, str], Sub] = {}
        self.asked: dict[int, Sub | int] = {}
        self._id = 0

    # -- what it sends

    def hello(self) -> list[wire.FromClient]:
        """The first frame of a connection subscribes to everything again."""
        token = None if self.user is None else f"token of {self.user}"
        return [wire.Hello(self._next(), token), *[self._subscribe(sub) for sub in self.subs.values()]]

    def subscribe(self, channel: str, args: Any, kind: str) -> wire.FromClient | None:
        key = (channel, kind)
        if key in self.subs:
            return None
        self.subs[key] = Sub(channel, args, kind)
        return self._subscribe(self.subs[key])

    def resume(self, sub: Sub, back: int) -> wire.FromClient | None:
        """Subscribes again on the same connection, from its position or an older one."""
        if sub.id is None or sub.cursor is None:
            return None
        sub.live = False
        after = max(sub.start, sub.cursor - back)
        id = self._next()
        self.asked[id] = sub
        return wire.Subscribe(id, sub.channel, sub.args, after, self._known(sub))

    def unsubscribe(self, sub: Sub) -> wire.FromClient | None:
        if sub.id is None:
            return None
        id = self._next()
        self.asked[id] = sub.id
        return wire.Unsubscribe(id, sub.id)

    def cut(self) -> None:
        self.peer = None
        self.inbox.clear()
        gone = {id_ for id_ in self.asked.values() if isinstance(id_, int)}
        self.subs = {key: sub for key, sub in self.subs.items() if sub.id not in gone or sub.id is None}
        self.asked.clear()
        for sub in self.subs.values():
            sub.id, sub.live = None, False

    def _subscribe(self, sub: Sub) -> wire.FromClient:
        id = self._next()
        self.asked[id] = sub
        return wire.Subscribe(id, sub.channel, sub.args, sub.cursor, self._known(sub))

    def _known(self, sub: Sub) -> int | None:
        return None if self.forgetful else sub.known

    def _next(self) -> int:
        self._id += 1
        return self._id

    # -- what it receives

    def receive(self, message: wire.FromBroker, logs: dict[str, Log]) -> None:
        match message:
            case wire.Subscribed():
                sub = self.asked.pop(message.id)
                assert isinstance(sub, Sub)
                sub.id = message.subscription
                if sub.cursor is None:
                    sub.cursor = sub.start = message.after
                    sub.begun = logs[sub.channel].begun if sub.channel in logs else 0
                    sub.known = message.subscription
                    sub.live = True
            case wire.Unsubscribed():
                id_ = self.asked.pop(message.id)
                self.subs = {key: sub for key, sub in self.subs.items() if sub.id != id_}
            case wire.Error():
                sub = self.asked.pop(message.id or 0)
                self.subs = {key: each for key, each in self.subs.items() if each is not sub}
            case wire.Ended():
                self.subs = {key: sub for key, sub in self.subs.items() if sub.id != message.subscription}
            case wire.Ping():
                for sub in self.subs.values():
                    if sub.live and sub.id is not None:
                        sub.reach(message.positions.get(sub.channel, 0), logs.get(sub.channel, Log()))
            case wire.Notify() | wire.Gap() | wire.Live() | wire.Lagging():
                for sub in [sub for sub in self.subs.values() if sub.id == message.subscription]:
                    self._receive(sub, message, logs.get(sub.channel, Log()))

    def _receive(self, sub: Sub, message: Any, log: Log) -> None:
        match message:
            case wire.Notify():
                sub.take(message, log)
            case wire.Gap():
                sub.skip(message)
            case wire.Lagging():
                sub.live = False
            case wire.Live():
                sub.known = message.subscription
                sub.live = True
                sub.reach(message.execution, log)
