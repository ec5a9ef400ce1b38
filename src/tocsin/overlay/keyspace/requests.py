"""Questions to other peers: sent again while there is no answer, and over after a bounded number of attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.messages import Ask, Busy, Failed, Reply

#: Called once, with the answer and the hops to it; the answer is Failed if none came.
Answered = Callable[[Any, int], None]
#: Sends attempt ``n`` (from 0) with this id.
Attempt = Callable[[int, int], None]


class Pending(Struct, eq=False):
    attempt: Attempt
    done: Answered
    timeout: float
    attempts: int
    due: float
    tried: int = 1
    busy: bool = False


class Requests:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._pending: dict[int, Pending] = {}
        self._last = 0

    def __len__(self) -> int:
        return len(self._pending)

    def start(self, attempt: Attempt, done: Answered, timeout: float, attempts: int) -> None:
        self._last += 1
        id = self._last
        self._pending[id] = Pending(attempt, done, timeout, attempts, self._context.now + timeout)
        attempt(id, 0)

    def ask(self, host: str, ring: str, member: str, body: Any, done: Answered, *, nested: bool = False) -> None:
        """``nested``: the other one has to ask others before it can answer."""
        settings = self._context.settings

        def attempt(id: int, tried: int) -> None:
            self._context.send(host, Ask(id, ring, member, body))

        self.start(attempt, done, settings.lookup_timeout if nested else settings.timeout, settings.attempts)

    def answered(self, reply: Reply) -> None:
        pending = self._pending.get(reply.id)
        if pending is None:
            return  # a late or repeated answer
        if isinstance(reply.body, Busy):
            pending.busy = True  # the next attempt may succeed
            return
        del self._pending[reply.id]
        pending.done(reply.body, reply.hops)

    def tick(self) -> None:
        now = self._context.now
        for id, pending in [each for each in self._pending.items() if each[1].due <= now]:
            if pending.tried < pending.attempts:
                pending.due = now + pending.timeout
                pending.tried += 1
                pending.attempt(id, pending.tried - 1)
            else:
                del self._pending[id]
                pending.done(Failed("the owner was busy" if pending.busy else "no answer"), 0)
