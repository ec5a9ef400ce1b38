"""The overlay manager of a head (HOM): the mediator of its edges' balancings, as a pure machine.

All messages of its edges pass here. It asks candidates on behalf of an overloaded broker, knows who is in a
balancing phase and refuses a second one, counts the clients that have confirmed their migration, and ends every phase.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from itertools import count

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import Peer
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.strategies.tao2013.broker_report import candidate_tables
from tocsin.balancing.strategies.tao2013.load_status import Thresholds

#: In an answer: the number of clusters that were asked besides the own one.
DOMAINS = "domains"
#: Inquiries that are open at the same time; more would only be a flood.
INQUIRIES = 64


@dataclass(frozen=True)
class Forward:
    sender: Peer
    to: Peer
    message: ms.Message


@dataclass
class Inquiry:
    """Candidates that were asked for an overloaded broker. ``domains``: other clusters among them; -1 if not asked."""

    requester: Peer
    number: int
    until: float
    unanswered: set[int] = field(default_factory=set)
    answers: list[LoadInformation] = field(default_factory=list)
    domains: int = -1


@dataclass
class Phase:
    """A balancing between two brokers. ``unconfirmed``: clients that have not completed their migration."""

    source: Peer
    target: Peer
    until: float
    unconfirmed: set[str] = field(default_factory=set)


class Mediator:
    """``edges``: of this head, ``heads``: the others. ``timeout``: seconds of a phase; ``locating``: of an inquiry."""

    def __init__(
        self,
        head: Peer,
        edges: Callable[[], Collection[Peer]],
        heads: Callable[[], Collection[Peer]] = tuple,
        *,
        limits: Thresholds | None = None,
        timeout: float = 30.0,
        locating: float = 1.0,
    ) -> None:
        self.head, self.edges, self.heads = head, edges, heads
        self.limits, self.timeout, self.locating = limits or Thresholds(), timeout, locating
        self.phases: dict[str, Phase] = {}
        self._reports: dict[Peer, tuple[LoadInformation, ...]] = {}
        self._inquiries: dict[int, Inquiry] = {}
        self._numbers = count(1)

    def handle(self, sender: Peer, to: Peer, message: ms.Message, now: float) -> list[Forward]:
        """A message of an edge, or of another head for an edge or for this one."""
        if to == self.head:
            return self._own(sender, message, now)
        match message:
            case ms.Request(session):
                busy = self._busy(sender, to)
                if busy is not None:
                    reason = f"{busy} is in a balancing phase"
                    return [Forward(to, sender, ms.Decline(session, reason))]
                self.phases[session] = Phase(sender, to, now + self.timeout)
            case ms.Decline(session) | ms.Done(session):
                self.phases.pop(session, None)
        return [Forward(sender, to, message)]

    def _own(self, sender: Peer, message: ms.Message, now: float) -> list[Forward]:
        match message:
            case ms.Push(information) if sender in self.edges():
                self._reports[sender] = tuple(each for each in information if each.peer == sender)
            case ms.Pull(number, origin, ttl):
                return self._locate(sender, origin, number, now, everywhere=ttl > 0 and sender in self.edges())
            case ms.Report(number, information):
                return self._reported(number, information)
        return []

    # Step 1.

    def _locate(self, sender: Peer, origin: Peer, number: int, now: float, *, everywhere: bool) -> list[Forward]:
        if len(self._inquiries) >= INQUIRIES:
            return []
        inquiry = Inquiry(sender, number, now + self.locating)
        asked = [each for each in self.candidates() if each != origin]
        if everywhere:
            inquiry.domains = len(others := sorted(self.heads()))
            asked += others
        out = []
        for each in asked:
            mine = next(self._numbers)
            inquiry.unanswered.add(mine)
            self._inquiries[mine] = inquiry
            out.append(Forward(self.head, each, ms.Pull(mine, self.head)))
        return out or [self._answer(inquiry)]

    def candidates(self) -> list[Peer]:
        """Edges that last reported status LOW and are in no balancing phase."""
        involved = {peer for phase in self.phases.values() for peer in (phase.source, phase.target)}
        reports = [each for peer in self.edges() if peer not in involved for each in self._reports.get(peer, ())]
        return sorted(candidate_tables(reports, self.limits))

    def _reported(self, number: int, information: Iterable[LoadInformation]) -> list[Forward]:
        inquiry = self._inquiries.pop(number, None)
        if inquiry is None:
            return []
        inquiry.unanswered.discard(number)
        inquiry.answers += information
        return [] if inquiry.unanswered else [self._answer(inquiry)]

    def _answer(self, inquiry: Inquiry) -> Forward:
        marks = [] if inquiry.domains < 0 else [LoadInformation(self.head, DOMAINS, float(inquiry.domains))]
        return Forward(self.head, inquiry.requester, ms.Report(inquiry.number, (*inquiry.answers, *marks)))

    # Steps 2 and 3.

    def _busy(self, *peers: Peer) -> Peer | None:
        involved = {each for phase in self.phases.values() for each in (phase.source, phase.target)}
        return next((peer for peer in peers if peer in involved), None)

    def ordered(self, session: str, clients: Iterable[str]) -> None:
        """These clients have been asked to exchange their messages at the target from now on."""
        if session in self.phases:
            self.phases[session].unconfirmed = set(clients)

    def confirmed(self, session: str, client: str) -> bool:
        """Whether this was the last one that was missing."""
        phase = self.phases.get(session)
        if phase is None or client not in phase.unconfirmed:
            return False
        phase.unconfirmed.discard(client)
        return not phase.unconfirmed

    # Time-outs.

    def tick(self, now: float) -> list[Forward]:
        out = []
        late = {id(each): each for each in self._inquiries.values() if each.until <= now}
        for inquiry in late.values():
            for number in inquiry.unanswered:
                del self._inquiries[number]
            out.append(self._answer(inquiry))
        for session, phase in list(self.phases.items()):
            if phase.until <= now:
                del self.phases[session]
                ended = ms.Done(session, (), "the balancing phase has timed out")
                out += [Forward(phase.target, phase.source, ended), Forward(phase.source, phase.target, ended)]
        return out
