"""A subscription as the application sees it."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from tocsin.client.core.events import Consumed, WantUnsubscribe
from tocsin.client.notification import Missed, Notification
from tocsin.errors import Conflict, TocsinError

if TYPE_CHECKING:
    from tocsin.client.client import Client
    from tocsin.client.core.subscription_state import SubscriptionState


class Subscription:
    """``async for`` over it gives the notifications, in order and each once. As a context manager it unsubscribes.

    A notification counts as consumed when the next one is asked for. One task at a time iterates.
    """

    def __init__(self, client: Client, handle: int) -> None:
        self._client = client
        self._handle = handle
        self._items: deque[Notification | Missed] = deque()
        self._taken: deque[int] = deque()  # handed out, and perhaps still being worked on
        self._news = asyncio.Event()
        self._entry: SubscriptionState | None = None
        self._ended = False
        self._error: TocsinError | None = None
        loop = asyncio.get_running_loop()
        self._confirmed: asyncio.Future[None] = loop.create_future()
        self._left: asyncio.Future[None] = loop.create_future()

    # -- what it gives -------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Notification:
        found = await self.following()
        if found is None:
            raise StopAsyncIteration
        return found

    async def get(self, timeout: float | None = None) -> Notification:
        """The next notification. TimeoutError if none comes in time, Conflict if none can come any more."""
        async with asyncio.timeout(timeout):
            found = await self.following()
        if found is None:
            raise Conflict("this subscription has ended")
        return found

    async def following(self) -> Notification | None:
        """The next notification; None at the end."""
        while True:
            item = await self.event()
            if item is None or isinstance(item, Notification):
                return item

    async def event(self) -> Notification | Missed | None:
        """The next notification, or what was missed before it, in their order. None at the end."""
        self.settle()
        while not self._items and not self._ended:
            self._news.clear()
            await self._news.wait()
        if self._items:
            item = self._items.popleft()
            if isinstance(item, Notification):
                self._taken.append(item.execution)
            return item
        if self._error is not None:
            raise self._error
        return None

    # -- how it is -----------------------------------------------------------------------------------------------------

    @property
    def channel(self) -> str:
        return self._entry.channel if self._entry else ""

    @property
    def number(self) -> int | None:
        """Of the BE subscription; with the cursor it is all that is needed to go on after a restart."""
        if self._entry is None:
            return None
        return self._entry.known if self._entry.known is not None else self._entry.number

    @property
    def cursor(self) -> int | None:
        """The last execution that the application has consumed, or that passed without results."""
        return self._entry.dealt if self._entry else None

    @property
    def pending(self) -> int:
        """Notifications that are here and were not handed out yet."""
        return sum(isinstance(item, Notification) for item in self._items)

    @property
    def lag(self) -> int:
        """Executions of the channel between what has arrived and what the broker said there is; 0 when live."""
        return self._client.lag(self._entry) if self._entry else 0

    @property
    def gaps(self) -> int:
        """How often something was lost for good."""
        return self._entry.gaps if self._entry else 0

    async def confirmed(self) -> None:
        """Returns when every execution from now on is certain to see the subscription."""
        await asyncio.shield(self._confirmed)

    # -- leaving -------------------------------------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """Ends it now: what has arrived and was not consumed is thrown away."""
        self._client.dispatch(WantUnsubscribe(self._handle))
        self._items.clear()
        await asyncio.shield(self._left)

    async def drain(self) -> None:
        """Unsubscribes. What has arrived until then can still be iterated over, and then it ends."""
        self._client.dispatch(WantUnsubscribe(self._handle, drain=True))
        await asyncio.shield(self._left)

    async def __aenter__(self) -> Subscription:
        await self.confirmed()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unsubscribe()

    # -- for the client ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """What was handed out has been dealt with."""
        while self._taken:
            self._client.dispatch(Consumed(self._handle, self._taken.popleft()))

    def attach(self, entry: SubscriptionState) -> None:
        self._entry = entry

    def confirm(self) -> None:
        if not self._confirmed.done():
            self._confirmed.set_result(None)

    def deliver(self, item: Notification | Missed) -> None:
        self._items.append(item)
        self._news.set()

    def end(self, error: TocsinError | None) -> None:
        self._ended, self._error = True, error
        if not self._confirmed.done():
            self._confirmed.set_exception(error or Conflict("it was ended before it was confirmed"))
            self._confirmed.exception()  # perhaps nobody asks: that is no mistake
        if error is not None:
            self.leave()
        self._news.set()

    def leave(self) -> None:
        if not self._left.done():
            self._left.set_result(None)
