"""The reference data cluster of a broker: its executions, and its answers to the broker's instructions."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Line, Problem
from tocsin.errors import NotFound
from tocsin.simulation.reference_cluster import Channel, ReferenceCluster, Subscription, canonical
from tocsin.wire.position import Position

KINDS = ("x", "y", "z")
OURS, OTHER = "ours", "other"


class Log:
    """The executions of one channel as the reference cluster keeps them, with the order in which they began."""

    def __init__(self, channel: Channel | None = None) -> None:
        self.channel = channel or ReferenceCluster().create_channel("none", ["kind"])
        self.kinds: set[str] = set()
        self.begun = 0
        self.which: dict[int, int] = {}  # execution: its place in the order of begun executions

    @property
    def first(self) -> int:
        return self.channel.first

    @property
    def last(self) -> int:
        return self.channel.last

    @property
    def late(self) -> set[int]:
        return self.channel.late

    @property
    def begin(self) -> dict[int, int]:
        return {each.id: each.begins_after for each in self.channel.subscriptions.values()}

    @property
    def found(self) -> dict[int, dict[str, bytes]]:
        """The results for every possible subscriber."""
        return {
            each.number: {json.loads(args)[0]: rows for args, rows in each.found.items()}
            for each in self.channel.executions
        }

    @property
    def stored(self) -> dict[int, dict[int, bytes]]:
        """The results stored for each subscription."""
        return {each.number: each.stored for each in self.channel.executions}


class Cluster:
    """The reference data cluster with two brokers, ``ours`` and ``other``; ``outbox`` is ours."""

    def __init__(self) -> None:
        self.data = ReferenceCluster()
        for broker in (OURS, OTHER):
            self.data.register_broker(broker)
        self.logs: dict[str, Log] = {}
        self.outbox: list[tuple[str, int]] = []
        self.notified: list[tuple[str, int]] = []
        for channel in "AB":
            self.create(channel)

    # -- executions and subscriptions

    @property
    def ids(self) -> dict[tuple[str, str], int]:
        return {(name, json.loads(each.args)[0]): each.id for name, each in self._subscriptions()}

    @property
    def holders(self) -> dict[int, set[str]]:
        return {each.id: set(each.brokers) for _, each in self._subscriptions()}

    def _subscriptions(self) -> list[tuple[str, Subscription]]:
        return [(name, each) for name in self.logs for each in self.data.subscriptions(name, None)]

    def execute(self, channel: str, kinds: set[str]) -> None:
        self.begin(channel, kinds)
        self.commit(channel)

    def begin(self, channel: str, kinds: set[str]) -> None:
        """Begins with the current subscriptions. One execution runs at a time: the previous one is committed."""
        log = self.logs.get(channel)
        if log is not None:
            self.commit(channel)
            log.begun += 1
            log.kinds = kinds
            self.data.begin(log.channel)

    def commit(self, channel: str) -> None:
        log = self.logs.get(channel)
        if log is None or log.channel.seen is None:
            return
        rows = {
            canonical([kind]): msgspec.json.encode([{"kind": kind, "n": log.last + 1}]) for kind in sorted(log.kinds)
        }
        execution = self.data.commit(log.channel, rows, 0.0, 0.0)
        if execution is not None:
            log.which[execution.number] = log.begun
            ours = self.data.broker(OURS).id
            self.outbox += [(channel, entry.execution) for entry in self.data.outbox if entry.broker == ours]
            self.data.outbox.clear()

    def expire(self, channel: str, count: int) -> None:
        """Expires only executions that were notified; the data cluster's own tests cover the others."""
        log = self.logs.get(channel)
        if log is not None:
            pending = [execution for name, execution in self.outbox if name == channel]
            log.channel.first = min([log.first + count, log.last + 1, *pending])

    def subscribe(self, channel: str, kind: str, holder: str) -> int:
        return self.data.subscribe(channel, holder, [[kind]])[0]

    def unsubscribe(self, id_: int, holder: str) -> None:
        channel = next((name for name, each in self._subscriptions() if each.id == id_), None)
        if channel is not None:
            self.data.unsubscribe(channel, [id_], holder)

    def drop(self, channel: str) -> None:
        if self.logs.pop(channel, None) is not None:
            self.data.drop_channel(channel)
        self.outbox = [entry for entry in self.outbox if entry[0] != channel]
        self.notified = [entry for entry in self.notified if entry[0] != channel]

    def create(self, channel: str) -> None:
        if channel not in self.logs:
            self.logs[channel] = Log(self.data.create_channel(channel, ["kind"]))

    def ours(self, channel: str) -> list[tuple[int, str]]:
        return [(each.id, json.loads(each.args)[0]) for each in self.data.subscriptions(channel, OURS)]

    # -- answers

    def answer(self, asked: Any, page: int) -> list[ev.Event]:
        """The events that answer an instruction, in order; at most ``page`` lines in each."""
        match asked:
            case do.Subscribe():
                log = self.logs.get(asked.channel)
                if log is None:
                    return [ev.Subscribed(asked.channel, [Problem("not_found", "no such channel")] * len(asked.args))]
                outcomes = [self._subscribed(asked.channel, kind_of(args)) for args in asked.args]
                return [ev.Subscribed(asked.channel, outcomes, Position(0, log.last))]
            case do.Unsubscribe():
                for id_ in asked.subscriptions:
                    self.unsubscribe(id_, OURS)
                return [ev.Unsubscribed(asked.channel)]
            case do.Pull():
                return self._pulled(asked, page)
            case do.Fetch():
                return [self._fetched(asked, page)]
        raise AssertionError(asked)

    def _subscribed(self, channel: str, kind: str) -> int | Problem:
        return self.subscribe(channel, kind, OURS) if kind in KINDS else Problem("type_mismatch", "no such kind")

    def _pulled(self, asked: do.Pull, page: int) -> list[ev.Event]:
        channel, execution, position = asked.channel, asked.position.execution, asked.position
        end = ev.Pulled(channel, position, [])
        log = self.logs.get(channel)
        if log is None:
            return [ev.Dropped(channel), end]
        if execution < log.first:
            return [ev.Missed({channel: position}), end]
        mine = {id_ for id_, _ in self.ours(channel)}
        stored = log.stored[execution]
        lines = [Line(id_, execution, 1, stored[id_]) for id_ in sorted(stored) if id_ in mine]
        parts = [lines[at : at + page] for at in range(0, len(lines), page)]
        return [*[ev.Pulled(channel, position, part, last=False) for part in parts], end]

    def _fetched(self, asked: do.Fetch, page: int) -> ev.Event:
        log = self.logs.get(asked.channel)
        if log is None:
            return ev.Fetched(asked.job, [])
        if asked.same_as is not None:
            try:
                self.data.results(asked.channel, asked.subscription, log.last, same_as=asked.same_as)
            except NotFound:
                return ev.Fetched(asked.job, [])
        if asked.find_begin and asked.subscription in log.late:
            return ev.FetchEarly(asked.job)
        if asked.position.execution < log.first - 1:
            return ev.FetchGap(asked.job, Position(0, log.first))
        lines = [
            Line(asked.subscription, execution, 1, log.stored[execution][asked.subscription])
            for execution in range(asked.position.execution + 1, log.last + 1)
            if asked.subscription in log.stored[execution]
        ]
        begin = log.begin.get(asked.subscription, 0) if asked.find_begin else 0
        return ev.Fetched(asked.job, lines[:page], len(lines) >= page, Position(0, begin))


def kind_of(args: Any) -> str:
    return str(args["kind"] if isinstance(args, dict) else args[0])
