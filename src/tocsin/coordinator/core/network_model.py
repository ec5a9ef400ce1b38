"""Who is where with what, as the brokers tell it.

A subscriber may be with two brokers for a while: it connects to the next one before it leaves the last. The one that
claimed it last counts, if the coordinator has sent it there. The other claims are kept beside, so that one of them
counts as soon as the first is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from tocsin.balancing.model.interner import Interner
from tocsin.balancing.model.load import NOWHERE, Load, Status

#: Seconds that two brokers may claim the same subscriber, as they do while it moves.
BOTH = 30.0
#: The same for one that nobody has sent there: until then a broker has noticed that a connection is dead.
UNASKED = 100.0
#: Seconds that a BE subscription that nobody has keeps its number and rate; brokers forget it earlier.
IDLE = 900.0
#: BE subscriptions beyond those that somebody has; the rates of any more are not kept.
UNWANTED = 100_000


class Claim(Struct):
    """A claim that does not count: what the subscriber has at that broker, and when that has to be cleared up."""

    subscriptions: list[int]
    due: float


class NetworkModel:
    """Brokers are numbers here. ``away``: left their broker on a move, and were not seen at the next one yet."""

    def __init__(self) -> None:
        self.load = Load()
        self.unasked = UNASKED
        self.subscribers: Interner[str] = Interner()
        self.backs: Interner[int] = Interner()
        self.away: set[str] = set()
        self._older: dict[str, dict[int, Claim]] = {}
        self._said = np.empty(0, dtype=np.int64)  # the broker whose λ counts, by BE subscription
        self._idle: dict[int, float] = {}
        self._most = UNWANTED  # BE subscriptions that there may be before the rates of unknown ones are passed over

    def at(self, name: str) -> int:
        u = self.subscribers.find(name)
        return NOWHERE if u is None else int(self.load.at[u])

    def join(self, name: str, broker: int, numbers: Iterable[int], now: float, sent: bool = True) -> bool:
        """A broker has this subscriber, with these BE subscriptions. ``sent``: the coordinator knows why.

        False if another one has it and this claim does not count until that one has let go.
        """
        subscriptions = [self.backs.number(each) for each in numbers]
        before, older = self.at(name), self._older.get(name, {})
        if broker in older:
            # News of an older claim do not make it the newest: the subscriber tidies up there.
            older[broker].subscriptions = subscriptions
            return True
        taken = before not in (NOWHERE, broker) and name not in self.away
        if taken and not sent:
            self._older.setdefault(name, {})[broker] = Claim(subscriptions, now + self.unasked)
            return False
        u = self.subscribers.number(name)
        if taken:
            self._older.setdefault(name, {})[before] = Claim(self.load.rows[u].tolist(), now + BOTH)
        self.away.discard(name)
        self.load.join(u, broker, subscriptions)
        return True

    def leave(self, name: str, broker: int) -> bool:
        """A broker has it no longer; True if nobody else has it either, and it is still in the picture."""
        older = self._older.get(name, {})
        if broker in older:
            self._withdraw(name, broker)
        elif self.at(name) == broker and name not in self.away:
            if not older:
                return True
            newest = next(reversed(older))
            claim = older[newest]
            self._withdraw(name, newest)
            self.load.join(self.subscribers.number(name), newest, claim.subscriptions)
        return False

    def _withdraw(self, name: str, broker: int) -> None:
        del self._older[name][broker]
        if not self._older[name]:
            del self._older[name]

    def remove(self, name: str) -> None:
        u = self.subscribers.find(name)
        if u is not None:
            self.load.leave(u)
            self.away.discard(name)
            self.subscribers.forget(name)

    def rates(self, found: dict[int, float], broker: int, fresh: Iterable[int] = ()) -> None:
        """Of several brokers' averages the one of who said it first counts, which has watched for longest.

        Anybody else's counts once that broker serves nobody with it any more, but is not lowered by who has only begun
        to count (``fresh``): otherwise a group that moves would weigh nothing at first, and others be moved to it.
        """
        if len(self.backs) + len(found) > self._most:
            # A broker may tell of what nobody has: who comes next may want it. But not of any number of things.
            room = max(0, self._most - len(self.backs))
            strangers = [each for each in found if self.backs.find(each) is None]
            found = {each: rate for each, rate in found.items() if each not in set(strangers[room:])}
        ks = np.array([self.backs.number(each) for each in found], dtype=np.int64)
        told = np.array(list(found.values()))
        more = int(ks.max(initial=-1)) + 1 - len(self._said)
        if more > 0:
            self._said = np.append(self._said, np.full(more + len(self._said), NOWHERE))
        said, known = self._said[ks], ks < len(self.load.lam)
        stands, begun = np.zeros(len(ks), dtype=np.bool_), set(fresh)
        early = np.array([each in begun for each in found], dtype=np.bool_)
        others = np.flatnonzero(known & (said != NOWHERE) & (said != broker))
        lower = told[others] < self.load.lam[ks[others]]
        stands[others] = (self.load.n[ks[others], said[others]] > 0) | (early[others] & lower)
        self.load.rates(ks[~stands], told[~stands])
        self._said[ks[~stands]] = broker
        for number in ks.tolist():
            self._idle.pop(number, None)  # a broker holds it

    def tidy(self, now: float) -> None:
        """Forgets BE subscriptions that nobody has had for long: otherwise every one there ever was would be kept."""
        wanted = np.asarray(self.load.n.any(axis=1))
        self._most = int(wanted.sum()) + UNWANTED
        claimed = {k for older in self._older.values() for claim in older.values() for k in claim.subscriptions}
        idle = {}
        for name in list(self.backs):
            k = self.backs.number(name)
            if (k < len(wanted) and wanted[k]) or k in claimed:
                continue
            since = self._idle.get(k, now)
            if now - since > IDLE:
                if k < len(wanted):
                    self.load.rate(k, 0.0)
                self._said[k : k + 1] = NOWHERE
                self.backs.forget(name)
            else:
                idle[k] = since
        self._idle = idle

    def claimed(self, broker: int) -> list[str]:
        """All that this broker has said to have, older claims too."""
        here = [self.subscribers.name(u) for u in self.load.subscribers(broker)]
        return here + [name for name, older in self._older.items() if broker in older]

    def is_older(self, name: str, broker: int) -> bool:
        return broker in self._older.get(name, {})

    def overdue(self, now: float) -> Iterator[tuple[str, int]]:
        """Claims that have not counted for too long; once more after a while if nothing happens."""
        for name, older in self._older.items():
            for broker, claim in older.items():
                if now > claim.due:
                    claim.due = now + BOTH
                    yield name, broker

    def takes(self, broker: int, arriving: int = 0) -> bool:
        """Whether a broker takes one more, with so many on their way to it."""
        load = self.load
        return int(load.status[broker]) == Status.OPEN and int(load.count[broker]) + arriving < int(load.most[broker])
