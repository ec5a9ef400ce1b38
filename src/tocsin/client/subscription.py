"""The application's side of a subscription."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from tocsin.client.core.events import Consumed, UnsubscribeRequested
from tocsin.client.notification import Gap, Notification
from tocsin.errors import Conflict, TocsinError
from tocsin.wire.position import Position

if TYPE_CHECKING:
    from tocsin.client.client import Client
    from tocsin.client.core.subscription_state import SubscriptionState


class Subscription:
    """``async for`` over it gives the notifications, in order and each once. As a context manager it unsubscribes.

    A notification counts as consumed when the application asks for the next one. Only one task may iterate.
    """

    def __init__(self, client: Client, handle: int) -> None:
        self._client = client
        self._handle = handle
        self._items: deque[Notification | Gap] = deque()
        self._unconsumed: deque[Position] = deque()  # the application may still be working on these
        self._news = asyncio.Event()
        self.state: SubscriptionState | None = None
        self._ended = False
        self._error: TocsinError | None = None
        loop = asyncio.get_running_loop()
        self._confirmed: asyncio.Future[None] = loop.create_future()
        self._unsubscribed: asyncio.Future[None] = loop.create_future()

    # -- reading -------------------------------------------------------------------------------------------------------

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Notification:
        found = await self.following()
        if found is None:
            raise StopAsyncIteration
        return found

    async def get(self, timeout: float | None = None) -> Notification:
        """The next notification. Raises TimeoutError if none comes in time, Conflict after the end."""
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

    async def event(self) -> Notification | Gap | None:
        """The next notification, or a gap before it, in order. None at the end."""
        self.settle()
        while not self._items and not self._ended:
            self._news.clear()
            await self._news.wait()
        if self._items:
            item = self._items.popleft()
            if isinstance(item, Notification):
                self._unconsumed.append(item.position)
            return item
        if self._error is not None:
            raise self._error
        return None

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the broker says about a condition: that it is never true."""
        return () if self.state is None else self.state.warnings

    @property
    def channel(self) -> str:
        return self.state.channel if self.state else ""

    @property
    def id(self) -> int | None:
        """The id of the BE subscription. Keep it and the position to resume after a restart."""
        if self.state is None:
            return None
        return self.state.id if self.state.id is not None else self.state.current_id

    @property
    def position(self) -> Position | None:
        """The last execution that the application has consumed, or that had no results."""
        return self.state.consumed if self.state else None

    @property
    def pending(self) -> int:
        """Notifications that have arrived and that the application has not received yet."""
        return sum(isinstance(item, Notification) for item in self._items)

    @property
    def lag(self) -> int:
        """Executions of the channel that the broker has reported and that have not arrived yet; 0 when live."""
        return self._client.lag(self.state) if self.state else 0

    @property
    def gaps(self) -> int:
        """Number of gaps so far."""
        return self.state.gaps if self.state else 0

    async def confirmed(self) -> None:
        """Returns when every execution that starts from now on includes the subscription."""
        await asyncio.shield(self._confirmed)

    # -- unsubscribing -------------------------------------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """Ends it now, and discards what has arrived."""
        self._client.dispatch(UnsubscribeRequested(self._handle))
        self._items.clear()
        await asyncio.shield(self._unsubscribed)

    async def drain(self) -> None:
        """Unsubscribes. The application can still iterate over what has arrived until then."""
        self._client.dispatch(UnsubscribeRequested(self._handle, drain=True))
        await asyncio.shield(self._unsubscribed)

    async def __aenter__(self) -> Subscription:
        await self.confirmed()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.unsubscribe()

    # -- for the client ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """The application has finished with what it has received."""
        while self._unconsumed:
            self._client.dispatch(Consumed(self._handle, self._unconsumed.popleft()))

    def confirm(self) -> None:
        if not self._confirmed.done():
            self._confirmed.set_result(None)

    def deliver(self, item: Notification | Gap) -> None:
        self._items.append(item)
        self._news.set()

    def end(self, error: TocsinError | None) -> None:
        self._ended, self._error = True, error
        if not self._confirmed.done():
            self._confirmed.set_exception(error or Conflict("the subscription ended before it was confirmed"))
            self._confirmed.exception()  # the application need not ask
        if error is not None:
            self.unsubscribed()
        self._news.set()

    def unsubscribed(self) -> None:
        if not self._unsubscribed.done():
            self._unsubscribed.set_result(None)
