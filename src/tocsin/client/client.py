"""The client on asyncio: a thin shell that does what the state machine says."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from itertools import count
from random import Random
from typing import Any

import msgspec

from tocsin import __version__
from tocsin.client.addresses import Address, address
from tocsin.client.connection import Connection
from tocsin.client.core import events as ev
from tocsin.client.core.state import ClientState
from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.client.login import Credentials, login
from tocsin.client.notification import Receipt, Status
from tocsin.client.placement import request_broker
from tocsin.client.subscription import Subscription
from tocsin.errors import Malformed, TocsinError, UserError
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.reports import BrokerRequest

#: Notifications that may wait for the application before the client reads no further.
MAX_PENDING = 1_000
#: Seconds for a polite end.
GOODBYE = 3.0

_SUBSCRIBER = re.compile("[A-Za-z0-9_-]{8,64}")
_encoder = msgspec.json.Encoder(decimal_format="number")


def connect(
    urls: str | Sequence[str] = (),
    *,
    coordinator: str | None = None,
    location: tuple[float, float] | None = None,
    subscriber: str | None = None,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    device: str | None = None,
    patient: bool = False,
    agent: str = f"tocsin-python/{__version__}",
    random: Random | None = None,
) -> Client:
    """A client of one broker, or of the first of several that answers: ``async with connect(url) as c:``.

    With a ``coordinator``, that one says which broker to go to, near ``location`` (latitude and longitude) if it places
    by nearness; ``urls`` are then for when it does not answer. ``subscriber`` is who the client is on whichever broker:
    give the same again after a restart, or let it be made up.

    With ``user`` and ``password`` it logs in first, and again when its token has expired. ``patient`` waits for a
    broker that is not there yet; without it, a broker that was never there is an Unreachable error. Once connected, the
    client comes back by itself after any break.
    """
    if (user is None) != (password is None):
        raise UserError("user and password go together")
    credentials = None if user is None or password is None else Credentials(user, password, device)
    places = [address(url) for url in ([urls] if isinstance(urls, str) else urls)]
    if not places and coordinator is None:
        raise UserError("there is no address of a broker")
    if subscriber is not None and _SUBSCRIBER.fullmatch(subscriber) is None:
        raise UserError(f"{subscriber!r} is no id of a subscriber", hint="8 to 64 letters, digits, - and _")
    return Client(
        places,
        credentials,
        token,
        coordinator=None if coordinator is None else address(coordinator).http,
        location=location,
        subscriber=subscriber,
        patient=patient,
        agent=agent,
        random=random or Random(),
    )


class Client:
    """Made by ``connect``. All methods belong to the loop that opened it."""

    def __init__(
        self,
        places: Sequence[Address],
        credentials: Credentials | None,
        token: str | None,
        *,
        coordinator: str | None,
        location: tuple[float, float] | None,
        subscriber: str | None,
        patient: bool,
        agent: str,
        random: Random,
    ) -> None:
        self._credentials = credentials
        self._coordinator = coordinator
        self._location = location or (None, None)
        self._agent = agent
        self._state = ClientState(
            list(dict.fromkeys(place.http for place in places)),
            random,
            token=token,
            login=credentials is not None,
            agent=agent,
            patient=patient,
            subscriber=subscriber,
            coordinator=coordinator is not None,
        )
        self._subscriptions: dict[int, Subscription] = {}
        self._requests: dict[int, asyncio.Future[Receipt]] = {}
        self._numbers = count(1)
        self._connections: dict[int, Connection] = {}
        self._asking: asyncio.Task[None] | None = None  # for a token or a broker
        self._timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] | None = None

    # -- beginning and end ---------------------------------------------------------------------------------------------

    async def open(self) -> Client:
        """Returns when a broker has welcomed the client."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self.dispatch(ev.Open())
        await asyncio.shield(self._opened)
        return self

    async def close(self) -> None:
        """Ends all subscriptions and leaves. What was handed out counts as consumed.

        A user's subscriptions stay with the broker, so that the next client of this user can go on with them.
        """
        for subscription in list(self._subscriptions.values()):
            subscription.settle()
        await self._leave()

    async def drain(self) -> None:
        """Unsubscribes from everything, waits for all answers, and closes. What has arrived can still be had."""
        await asyncio.gather(*(subscription.drain() for subscription in list(self._subscriptions.values())))
        await asyncio.gather(*self._requests.values(), return_exceptions=True)
        await self.close()

    async def _leave(self) -> None:
        self.dispatch(ev.WantClose())
        if self._asking is not None:
            self._asking.cancel()
        tasks = [connection.task for connection in self._connections.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=GOODBYE)
            for task in late:
                task.cancel()

    async def __aenter__(self) -> Client:
        try:
            return await self.open()
        except BaseException:
            await self._leave()
            raise

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.close()
        else:
            await self._leave()  # what was being worked on was not finished

    # -- what it can do ------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        channel: str,
        args: Sequence[Any] | Mapping[str, Any] | None = None,
        /,
        *,
        after: int | None = None,
        subscription: int | None = None,
        max_pending: int = MAX_PENDING,
        **parameters: Any,
    ) -> Subscription:
        """Arguments in the order of the channel's parameters, or by name. Without ``after`` it begins now.

        ``after`` (and ``subscription``, if known) are ``cursor`` and ``number`` of an earlier life of it.
        """
        if args is not None and parameters:
            raise UserError("give the arguments as a list, as a mapping or by name, not in two ways")
        given: ev.Args = parameters
        if isinstance(args, Mapping):
            given = dict(args)
        elif args is not None:
            given = list(args)
        try:
            plain = msgspec.to_builtins(given)
        except (TypeError, ValueError, RecursionError) as error:
            raise Malformed(f"an argument cannot be written as JSON: {error}") from error
        if max_pending < 1:
            raise UserError("max_pending is at least 1")
        handle = next(self._numbers)
        found = self._subscriptions[handle] = Subscription(self, handle)
        self.dispatch(ev.WantSubscribe(handle, channel, plain, after, subscription, max_pending))
        entry = self._state.subscriptions.entries.get(handle)
        if entry is not None:
            found.attach(entry)
        return found

    async def publish(self, feed: str, records: Any, *, retry: bool = False) -> Receipt:
        """One record (a mapping) or a list of them; returns when those that fit are durable.

        If the connection breaks before the answer, it is Uncertain whether they were stored. With ``retry`` they are
        sent again instead: for records with a key, where the second time does no harm. A call that is cancelled sends
        no more; what was sent before may be stored.
        """
        several = records if isinstance(records, list | tuple) else [records]
        try:
            encoded = [_encoder.encode(record) for record in several]
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
            raise Malformed(f"a record cannot be written as JSON: {error}") from error
        request = next(self._numbers)
        answer: asyncio.Future[Receipt] = asyncio.get_running_loop().create_future()
        self._requests[request] = answer
        try:
            self.dispatch(ev.WantPublish(request, feed, encoded, retry))
            return await answer
        except asyncio.CancelledError:
            self.dispatch(ev.Withdraw(request))
            raise
        finally:
            self._requests.pop(request, None)

    @property
    def status(self) -> Status:
        return self._state.status

    @property
    def held(self) -> list[DurableSubscription]:
        """What the broker keeps for the user, as of the last welcome: subscriptions, and how far they were."""
        return list(self._state.welcome.subscriptions) if self._state.welcome is not None else []

    @property
    def subscriber(self) -> str:
        """Who the client is, on whichever broker."""
        return self._state.subscriber

    @property
    def token(self) -> str | None:
        return self._state.token

    def lag(self, entry: SubscriptionState) -> int:
        return self._state.subscriptions.lag(entry)

    # -- doing what the state machine says -----------------------------------------------------------------------------

    def dispatch(self, event: ev.Event) -> None:
        for instruction in self._state.handle(event, asyncio.get_running_loop().time()):
            self._do(instruction)

    def _do(self, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.Deliver(handle, item):
                self._subscriptions[handle].deliver(item)
            case ev.Send(connection, messages):
                self._connections[connection].send(messages)
            case ev.SetTimer(at):
                if self._timer is not None:
                    self._timer.cancel()
                self._timer = asyncio.get_running_loop().call_at(at, self.dispatch, ev.Timer())
            case ev.Connect(connection, url):
                self._connect(connection, url)
            case ev.Close(connection, code):
                if connection in self._connections:
                    self._connections[connection].close(code)
            case ev.Login(url):
                self._asking = asyncio.create_task(self._login(url), name="tocsin login")
            case ev.Ask(request, avoid):
                self._asking = asyncio.create_task(self._ask(request, avoid), name="tocsin placement")
            case ev.Pause(connection):
                if connection in self._connections:
                    self._connections[connection].pause()
            case ev.Resume(connection):
                if connection in self._connections:
                    self._connections[connection].resume()
            case ev.Confirmed(handle):
                self._subscriptions[handle].confirm()
            case ev.Ended(handle, error):
                self._subscriptions[handle].end(error)
                if error is not None:
                    del self._subscriptions[handle]
            case ev.Left(handle):
                if handle in self._subscriptions:
                    self._subscriptions.pop(handle).leave()
            case ev.Resolve(request, receipt):
                self._answer(request, receipt)
            case ev.Reject(request, error):
                self._answer(request, error)
            case ev.Opened():
                assert self._opened is not None
                if not self._opened.done():
                    self._opened.set_result(None)
            case ev.Stopped(error):
                self._stopped(error)

    def _connect(self, number: int, url: str) -> None:
        try:
            place = address(url)
        except UserError as error:  # a broker or a coordinator made it up
            asyncio.get_running_loop().call_soon(self.dispatch, ev.Disconnected(number, None, error.message))
            return
        connection = Connection(
            number, place.socket, self._agent, self.dispatch, lambda: self._state.frame_bytes(number)
        )
        self._connections[number] = connection
        connection.task.add_done_callback(lambda _: self._connections.pop(number, None))

    async def _ask(self, request: int, avoid: list[str]) -> None:
        assert self._coordinator is not None
        lat, lon = self._location
        try:
            found = await request_broker(self._coordinator, BrokerRequest(self.subscriber, lat, lon, avoid=avoid))
            url = address(found.url).http
        except TocsinError as error:
            self.dispatch(ev.PlacementFailed(request, error))
        else:
            self.dispatch(ev.Placed(request, found.broker, url, found.ticket))

    async def _login(self, url: str) -> None:
        assert self._credentials is not None
        try:
            token = await login(address(url).http, self._credentials)
        except TocsinError as error:
            self.dispatch(ev.LoginFailed(error))
        else:
            self.dispatch(ev.LoggedIn(token))

    def _answer(self, request: int, answer: Receipt | TocsinError) -> None:
        future = self._requests.pop(request, None)
        if future is None or future.done():
            return
        if isinstance(answer, Receipt):
            future.set_result(answer)
        else:
            future.set_exception(answer)

    def _stopped(self, error: TocsinError | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._opened is not None and not self._opened.done():
            if error is not None:
                self._opened.set_exception(error)
            else:
                self._opened.cancel()
