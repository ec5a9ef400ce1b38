"""A data cluster that reads like the specification: executions, what they found, who is subscribed, whom to tell."""

from __future__ import annotations

from typing import Any

import msgspec

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Line, Problem
from tocsin.wire.position import Position

KINDS = ("x", "y", "z")
OURS, OTHER = "ours", "other"


class Log:
    """The executions of one channel. ``found`` is what everybody would have got, ``stored`` what somebody did get."""

    def __init__(self) -> None:
        self.first = 1
        self.last = 0
        self.under_way: tuple[set[str], dict[str, int]] | None = None  # kinds, and the subscriptions it sees
        self.late: set[int] = set()
        self.begin: dict[int, int] = {}
        self.begun = 0
        self.which: dict[int, int] = {}  # execution: which of all that have begun it is
        self.found: dict[int, dict[str, bytes]] = {}
        self.stored: dict[int, dict[int, bytes]] = {}


class Cluster:
    def __init__(self) -> None:
        self.logs: dict[str, Log] = {"A": Log(), "B": Log()}
        self.numbers: dict[tuple[str, str], int] = {}
        self.holders: dict[int, set[str]] = {}
        self.outbox: list[tuple[str, int]] = []
        self.told: list[tuple[str, int]] = []
        self._number = 0

    # -- what happens there

    def execute(self, channel: str, kinds: set[str]) -> None:
        self.begin(channel, kinds)
        self.commit(channel)

    def begin(self, channel: str, kinds: set[str]) -> None:
        """Sees the subscriptions of now. One at a time: what had begun before is committed."""
        log = self.logs.get(channel)
        if log is None:
            return
        self.commit(channel)
        log.begun += 1
        log.under_way = (kinds, {kind: number for (name, kind), number in self.numbers.items() if name == channel})

    def commit(self, channel: str) -> None:
        log = self.logs.get(channel)
        if log is None or log.under_way is None:
            return
        (kinds, seen), log.under_way = log.under_way, None
        log.last += 1
        log.begin.update(dict.fromkeys(log.late, log.last))
        log.late.clear()
        rows = {kind: msgspec.json.encode([{"kind": kind, "n": log.last}]) for kind in sorted(kinds)}
        log.found[log.last], log.which[log.last] = rows, log.begun
        held = {kind: seen[kind] for kind in rows if kind in seen and seen[kind] in self.holders}
        log.stored[log.last] = {number: rows[kind] for kind, number in held.items()}
        if any(OURS in self.holders[number] for number in held.values()):
            self.outbox.append((channel, log.last))

    def expire(self, channel: str, count: int) -> None:
        """Only what was told: a broker that was not is a matter of the data cluster's own tests."""
        log = self.logs.get(channel)
        if log is not None:
            untold = [execution for name, execution in self.outbox if name == channel]
            log.first = min([log.first + count, log.last + 1, *untold])

    def want(self, channel: str, kind: str, holder: str) -> int:
        key = (channel, kind)
        if key not in self.numbers:
            self._number += 1
            self.numbers[key] = self._number
            self.holders[self._number] = set()
            log = self.logs[channel]
            log.begin[self._number] = log.last
            if log.under_way is not None:
                log.late.add(self._number)
        self.holders[self.numbers[key]].add(holder)
        return self.numbers[key]

    def unwant(self, number: int, holder: str) -> None:
        holders = self.holders.get(number)
        if holders is None:
            return
        holders.discard(holder)
        if not holders:
            del self.holders[number]
            self.numbers = {key: each for key, each in self.numbers.items() if each != number}

    def drop(self, channel: str) -> None:
        self.logs.pop(channel, None)
        for key, number in list(self.numbers.items()):
            if key[0] == channel:
                del self.numbers[key], self.holders[number]
        self.outbox = [tell for tell in self.outbox if tell[0] != channel]
        self.told = [tell for tell in self.told if tell[0] != channel]

    def create(self, channel: str) -> None:
        self.logs.setdefault(channel, Log())

    def ours(self, channel: str) -> list[tuple[int, str]]:
        return [(n, kind) for (name, kind), n in self.numbers.items() if name == channel and OURS in self.holders[n]]

    # -- what it answers

    def answer(self, asked: Any, page: int) -> list[ev.Event]:
        """The events that answer an instruction, in order; at most ``page`` lines in each."""
        match asked:
            case do.Subscribe():
                log = self.logs.get(asked.channel)
                if log is None:
                    return [ev.Subscribed(asked.channel, [Problem("not_found", "no such channel")] * len(asked.args))]
                outcomes = [self._wanted(asked.channel, kind_of(args)) for args in asked.args]
                return [ev.Subscribed(asked.channel, outcomes, Position(0, log.last))]
            case do.Unsubscribe():
                for number in asked.subscriptions:
                    self.unwant(number, OURS)
                return [ev.Unsubscribed(asked.channel)]
            case do.Pull():
                return self._pulled(asked, page)
            case do.Fetch():
                return [self._fetched(asked, page)]
        raise AssertionError(asked)

    def _wanted(self, channel: str, kind: str) -> int | Problem:
        return self.want(channel, kind, OURS) if kind in KINDS else Problem("type_mismatch", "no such kind")

    def _pulled(self, asked: do.Pull, page: int) -> list[ev.Event]:
        channel, execution, position = asked.channel, asked.position.execution, asked.position
        end = ev.Pulled(channel, position, [])
        log = self.logs.get(channel)
        if log is None:
            return [ev.Dropped(channel), end]
        if execution < log.first:
            return [ev.Missed({channel: position}), end]
        mine = {number for number, _ in self.ours(channel)}
        stored = log.stored[execution]
        lines = [Line(number, execution, 1, stored[number]) for number in sorted(stored) if number in mine]
        parts = [lines[at : at + page] for at in range(0, len(lines), page)]
        return [*[ev.Pulled(channel, position, part, last=False) for part in parts], end]

    def _fetched(self, asked: do.Fetch, page: int) -> ev.Event:
        log = self.logs.get(asked.channel)
        if log is None:
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
