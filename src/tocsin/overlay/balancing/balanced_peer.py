"""A peer of a key space and its host, as one pure machine: ``handle(event, now) -> [Send | Done]``."""

from __future__ import annotations

from random import Random
from typing import Any

from msgspec import Struct

from tocsin.balancing.host import host as hosts
from tocsin.balancing.host import messages as hm
from tocsin.balancing.strategies.antoine2014.gupta import JOIN
from tocsin.overlay.balancing.execution import Execution, executes
from tocsin.overlay.balancing.region_load import ITEMS
from tocsin.overlay.balancing.strategies import ON_INSERTION, ON_JOIN, Strategy
from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.context import Done, Send
from tocsin.overlay.keyspace.peer import Peer

#: Seconds between two attempts of an idle peer to join by its strategy.
RETRY = 5.0


class Insert(Struct, frozen=True, eq=False):
    """Stores an item of several places at the first of them, whose owner may redirect it at once."""

    call: int
    key: str
    value: Any


class Inserted(Struct, frozen=True, eq=False):
    """To the owner of the first place."""

    key: str


class BalancedPeer:
    """Load information and sessions travel as Mail, to a host or to the owner of a key.

    ``mails`` that its host has sent, and actions that were ``executed`` here.
    """

    def __init__(self, peer: Peer, strategy: Strategy, rng: Random, epoch: str = "0") -> None:
        self.peer, self.strategy, self.model = peer, strategy, strategy.model
        self.host = hosts.Host(peer.host, strategy.model, strategy.composition, rng, executes(strategy.model), epoch)
        self.execution = Execution(strategy.model)
        self.mails = self.executed = 0
        self._inserting: dict[int, str] = {}
        self._out: list[Send | Done] = []
        self._now = 0.0
        #: When an idle peer joins, if its strategy acts on that.
        self.join_at = rng.random() * RETRY

    def handle(self, event: ev.Event | Insert | hosts.Trigger, now: float) -> list[Send | Done]:
        self._out, self._now = [], now
        if isinstance(event, ev.Received) and isinstance(event.message, ms.Mail):
            self._mailed(event.source, event.message.body)
        elif isinstance(event, Insert):
            self._inserting[event.call] = event.key
            functions = self.strategy.functions
            self._keyspace(ev.PlaceChoice(event.call, self.model.ring, event.key, event.value, 0, functions))
        elif isinstance(event, hosts.Trigger):
            self._host(event)
        else:
            self._keyspace(event)
            if isinstance(event, ev.Tick):
                self._tick(now)
        return self._out

    def rest(self) -> None:
        """Begins nothing more; what has begun goes on to its end."""
        for clock in (self.host.information.clock, self.host.balancing.clock):
            clock.period = clock.due_at = float("inf")
        self.strategy.triggers = frozenset()

    def _tick(self, now: float) -> None:
        self.model.tick(now)
        # An idle peer has no neighbours to exchange load with, only names of peers at which it may join.
        self.host.neighbours = self.model.hosts if self.model.members else ()
        self._host(hosts.Tick())
        if ON_JOIN in self.strategy.triggers and self.model.idle and now >= self.join_at:
            self.join_at = now + RETRY
            self.host.neighbours = self.model.hosts
            self._host(hosts.Trigger(JOIN))

    def _keyspace(self, event: ev.Event) -> None:
        for each in self.peer.handle(event, self._now):
            if isinstance(each, Send):
                self._out.append(each)
            elif each.call < 0:
                self._command(self.execution.ended(each.call, each.body))
            elif isinstance(each.body, ms.Mail):
                self._mailed(each.body.sender, each.body.body)
            else:
                self._out.append(each)
                key = self._inserting.pop(each.call, None)
                if key is not None and isinstance(each.body, ms.Stored) and ON_INSERTION in self.strategy.triggers:
                    self._to_owner(hashed(key, 0), Inserted(key))

    def _mailed(self, sender: str, body: Any) -> None:
        if isinstance(body, Inserted):
            if self.model.holds(body.key):
                self._host(hosts.Trigger(body.key, ITEMS))
        elif isinstance(body, hm.Pull) and body.origin == sender == self.peer.host:
            # The peer itself owns the key: a random id, or its own directory.
            self._host(hosts.Received(sender, hm.Report(body.number, self.host.reported(self._now))))
        elif isinstance(body, hm.HostMessage):
            self._host(hosts.Received(sender, body))  # type: ignore[arg-type]

    def _host(self, event: hosts.Event) -> None:
        for each in self.host.handle(event, self._now):
            if isinstance(each, hosts.Execute):
                self._command(self.execution.start(each))
            elif isinstance(each.to, hm.Key):
                self._to_owner(each.to.value, each.message)
            else:
                self.mails += 1
                self._out.append(Send(each.to, ms.Mail(self.peer.host, each.message)))

    def _command(self, step: ev.Event | hosts.Executed | None) -> None:
        if isinstance(step, hosts.Executed):
            self.executed += step.ok
            self._host(step)
        elif step is not None:
            self._keyspace(step)

    def _to_owner(self, key: int, body: Any) -> None:
        self.mails += 1
        mail = ms.Mail(self.peer.host, body)
        self._keyspace(ev.Request(0, self.model.ring, self.model.point(key), mail))
