"""Connections: who may come in, what they say first, and how they leave."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from typing import Any

from tocsin.broker.core import events as ev
from tocsin.broker.core.events import Peer, Problem
from tocsin.broker.core.instructions import Authenticate, Close
from tocsin.broker.core.session import Session
from tocsin.broker.core.subscriptions import Subscriptions
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.messages import DurableSubscription

#: Clients that come back in a tenth of a second if the broker vanishes, and the seconds that this may take at most.
RETURNING, LONGEST = 100, 10.0


class Connections(Subscriptions):
    """The life of a connection. ``_requests`` says who answers which message."""

    _requests: dict[type[Any], Callable[[Session, Any], None]]

    def _opened(self, event: ev.Opened) -> None:
        address = event.address
        here = self._addresses.get(address, 0)
        if len(self.fronts) >= self.limits.connections or here >= self.limits.connections_per_address:
            what = "connections" if here < self.limits.connections_per_address else f"connections from {address}"
            self._close(event.peer, close_codes.TRY_LATER, f"too many {what}")
            return
        self._addresses[address] = here + 1
        front = self.fronts[event.peer] = Session(event.peer, address, self._now, {})
        self._greeting[event.peer] = self._now + self.config.hello_timeout
        self._beats[len(self.fronts) % len(self._beats)][event.peer] = front

    def _assumed(self, event: ev.Assumed) -> None:
        self.fronts[event.peer] = Session(event.peer, "", self._now, {}, user=event.user, greeted=True, brief=True)
        self._callers.setdefault(event.user, {})[event.peer] = None

    def _closed(self, event: ev.Closed) -> None:
        front = self.fronts.pop(event.peer, None)
        if front is None:
            return
        self._greeting.pop(front.peer, None)
        for beat in self._beats:
            if beat.pop(front.peer, None) is not None:
                break
        if front.brief:
            self._forget_caller(front)
        else:
            left = self._addresses[front.address] - 1
            if left:
                self._addresses[front.address] = left
            else:
                del self._addresses[front.address]
        if front.user is not None and self._users.get(front.user) == front.peer:
            del self._users[front.user]
        for number in front.subscriptions:
            self._detach(self.backs[number], front.peer)
        if front.subscriber and self._subscribers.get(front.subscriber) == front.peer:
            del self._subscribers[front.subscriber]
            self._touch(front)

    def _forget_caller(self, front: Session) -> None:
        assert front.user is not None
        callers = self._callers[front.user]
        del callers[front.peer]
        if not callers:
            del self._callers[front.user]

    def _close(self, peer: Peer, close: close_codes.Close, reason: str = "") -> None:
        self.counters.closes[close.code] = self.counters.closes.get(close.code, 0) + 1
        self._out.append(Close(peer, close, reason))
        self._closed(ev.Closed(peer))

    def _received(self, event: ev.Received) -> None:
        front = self.fronts.get(event.peer)
        if front is None:
            return
        front.heard = self._now
        for place, message in enumerate(event.messages):
            if front.waiting is not None:
                front.waiting += event.messages[place:]
                if len(front.waiting) > self.limits.unanswered + self.limits.subscriptions:
                    self._close(front.peer, close_codes.FLOOD, "too many requests before the welcome")
                return
            if front.greeted is isinstance(message, wire.Hello):
                reason = "hello comes once" if front.greeted else "hello comes first"
                self._close(front.peer, close_codes.NO_HELLO, reason)
                return
            self.counters.requests += 1
            self._requests[type(message)](front, message)
            if event.peer not in self.fronts:
                return

    def _unreadable(self, event: ev.Unreadable) -> None:
        front = self.fronts.get(event.peer)
        if front is None:
            return
        front.heard = self._now
        if event.id is None or not front.greeted:
            self._close(front.peer, close_codes.MALFORMED, event.problem)
        else:
            self._refuse(front, event.id, Problem("malformed", event.problem))

    def _hello(self, front: Session, message: wire.Hello) -> None:
        if message.ticket is not None:
            problem = self._refuses_ticket(message.ticket, message.subscriber or "")
            if problem is not None:
                self._close(front.peer, close_codes.BAD_TICKET, problem)
                return
        self._identify(front, message.subscriber)
        if message.token is None:
            self._welcome(front, message.id, [])
        else:
            front.waiting = [message]
            self._out.append(Authenticate(front.peer, message.token))

    def _identify(self, front: Session, name: str | None) -> None:
        """A subscriber is here once: who comes again has lost the connection that it had."""
        if name is None:
            self._strangers += 1
            name = f"{self.config.name}:{self._strangers}"
        before = self._subscribers.get(name)
        if before is not None:
            self._close(before, close_codes.REPLACED, "connected again")
        front.subscriber = name
        self._subscribers[name] = front.peer
        self._touch(front)

    def _welcome(self, front: Session, id: int, held: list[DurableSubscription]) -> None:
        front.greeted = True
        self._greeting.pop(front.peer, None)
        config = self.config
        reconnect_within = min(LONGEST, ceil(len(self.fronts) / RETURNING) / 10)
        self._send(
            front,
            wire.Welcome(
                id, config.name, config.heartbeat, self.limits.frame_bytes, front.user, held, reconnect_within
            ),
        )

    def _ping(self, front: Session, message: wire.Ping) -> None:
        self._send(front, wire.Pong())
