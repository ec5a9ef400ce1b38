"""What all parts of the coordinator's state machine share."""

from __future__ import annotations

import hmac
import random
from collections.abc import Callable

from tocsin.balancing import placement
from tocsin.balancing.balancer import Balancer
from tocsin.balancing.decisions import Limits
from tocsin.balancing.model.interner import Interner
from tocsin.balancing.regroup_gate import Waiting
from tocsin.config import CoordinatorConfig
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Instruction, Refuse
from tocsin.coordinator.core.members import Member, Transfer
from tocsin.coordinator.core.network_model import NetworkModel
from tocsin.coordinator.core.strategy_chain import stages
from tocsin.errors import NotFound, Unauthorized
from tocsin.wire.tickets import Ticket, key_for, sign

#: Seconds after the end of a ticket until which its subscriber may be seen: clocks differ, and a report takes a while.
GRACE = 60.0


class Core:
    """``wall`` is the time that tickets are dated by, ``nonce`` makes them unlike; both are the driver's.

    ``apart``: plans take long, and the driver works them out somewhere else (Ponder, Pondered) while this goes on.
    """

    def __init__(
        self,
        config: CoordinatorConfig,
        secret: bytes,
        rng: random.Random,
        wall: Callable[[], float],
        nonce: Callable[[], str],
        *,
        apart: bool = False,
    ) -> None:
        self.config = config
        self.secret = secret
        self.wall = wall
        self.nonce = nonce
        self.apart = apart
        self.picture = NetworkModel()
        self.load = self.picture.load
        self.members: dict[str, Member] = {}
        self.rng = rng
        self.placement = placement.make(config.placement)
        limits = config.limits
        self.balancer = Balancer(
            self.load,
            stages(config),
            Limits(limits.moves, limits.per_broker, limits.cool_down, limits.least_gain),
        )
        #: The moves that are planned or under way, the same ones as the balancer's pending.
        self.transfers: dict[str, Transfer] = {}
        self._by_ticket: dict[str, Transfer] = {}
        self._numbers: Interner[str] = Interner()
        self._by_number: dict[int, Member] = {}
        self._started: float | None = None
        self._ticked: float | None = None
        self._tidied = 0.0
        #: Which brokers a ticket was written for, for each subscriber, and until when it may be seen there.
        self._expected: dict[str, dict[int, float]] = {}
        self._lag = 0.0  # seconds by which ticks come late, the worst of the last ones
        self._balanced = float("-inf")
        self._word = Waiting.NONE  # how it stood at the last look with what only pays in the long run
        self._questions = 0
        #: The numbers of the questions that are being worked on: for the balance, and for those who want to look.
        self._asked: int | None = None
        self._looked: int | None = None
        self._lookers: list[ev.Call] = []
        self._out: list[Instruction] = []
        self._now = 0.0

    def _known(self, call: ev.Call, name: str) -> Member | None:
        member = self.members.get(name)
        if member is None:
            there = ", ".join(sorted(self.members)) or "none"
            self._out.append(Refuse(call, NotFound("broker", name, hint=f"there are: {there}")))
        return member

    def _authentic(self, call: ev.Call, broker: str, token: str) -> Member | None:
        """Only a broker itself speaks for it."""
        member = self.members.get(broker)
        if member is None or not member.token or not hmac.compare_digest(token.encode(), member.token.encode()):
            self._out.append(Refuse(call, Unauthorized("register first", hint="POST /registerbroker")))
            return None
        return member

    def _ticket(self, subscriber: str, member: Member, seconds: float) -> str:
        """From now on the broker may say that it has this subscriber, as long as the ticket is good."""
        self._expected.setdefault(subscriber, {})[member.number] = self._now + seconds + GRACE
        ticket = Ticket(subscriber, member.name, self.wall() + seconds, self.nonce())
        return sign(ticket, key_for(self.secret, member.name, member.boot))

    def _sent(self, subscriber: str, member: Member) -> bool:
        return self._expected.get(subscriber, {}).get(member.number, -1.0) >= self._now

    def _missed(self, member: Member) -> bool:
        return member.missed(self._now, self.config.interval, self._lag)

    def _expect_no_more(self) -> None:
        """Tickets that have expired."""
        for name, brokers in list(self._expected.items()):
            if max(brokers.values()) < self._now:
                del self._expected[name]
