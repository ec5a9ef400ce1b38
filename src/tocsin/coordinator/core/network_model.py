"""Which subscriber is at which broker with which BE subscriptions, as the brokers report it.

Two brokers may claim a subscriber for a while: it connects to the next one before it leaves the last. The latest claim
counts, if the coordinator has sent the subscriber there. Other claims are superseded: one of them counts again as soon
as the first is withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from msgspec import Struct

from tocsin.balancing.model.interner import Interner
from tocsin.balancing.model.load import NOWHERE, Load, Status
from tocsin.balancing.model.migration import Migration

#: Seconds for which two brokers may claim the same subscriber, as they do during a migration.
OVERLAP = 30.0
#: The same for a claim that the coordinator did not expect: by then a broker has noticed a dead connection.
UNEXPECTED = 100.0
#: Seconds for which an unused BE subscription keeps its number and rate; brokers forget it earlier.
IDLE = 900.0
#: Unused BE subscriptions whose rates are stored.
UNUSED = 100_000


class Claim(Struct):
    """A superseded claim: the BE subscriptions at that broker, and when it has to be resolved."""

    subscriptions: list[int]
    due: float


class NetworkModel:
    """The load model, and the border between names and the numbers that it uses.

    ``in_transit``: subscribers that left their broker for a migration and have not been reported by the target yet.
    """

    def __init__(self) -> None:
        self.load = Load()
        self.unexpected_timeout = UNEXPECTED
        self.brokers: Interner[str] = Interner()
        self.subscribers: Interner[str] = Interner()
        self.subscriptions: Interner[int] = Interner()
        self.in_transit: set[str] = set()
        self._superseded: dict[str, dict[int, Claim]] = {}
        self._rate_from = np.empty(0, dtype=np.int64)  # the broker whose λ counts, by BE subscription
        self._idle: dict[int, float] = {}
        self._max_subscriptions = UNUSED

    def names(self, migration: Migration) -> tuple[str, str, str]:
        """Subscriber, source and target; "" for what is unknown, because a strategy may suggest anything."""
        source, target = (self.brokers.name_or(number, "") for number in (migration.source, migration.target))
        return self.subscribers.name_or(migration.subscriber, ""), source, target

    def at(self, name: str) -> int:
        u = self.subscribers.find(name)
        return NOWHERE if u is None else int(self.load.at[u])

    def join(self, name: str, broker: int, subscriptions: Iterable[int], now: float, expected: bool = True) -> bool:
        """A broker claims this subscriber. ``expected``: the coordinator has sent it there.

        False if another broker has it, and this claim does not count until that one withdraws.
        """
        ks = [self.subscriptions.number(each) for each in subscriptions]
        before, superseded = self.at(name), self._superseded.get(name, {})
        if broker in superseded:
            # Updates of a superseded claim do not make it the latest: the subscriber is leaving there.
            superseded[broker].subscriptions = ks
            return True
        claimed = before not in (NOWHERE, broker) and name not in self.in_transit
        if claimed and not expected:
            self._superseded.setdefault(name, {})[broker] = Claim(ks, now + self.unexpected_timeout)
            return False
        u = self.subscribers.number(name)
        if claimed:
            self._superseded.setdefault(name, {})[before] = Claim(self.load.rows[u].tolist(), now + OVERLAP)
        self.in_transit.discard(name)
        self.load.join(u, broker, ks)
        return True

    def leave(self, name: str, broker: int) -> bool:
        """A broker withdraws its claim. True if no other broker has a claim; the subscriber is not removed yet."""
        superseded = self._superseded.get(name, {})
        if broker in superseded:
            self._withdraw(name, broker)
        elif self.at(name) == broker and name not in self.in_transit:
            if not superseded:
                return True
            latest = next(reversed(superseded))
            claim = superseded[latest]
            self._withdraw(name, latest)
            self.load.join(self.subscribers.number(name), latest, claim.subscriptions)
        return False

    def _withdraw(self, name: str, broker: int) -> None:
        del self._superseded[name][broker]
        if not self._superseded[name]:
            del self._superseded[name]

    def remove(self, name: str) -> None:
        u = self.subscribers.find(name)
        if u is not None:
            self.load.leave(u)
            self.in_transit.discard(name)
            self.subscribers.forget(name)

    def rates(self, reported: dict[int, float], broker: int, fresh: Iterable[int] = ()) -> None:
        """If several brokers report a rate for the same subscription, the first reporter wins: it has measured longest.

        Another broker's rate counts once the first serves no subscriber with it any more. A rate that was only begun to
        be measured (``fresh``) never lowers it: otherwise a group that migrates would weigh nothing at first, and
        attract others.
        """
        if len(self.subscriptions) + len(reported) > self._max_subscriptions:
            # The next subscriber may need the rate of an unused subscription, but their number needs a limit.
            room = max(0, self._max_subscriptions - len(self.subscriptions))
            unknown = [each for each in reported if self.subscriptions.find(each) is None]
            ignored = set(unknown[room:])
            reported = {each: rate for each, rate in reported.items() if each not in ignored}
        ks = np.array([self.subscriptions.number(each) for each in reported], dtype=np.int64)
        lam = np.array(list(reported.values()))
        more = int(ks.max(initial=-1)) + 1 - len(self._rate_from)
        if more > 0:
            self._rate_from = np.append(self._rate_from, np.full(more + len(self._rate_from), NOWHERE))
        source, known = self._rate_from[ks], ks < len(self.load.lam)
        stays, begun = np.zeros(len(ks), dtype=np.bool_), set(fresh)
        early = np.array([each in begun for each in reported], dtype=np.bool_)
        others = np.flatnonzero(known & (source != NOWHERE) & (source != broker))
        lower = lam[others] < self.load.lam[ks[others]]
        stays[others] = (self.load.n[ks[others], source[others]] > 0) | (early[others] & lower)
        self.load.rates(ks[~stays], lam[~stays])
        self._rate_from[ks[~stays]] = broker
        for number in ks.tolist():
            self._idle.pop(number, None)  # a broker holds it

    def expire(self, now: float) -> None:
        """Forget BE subscriptions that have been unused for long; otherwise their number would only grow."""
        used = np.asarray(self.load.n.any(axis=1))
        self._max_subscriptions = int(used.sum()) + UNUSED
        claimed = {k for claims in self._superseded.values() for claim in claims.values() for k in claim.subscriptions}
        idle = {}
        for name in list(self.subscriptions):
            k = self.subscriptions.number(name)
            if (k < len(used) and used[k]) or k in claimed:
                continue
            since = self._idle.get(k, now)
            if now - since > IDLE:
                if k < len(used):
                    self.load.rate(k, 0.0)
                self._rate_from[k : k + 1] = NOWHERE
                self.subscriptions.forget(name)
            else:
                idle[k] = since
        self._idle = idle

    def claimed(self, broker: int) -> list[str]:
        """All subscribers that this broker claims, superseded claims included."""
        here = [self.subscribers.name(u) for u in self.load.subscribers(broker)]
        return here + [name for name, claims in self._superseded.items() if broker in claims]

    def is_superseded(self, name: str, broker: int) -> bool:
        return broker in self._superseded.get(name, {})

    def overdue(self, now: float) -> Iterator[tuple[str, int]]:
        """Superseded claims that have lasted too long; repeated after a while if nothing changes."""
        for name, claims in self._superseded.items():
            for broker, claim in claims.items():
                if now > claim.due:
                    claim.due = now + OVERLAP
                    yield name, broker

    def accepts(self, broker: int, arriving: int = 0) -> bool:
        """Whether a broker accepts one more subscriber when ``arriving`` are on their way."""
        load, subscribers = self.load, int(self.load.count[broker]) + arriving
        return int(load.status[broker]) == Status.OPEN and subscribers < int(load.max_subscribers[broker])
