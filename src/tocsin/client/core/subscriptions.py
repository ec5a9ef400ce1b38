"""All subscriptions of a client, whatever connections come and go. Pure; part of the client's state machine.

Subscriptions with the same channel and arguments share one on the wire, and each of them gets every notification.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.client.core import events as ev
from tocsin.client.core.session import Leaving, Phase, Role, Session
from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.errors import TocsinError
from tocsin.wire import messages as wire
from tocsin.wire.backoff import Backoff


class Subscriptions:
    """``sessions`` are the connections on which hello was said."""

    def __init__(self, do: Callable[[ev.Instruction], None], backoff: Backoff) -> None:
        self.entries: dict[int, SubscriptionState] = {}
        self.sessions: list[Session] = []
        self.duplicates = 0
        self.gaps = 0
        self.full: set[int] = set()  # handles with as much as the application can take
        self.changed = False  # since the last ack
        self.positions: dict[str, int] = {}
        self.farewells: dict[int, list[int]] = {}  # to be said on the next connection, with those who wait for it
        self.backoff = backoff
        self._do = do

    @property
    def current(self) -> Session | None:
        return next((session for session in self.sessions if session.role is Role.CURRENT), None)

    # -- what the application wants ------------------------------------------------------------------------------------

    def want(self, event: ev.WantSubscribe) -> None:
        entry = self.entries[event.handle] = SubscriptionState(event)
        if self.current is not None:
            self.current.want(entry)

    def leave(self, event: ev.WantUnsubscribe, kept: bool) -> None:
        """``kept``: the broker keeps subscriptions without a connection, so that it has to be told in any case."""
        entry = self.entries.get(event.handle)
        if entry is None or entry.leaving:
            self._do(ev.Left(event.handle))
            return
        session = self.current
        number = session.places.get(entry.handle) if session is not None else None
        if session is None or number is None or len(session.numbers[number]) > 1:
            self.end(entry)
            if kept and entry.known is not None and number is None:
                self.farewells.setdefault(entry.known, []).append(entry.handle)
                if session is not None:  # its own subscribe is on its way: the goodbye goes behind it
                    session.part(entry.known)
            else:
                self._do(ev.Left(entry.handle))
            return
        session.unsubscribe(number, [entry.handle], entry if event.drain else None)
        if not event.drain:
            self.end(entry)
            return
        entry.leaving = True
        for other in self.sessions:
            if other is not session:
                other.drop(entry)

    def consumed(self, event: ev.Consumed) -> None:
        entry = self.entries.get(event.handle)
        if entry is not None:
            entry.consume(event.execution)
            self.changed = True
            if entry.pending <= entry.max_pending // 2:
                self.full.discard(entry.handle)

    # -- connections ---------------------------------------------------------------------------------------------------

    def begin(self, session: Session) -> None:
        self.sessions.append(session)
        session.resume()

    def lost(self, session: Session, kept: bool) -> None:
        """What was asked there is asked on the current connection, or on the next one."""
        if session not in self.sessions:
            return
        self.sessions.remove(session)
        if session.role is Role.JOINING:
            return
        for request in session.requests.values():
            if not isinstance(request, Leaving):
                continue
            if request.entry is not None:
                self.end(request.entry)
            if kept:
                self.farewells.setdefault(request.number, []).extend(request.handles)
            else:
                self.left(request.handles)
        if session.role is Role.CURRENT:
            for entry in self.entries.values():
                entry.number = None
        elif self.current is not None:
            self.current.resume()

    def stop(self, error: TocsinError | None) -> None:
        for session in list(self.sessions):
            self.lost(session, kept=False)
        for entry in list(self.entries.values()):
            self.end(entry, error)
        for handles in self.farewells.values():
            self.left(handles)
        self.farewells.clear()

    # -- what can be asked ---------------------------------------------------------------------------------------------

    def lag(self, entry: SubscriptionState) -> int:
        """Executions of the channel that it may still get and that have happened."""
        session = self.current
        number = session.places.get(entry.handle) if session is not None else None
        live = session is not None and number is not None and session.phases.get(number) is Phase.LIVE
        if entry.cursor is None or live:
            return 0
        return max(0, self.positions.get(entry.channel, 0) - entry.cursor)

    # -- for the sessions ----------------------------------------------------------------------------------------------

    def confirm(self, entry: SubscriptionState, session: Session) -> None:
        """A broker has it. What one connection has, the one that comes after it must have too."""
        if entry.confirmed:
            return
        entry.confirmed = True
        self._do(ev.Confirmed(entry.handle))
        for other in self.sessions:
            if other is not session and other.role is not Role.LEAVING:
                other.add(entry)

    def take(self, entry: SubscriptionState, message: wire.Notify) -> None:
        item = entry.take(message)
        if item is None:
            self.duplicates += 1
            return
        self._do(ev.Deliver(entry.handle, item))
        if entry.pending >= entry.max_pending:
            self.full.add(entry.handle)

    def skip(self, entry: SubscriptionState, message: wire.Gap) -> None:
        item = entry.skip(message)
        if item is not None:
            self.gaps += 1
            self._do(ev.Deliver(entry.handle, item))

    def begin_anew(self, entry: SubscriptionState, message: wire.Subscribed) -> None:
        self.positions[message.channel] = message.after
        self.gaps += 1
        self._do(ev.Deliver(entry.handle, entry.begin_anew(message.subscription, message.after, message.epoch)))

    def reach(self, entry: SubscriptionState, execution: int) -> None:
        self.changed |= entry.reach(execution)

    def position(self, channel: str, execution: int) -> None:
        self.positions[channel] = max(execution, self.positions.get(channel, 0))

    def left(self, handles: list[int]) -> None:
        for handle in handles:
            self._do(ev.Left(handle))

    def end(self, entry: SubscriptionState, error: TocsinError | None = None) -> None:
        if self.entries.pop(entry.handle, None) is None:
            return
        self.full.discard(entry.handle)
        for session in self.sessions:
            session.drop(entry)
        self._do(ev.Ended(entry.handle, error))
