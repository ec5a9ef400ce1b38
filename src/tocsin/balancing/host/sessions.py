"""Two-sided sessions: a request, an acceptance or a refusal, the execution, and the end. Every session ends.

Either side ends a session at its deadline without the other. A peer that lies, repeats itself or answers late changes
nothing: a message counts only from the partner of an open session, and only in the state that expects it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

from tocsin.balancing.host.actions import AnyAction, Peer, Unit

#: Sessions that have ended and whose number is remembered, so that a repeated request does not open them again.
ENDED = 10_000
#: Seconds after which an execution of which the driver reports nothing is given up.
UNREPORTED = 3_600.0


class SessionState(Enum):
    REQUESTED = "requested"
    EXECUTING = "executing"  # here
    WAITING = "waiting"  # the partner executes
    LATE = "late"  # executing here, and the partner has been notified that it takes too long, or is gone


@dataclass
class Session:
    """``opened_here``: this host sent the request. ``done``: positions of the executed actions."""

    number: str
    criterion: str
    partner: Peer
    actions: tuple[AnyAction, ...]
    state: SessionState
    deadline: float
    opened_here: bool
    done: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)

    @property
    def settled(self) -> bool:
        """Every action has ended."""
        return len(self.done) + len(self.failed) == len(self.actions)

    @property
    def undone(self) -> list[AnyAction]:
        return [action for position, action in enumerate(self.actions) if position not in self.done]

    @property
    def units(self) -> Iterator[Unit]:
        return (unit for action in self.actions for unit in action.units)


class Sessions:
    """All open sessions of a host. ``timeout``: seconds for each step."""

    def __init__(self, peer: Peer, timeout: float = 30.0) -> None:
        self.peer, self.timeout = peer, timeout
        self._open: dict[str, Session] = {}
        self._ended: dict[str, Session | None] = {}
        self._counter = 0

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._open.values()))

    def get(self, number: str, partner: Peer) -> Session | None:
        session = self._open.get(number)
        return session if session is not None and session.partner == partner else None

    def executing(self, number: str) -> Session | None:
        """For results of the host's own driver."""
        session = self._open.get(number)
        return session if session is not None and session.state in (SessionState.EXECUTING, SessionState.LATE) else None

    def busy(self, unit: Unit) -> bool:
        """A unit takes part in one session at a time."""
        return any(unit in session.units for session in self._open.values())

    def arriving(self, criterion: str) -> float:
        """The load that open sessions bring to this peer."""
        arriving = (
            action.load
            for session in self._open.values()
            if session.criterion == criterion
            for action in session.actions
            if action.target == self.peer
        )
        return sum(arriving)

    def knows(self, number: str) -> bool:
        return number in self._open or number in self._ended

    def result(self, number: str, partner: Peer) -> tuple[int, ...]:
        """What was executed in a session that has ended."""
        session = self._ended.get(number)
        return tuple(sorted(session.done)) if session is not None and session.partner == partner else ()

    def open(self, partner: Peer, criterion: str, actions: tuple[AnyAction, ...], now: float, epoch: str) -> Session:
        """``epoch`` differs after each restart of the host, so that numbers never repeat."""
        self._counter += 1
        number = f"{self.peer}/{epoch}/{self._counter}"
        return self._add(number, partner, criterion, actions, SessionState.REQUESTED, now, opened_here=True)

    def join(
        self,
        number: str,
        partner: Peer,
        criterion: str,
        actions: tuple[AnyAction, ...],
        state: SessionState,
        now: float,
    ) -> Session:
        """Accept a session that the partner opened."""
        return self._add(number, partner, criterion, actions, state, now, opened_here=False)

    def _add(
        self,
        number: str,
        partner: Peer,
        criterion: str,
        actions: tuple[AnyAction, ...],
        state: SessionState,
        now: float,
        *,
        opened_here: bool,
    ) -> Session:
        session = Session(number, criterion, partner, actions, state, now + self.timeout, opened_here)
        self._open[number] = session
        return session

    def advance(self, session: Session, state: SessionState, now: float) -> None:
        seconds = UNREPORTED if state is SessionState.LATE else self.timeout
        session.state, session.deadline = state, now + seconds

    def end(self, session: Session) -> None:
        if self._open.pop(session.number, None) is not None:
            self._remember(session.number, session)

    def void(self, number: str) -> None:
        """The partner has ended a session whose request has not arrived here: it may come later."""
        if not self.knows(number):
            self._remember(number, None)

    def _remember(self, number: str, session: Session | None) -> None:
        self._ended[number] = session
        if len(self._ended) > ENDED:
            del self._ended[next(iter(self._ended))]

    def late(self, now: float) -> list[Session]:
        """Those whose deadline has passed."""
        return [session for session in self._open.values() if now >= session.deadline]

    def next_deadline(self) -> float:
        return min((session.deadline for session in self._open.values()), default=float("inf"))
