"""All subscriptions of a client; they outlive connections. Pure; part of the client's state machine.

Subscriptions with the same channel and arguments share one on the wire, and each of them gets every notification.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.client.core import events as ev
from tocsin.client.core.session import Phase, Role, Session, UnsubscribeRequest
from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.errors import TocsinError
from tocsin.wire import messages as wire
from tocsin.wire.backoff import Backoff


class Subscriptions:
    """``sessions`` are those of connections that have sent ``hello``."""

    def __init__(self, do: Callable[[ev.Instruction], None], backoff: Backoff) -> None:
        self.by_handle: dict[int, SubscriptionState] = {}
        self.sessions: list[Session] = []
        self.duplicates = 0
        self.gaps = 0
        self.full: set[int] = set()  # handles with max_pending notifications
        self.changed = False  # since the last ack
        self.executions: dict[str, int] = {}  # channel: its latest execution that a broker has reported
        self.unsent_unsubscribes: dict[int, list[int]] = {}  # id: handles, for the next connection
        self.backoff = backoff
        self._do = do

    @property
    def current(self) -> Session | None:
        return next((session for session in self.sessions if session.role is Role.CURRENT), None)

    # -- requests of the application -----------------------------------------------------------------------------------

    def subscribe(self, event: ev.SubscribeRequested) -> None:
        subscription = self.by_handle[event.handle] = SubscriptionState(event)
        if self.current is not None:
            self.current.subscribe(subscription)

    def unsubscribe(self, event: ev.UnsubscribeRequested, durable: bool) -> None:
        """``durable``: the broker keeps subscriptions without a connection, so it needs the request in any case."""
        subscription = self.by_handle.get(event.handle)
        if subscription is None or subscription.leaving:
            self._do(ev.Unsubscribed(event.handle))
            return
        session = self.current
        id = session.ids.get(subscription.handle) if session is not None else None
        if session is None or id is None or len(session.by_id[id]) > 1:
            self.end(subscription)
            if durable and subscription.id is not None and id is None:
                self.unsent_unsubscribes.setdefault(subscription.id, []).append(subscription.handle)
                if session is not None:  # its subscribe was sent: the unsubscribe follows it
                    session.release(subscription.id)
            else:
                self._do(ev.Unsubscribed(subscription.handle))
            return
        session.unsubscribe(id, [subscription.handle], subscription if event.drain else None)
        if not event.drain:
            self.end(subscription)
            return
        subscription.leaving = True
        for other in self.sessions:
            if other is not session:
                other.drop(subscription)

    def consumed(self, event: ev.Consumed) -> None:
        subscription = self.by_handle.get(event.handle)
        if subscription is not None:
            subscription.consume(event.position)
            self.changed = True
            if subscription.pending <= subscription.max_pending // 2:
                self.full.discard(subscription.handle)

    # -- connections ---------------------------------------------------------------------------------------------------

    def begin(self, session: Session) -> None:
        self.sessions.append(session)
        session.resume()

    def lost(self, session: Session, durable: bool) -> None:
        """Requests without an answer are repeated on the current connection, or on the next one."""
        if session not in self.sessions:
            return
        self.sessions.remove(session)
        if session.role is Role.JOINING:
            return
        for request in session.requests.values():
            if not isinstance(request, UnsubscribeRequest):
                continue
            if request.draining is not None:
                self.end(request.draining)
            if durable:
                self.unsent_unsubscribes.setdefault(request.id, []).extend(request.handles)
            else:
                self.unsubscribed(request.handles)
        if session.role is Role.CURRENT:
            for subscription in self.by_handle.values():
                subscription.current_id = None
        elif self.current is not None:
            self.current.resume()

    def stop(self, error: TocsinError | None) -> None:
        for session in list(self.sessions):
            self.lost(session, durable=False)
        for subscription in list(self.by_handle.values()):
            self.end(subscription, error)
        for handles in self.unsent_unsubscribes.values():
            self.unsubscribed(handles)
        self.unsent_unsubscribes.clear()

    # -- queries -------------------------------------------------------------------------------------------------------

    def lag(self, subscription: SubscriptionState) -> int:
        """Executions of the channel that the broker has reported and the client does not have yet."""
        session = self.current
        id = session.ids.get(subscription.handle) if session is not None else None
        live = session is not None and id is not None and session.phases.get(id) is Phase.LIVE
        if subscription.position is None or live:
            return 0
        return max(0, self.executions.get(subscription.channel, 0) - subscription.execution)

    # -- for the sessions ----------------------------------------------------------------------------------------------

    def confirm(self, subscription: SubscriptionState, session: Session) -> None:
        """A broker has it. The connection that the client migrates to must have it too."""
        if subscription.confirmed:
            return
        subscription.confirmed = True
        self._do(ev.Confirmed(subscription.handle))
        for other in self.sessions:
            if other is not session and other.role is not Role.LEAVING:
                other.add(subscription)

    def accept(self, subscription: SubscriptionState, message: wire.Notify) -> None:
        item = subscription.accept(message)
        if item is None:
            self.duplicates += 1
            return
        self._do(ev.Deliver(subscription.handle, item))
        if subscription.pending >= subscription.max_pending:
            self.full.add(subscription.handle)

    def skip(self, subscription: SubscriptionState, message: wire.Gap) -> None:
        item = subscription.skip(message)
        if item is not None:
            self.gaps += 1
            self._do(ev.Deliver(subscription.handle, item))

    def restart(self, subscription: SubscriptionState, message: wire.Subscribed) -> None:
        self.executions[message.channel] = message.after
        self.gaps += 1
        self._do(ev.Deliver(subscription.handle, subscription.restart(message.subscription, message.position)))

    def advance(self, subscription: SubscriptionState, execution: int) -> None:
        self.changed |= subscription.advance(execution)

    def reached(self, channel: str, execution: int) -> None:
        self.executions[channel] = max(execution, self.executions.get(channel, 0))

    def unsubscribed(self, handles: list[int]) -> None:
        for handle in handles:
            self._do(ev.Unsubscribed(handle))

    def end(self, subscription: SubscriptionState, error: TocsinError | None = None) -> None:
        if self.by_handle.pop(subscription.handle, None) is None:
            return
        self.full.discard(subscription.handle)
        for session in self.sessions:
            session.drop(subscription)
        self._do(ev.Ended(subscription.handle, error))
