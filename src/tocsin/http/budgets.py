"""How much of a server's connections each kind of waiting may take."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tocsin.errors import Busy
from tocsin.http.responses import error_answer

#: Connections for each kind of waiting, however few files there are.
LEAST = 64
BOUNDED = "tocsin.bounded"


def file_limit() -> int:
    """Files that connections may use; the others are for the process itself."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(4 * LEAST, files - files // 50 - LEAST)


class Budget:
    """At most ``most`` at the same time, and ``per_address`` of the same client."""

    def __init__(self, name: str, most: int, per_address: int | None = None) -> None:
        self.name, self.most = name, most
        self.per_address = most if per_address is None else per_address
        self.taken = 0
        self._by_address: Counter[str] = Counter()

    def take(self, address: str) -> None:
        if self.taken >= self.most or self._by_address[address] >= self.per_address:
            limit = self.most if self.taken >= self.most else self.per_address
            raise Busy(f"more than {limit} {self.name} at the same time", hint="try again later", limit=limit)
        self.taken += 1
        self._by_address[address] += 1

    def give_back(self, address: str) -> None:
        self.taken -= 1
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    @contextmanager
    def one(self, address: str = "") -> Iterator[None]:
        self.take(address)
        try:
            yield
        finally:
            self.give_back(address)


class BoundedApp:
    """An ASGI application that answers a limited number of requests at the same time, beside those whose body has not
    arrived yet: ``waiting`` limits these."""

    def __init__(self, app: Any, most: int, waiting: WaitingConnections) -> None:
        self.app, self.most, self.waiting = app, most, waiting
        self.running = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self.running - self.waiting.bodies >= self.most:
            refusal = Busy(f"more than {self.most} requests at the same time", hint="try again in a second")
            await error_answer(refusal)(scope, receive, send)
            return
        self.running += 1
        scope[BOUNDED] = self
        try:
            await self.app(scope, receive, send)
        finally:
            self.running -= 1


@contextmanager
def counted_elsewhere(scope: Any) -> Iterator[None]:
    """A request that waits for long, and has a budget of its own."""
    scope[BOUNDED].running -= 1
    try:
        yield
    finally:
        scope[BOUNDED].running += 1


class Abortable(Protocol):
    def abort(self) -> None: ...


class WaitingConnections:
    """Connections on which the server waits for the client: for a request, the rest of its head or its body.

    Beyond ``most``, the one that has waited longest is aborted: a valid request is complete in a moment. ``bodies``
    counts those with a request whose body has not arrived yet.
    """

    def __init__(self, most: Callable[[], int]) -> None:
        self.most = most
        self.bodies = 0
        self._oldest_first: dict[Abortable, None] = {}

    def __len__(self) -> int:
        return len(self._oldest_first)

    def add(self, connection: Abortable) -> None:
        self._oldest_first.pop(connection, None)
        self._oldest_first[connection] = None
        if len(self._oldest_first) > self.most():
            oldest = next(iter(self._oldest_first))
            del self._oldest_first[oldest]
            oldest.abort()

    def discard(self, connection: Abortable) -> None:
        self._oldest_first.pop(connection, None)
