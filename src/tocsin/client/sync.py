"""The client without ``async``: a thread runs the event loop, and every call waits for it.

``Client`` and ``Subscription`` deliberately have the names of the asynchronous ones: only the import changes.

with connect("http://127.0.0.1:8481") as c:
    for notification in c.subscribe("EmergenciesOfType", kind="fire"):
        print(notification.results)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from tocsin.client import client as shell
from tocsin.client.notification import Gap, Notification, Receipt, Status
from tocsin.client.subscription import Subscription as Inner
from tocsin.errors import Conflict
from tocsin.wire.feed_name import ALL
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.position import Position

T = TypeVar("T")


def connect(urls: str | Sequence[str] = (), **options: Any) -> Client:
    """Takes the arguments of ``tocsin.client.connect``."""
    return Client(shell.connect(urls, **options))


class Loop:
    """An event loop in a daemon thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tocsin client", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        if not self._thread.is_alive():
            work.close()
            raise Conflict("this client is closed")
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C: the caller no longer waits
            raise

    def stop(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class Client:
    """May be used from several threads."""

    def __init__(self, inner: shell.Client) -> None:
        self._inner = inner
        self._loop = Loop()

    def __enter__(self) -> Client:
        try:
            self._loop.run(self._inner.__aenter__())
        except BaseException:
            self._loop.stop()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            self._loop.run(self._inner.__aexit__(kind, *rest))
        finally:
            self._loop.stop()

    def subscribe(
        self, channel: str, args: Sequence[Any] | Mapping[str, Any] | None = None, /, **parameters: Any
    ) -> Subscription:
        async def work() -> Inner:
            return self._inner.subscribe(channel, args, **parameters)

        return Subscription(self._loop, self._loop.run(work()))

    def subscribe_feed(self, feed: str, where: str = ALL, **options: Any) -> Subscription:
        async def work() -> Inner:
            return self._inner.subscribe_feed(feed, where, **options)

        return Subscription(self._loop, self._loop.run(work()))

    def publish(self, feed: str, records: Any, *, retry: bool = False) -> Receipt:
        return self._loop.run(self._inner.publish(feed, records, retry=retry))

    @property
    def status(self) -> Status:
        return self._inner.status

    @property
    def durable_subscriptions(self) -> list[DurableSubscription]:
        return self._inner.durable_subscriptions

    @property
    def subscriber(self) -> str:
        return self._inner.subscriber

    @property
    def token(self) -> str | None:
        return self._inner.token

    def drain(self) -> None:
        self._loop.run(self._inner.drain())

    def close(self) -> None:
        """Leaving the ``with`` block closes it too, and ends the thread."""
        self._loop.run(self._inner.close())


class Subscription:
    """Iterating over it gives the notifications; as a context manager it unsubscribes."""

    def __init__(self, loop: Loop, inner: Inner) -> None:
        self._loop = loop
        self._inner = inner

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Notification:
        found = self._loop.run(self._inner.following())
        if found is None:
            raise StopIteration
        return found

    def get(self, timeout: float | None = None) -> Notification:
        """The next notification. TimeoutError if none comes in time."""
        return self._loop.run(self._inner.get(timeout))

    def event(self) -> Notification | Gap | None:
        return self._loop.run(self._inner.event())

    def confirmed(self) -> None:
        self._loop.run(self._inner.confirmed())

    def unsubscribe(self) -> None:
        self._loop.run(self._inner.unsubscribe())

    def drain(self) -> None:
        self._loop.run(self._inner.drain())

    def __enter__(self) -> Subscription:
        self.confirmed()
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    @property
    def channel(self) -> str:
        return self._inner.channel

    @property
    def id(self) -> int | None:
        return self._inner.id

    @property
    def position(self) -> Position | None:
        return self._inner.position

    @property
    def pending(self) -> int:
        return self._inner.pending

    @property
    def lag(self) -> int:
        return self._inner.lag

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._inner.warnings

    @property
    def gaps(self) -> int:
        return self._inner.gaps
