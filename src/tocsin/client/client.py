"""The client on asyncio: a thin shell that carries out the instructions of the state machine."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import count
from random import Random, SystemRandom
from typing import Any

import msgspec

from tocsin import __version__
from tocsin.client.addresses import address
from tocsin.client.connection import Connection
from tocsin.client.core import events as ev
from tocsin.client.core.broker_candidates import is_encrypted
from tocsin.client.core.login import Login, SendRefresh, Tokens
from tocsin.client.core.state import ClientState
from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.client.http_post import Credentials, login, refresh, request_broker
from tocsin.client.notification import Receipt, Status
from tocsin.client.round_trips import measure_round_trips
from tocsin.client.subscription import Subscription
from tocsin.effects import run_effects
from tocsin.errors import Malformed, TocsinError, UserError
from tocsin.http.client import Context, trust
from tocsin.wire.feed_name import ALL, channel_of
from tocsin.wire.messages import LEAST_SUBSCRIBER, DurableSubscription, frames
from tocsin.wire.position import Position
from tocsin.wire.reports import BrokerRequest

#: Notifications that may wait for the application before the client stops reading.
MAX_PENDING = 1_000
#: Seconds for connections to close.
CLOSE_TIMEOUT = 3.0

_SUBSCRIBER = re.compile(f"[A-Za-z0-9_-]{{{LEAST_SUBSCRIBER},64}}")
_encoder = msgspec.json.Encoder(decimal_format="number")


def connect(
    urls: str | Sequence[str] = (),
    *,
    coordinator: str | None = None,
    location: tuple[float, float] | None = None,
    nearest: bool = False,
    subscriber: str | None = None,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    device: str | None = None,
    wait_for_broker: bool = False,
    tls_ca: str | None = None,
    agent: str = f"tocsin-python/{__version__}",
    random: Random | None = None,
) -> Client:
    """A client of one broker, or of the first of several that answers: ``async with connect(url) as c:``.

    A ``coordinator`` chooses the broker; the client uses ``urls`` when the coordinator does not answer. For a
    coordinator that places subscribers at the nearest broker, give ``location`` (latitude and longitude), or let the
    client measure its round trips to the brokers with ``nearest``. ``subscriber`` is the client's identity on all
    brokers: random and secret, chosen unless given; pass the same one again after a restart.

    With ``user`` and ``password`` the client logs in first, at the coordinator if there is one: brokers get only its
    token, which it refreshes before it expires. ``wait_for_broker`` retries until a broker answers; without it, the
    first failure raises Unreachable. Once connected, the client reconnects by itself.

    ``tls_ca`` is a file with the authorities that brokers and coordinator are verified with on TLS; the default is that
    of TOCSIN_TLS_CA, or the system's. A client that reached a coordinator or broker with TLS goes to none without it.
    """
    if (user is None) != (password is None):
        raise UserError("give both user and password, or neither")
    credentials = None if user is None or password is None else Credentials(user, password, device)
    brokers = [address(url) for url in ([urls] if isinstance(urls, str) else urls)]
    if not brokers and coordinator is None:
        raise UserError("give the address of a broker or of a coordinator")
    if subscriber is not None and _SUBSCRIBER.fullmatch(subscriber) is None:
        hint = f"use {LEAST_SUBSCRIBER} to 64 random letters, digits, - and _"
        raise UserError(f"{subscriber!r} is not a subscriber id", hint=hint)
    random = random or SystemRandom()
    state = ClientState(
        list(dict.fromkeys(each.http for each in brokers)),
        random,
        token=token,
        login=credentials is not None,
        agent=agent,
        wait_for_broker=wait_for_broker,
        subscriber=subscriber,
        coordinator=coordinator is not None,
        encrypted=coordinator is not None and is_encrypted(address(coordinator).http),
        nearest=nearest,
    )
    context = partial(trust, tls_ca)
    return Client(state, credentials, coordinator and address(coordinator).http, location, agent, random, context)


class Client:
    """Made by ``connect``. All methods belong to the loop that opened it."""

    def __init__(
        self,
        state: ClientState,
        credentials: Credentials | None,
        coordinator: str | None,
        location: tuple[float, float] | None,
        agent: str,
        random: Random,
        context: Context = trust,
    ) -> None:
        self._state, self._credentials, self._coordinator = state, credentials, coordinator
        self._location, self._agent, self._random, self._context = location, agent, random, context
        self._subscriptions: dict[int, Subscription] = {}
        self._requests: dict[int, asyncio.Future[Receipt]] = {}
        self._numbers = count(1)
        self._connections: dict[int, Connection] = {}
        self._request: asyncio.Task[None] | None = None  # login or placement
        self._refreshing: asyncio.Task[None] | None = None
        self._tokens = Login()
        self._timer: asyncio.TimerHandle | None = None
        self._opened: asyncio.Future[None] | None = None

    # -- open and close ------------------------------------------------------------------------------------------------

    async def open(self) -> Client:
        """Returns when the client is connected."""
        if self._opened is None:
            self._opened = asyncio.get_running_loop().create_future()
            self.dispatch(ev.OpenRequested())
        await asyncio.shield(self._opened)
        return self

    async def close(self) -> None:
        """Ends all subscriptions and disconnects. Notifications that the application has received count as consumed.

        A user's subscriptions are durable: the next client of this user can resume them.
        """
        for subscription in list(self._subscriptions.values()):
            subscription.settle()
        await self._leave()

    async def drain(self) -> None:
        """Unsubscribes from everything, waits for all answers, and closes. What has arrived can still be read."""
        await asyncio.gather(*(subscription.drain() for subscription in list(self._subscriptions.values())))
        await asyncio.gather(*self._requests.values(), return_exceptions=True)
        await self.close()

    async def _leave(self) -> None:
        self.dispatch(ev.CloseRequested())
        for request in (self._request, self._refreshing):
            if request is not None:
                request.cancel()
        tasks = [connection.task for connection in self._connections.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=CLOSE_TIMEOUT)
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
            await self._leave()  # the last notification was not finished

    # -- operations ----------------------------------------------------------------------------------------------------

    def subscribe(
        self,
        channel: str,
        args: Sequence[Any] | Mapping[str, Any] | None = None,
        /,
        *,
        after: Position | int | None = None,
        subscription: int | None = None,
        max_pending: int = MAX_PENDING,
        **parameters: Any,
    ) -> Subscription:
        """Arguments in the order of the channel's parameters, or by name. Without ``after`` it begins now.

        To resume, pass ``position`` and ``id`` of the earlier subscription as ``after`` and ``subscription``. An
        execution number alone will do as ``after``.
        """
        if args is not None and parameters:
            raise UserError("give the arguments as a list, as a mapping or by name, and only in one of these ways")
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
            raise UserError("max_pending must be at least 1")
        position = Position(0, after) if isinstance(after, int) else after
        handle = next(self._numbers)
        found = self._subscriptions[handle] = Subscription(self, handle)
        self.dispatch(ev.SubscribeRequested(handle, channel, plain, position, subscription, max_pending))
        found.state = self._state.subscriptions.by_handle.get(handle)
        return found

    def subscribe_feed(
        self,
        feed: str,
        where: str = ALL,
        *,
        after: Position | int | None = None,
        subscription: int | None = None,
        max_pending: int = MAX_PENDING,
    ) -> Subscription:
        """The publications of a feed that meet a condition, in SQL or in PADRES' notation; without one, all of them.

        A notification has those of one commit. ``after`` and ``subscription`` resume, as for a channel.
        """
        if not isinstance(where, str):
            raise UserError(f"a condition is a text, not {type(where).__name__}")
        return self.subscribe(
            channel_of(feed), [where], after=after, subscription=subscription, max_pending=max_pending
        )

    async def publish(self, feed: str, records: Any, *, retry: bool = False) -> Receipt:
        """One record (a mapping) or a list of them. Returns when the accepted ones are durable.

        If the connection breaks before the answer, raises Uncertain: the records may or may not have been stored. With
        ``retry`` the client sends them again instead, for records with a key, where a second copy does no harm. A
        cancelled call sends no more; what it has sent may be stored.
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
            self.dispatch(ev.PublishRequested(request, feed, encoded, retry))
            return await answer
        except asyncio.CancelledError:
            self.dispatch(ev.PublishCancelled(request))
            raise
        finally:
            self._requests.pop(request, None)

    @property
    def status(self) -> Status:
        return self._state.status

    @property
    def durable_subscriptions(self) -> list[DurableSubscription]:
        """The user's subscriptions that the broker keeps, with their positions, as of the last connect."""
        return list(self._state.welcome.subscriptions) if self._state.welcome is not None else []

    @property
    def subscriber(self) -> str:
        """The client's identity on all brokers."""
        return self._state.subscriber

    @property
    def token(self) -> str | None:
        return self._state.token

    def lag(self, subscription: SubscriptionState) -> int:
        return self._state.subscriptions.lag(subscription)

    # -- instructions of the state machine -----------------------------------------------------------------------------

    def dispatch(self, event: ev.Event) -> None:
        for instruction in self._state.handle(event, asyncio.get_running_loop().time()):
            self._do(instruction)

    def _do(self, instruction: ev.Instruction) -> None:
        match instruction:
            case ev.Deliver(handle, item):
                self._subscriptions[handle].deliver(item)
            case ev.Send(connection, messages, limit):
                self._connections[connection].send(frames(messages, limit))
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
                self._request = asyncio.create_task(self._login(url), name="tocsin login")
            case ev.Refresh(url):
                self._refreshing = asyncio.create_task(self._login(url), name="tocsin refresh")
            case ev.MeasureRoundTrips(request):
                self._request = asyncio.create_task(self._measure(request), name="tocsin round trips")
            case ev.RequestBroker():
                self._request = asyncio.create_task(self._request_broker(instruction), name="tocsin placement")
            case ev.Read(connection, on):
                if connection in self._connections:
                    self._connections[connection].read(on)
            case ev.Confirmed(handle):
                self._subscriptions[handle].confirm()
            case ev.Ended(handle, error):
                self._subscriptions[handle].end(error)
                if error is not None:
                    del self._subscriptions[handle]
            case ev.Unsubscribed(handle):
                if handle in self._subscriptions:
                    self._subscriptions.pop(handle).unsubscribed()
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
            found = address(url)
        except UserError as error:  # from a broker or a coordinator
            asyncio.get_running_loop().call_soon(self.dispatch, ev.Disconnected(number, None, error.message))
            return
        connection = Connection(number, found.socket, self._agent, self.dispatch, self._context)
        self._connections[number] = connection
        connection.task.add_done_callback(lambda _: self._connections.pop(number, None))

    async def _measure(self, request: int) -> None:
        assert self._coordinator is not None
        found = await measure_round_trips(self._coordinator, self._location, self._random, context=self._context)
        self.dispatch(ev.RoundTripsMeasured(request, found))

    async def _request_broker(self, it: ev.RequestBroker) -> None:
        assert self._coordinator is not None
        lat, lon = self._location or (None, None)
        try:
            request = BrokerRequest(self.subscriber, lat, lon, it.distances, it.avoid)
            found = await request_broker(self._coordinator, request, self._context)
            url = address(found.url).http
        except TocsinError as error:
            self.dispatch(ev.PlacementFailed(it.request, error))
        else:
            self.dispatch(ev.Placed(it.request, found.broker, url, found.ticket))

    async def _login(self, url: str) -> None:
        assert self._credentials is not None
        server = address(url).http if url else self._coordinator
        assert server is not None
        credentials = self._credentials

        async def perform(effect: Any) -> Tokens:
            if isinstance(effect, SendRefresh):
                return await refresh(server, effect.refresh, self._context)
            return await login(server, credentials, self._context)

        try:
            found = await run_effects(self._tokens.tokens(), perform)
        except TocsinError as error:
            self.dispatch(ev.LoginFailed(error))
        else:
            self.dispatch(ev.LoggedIn(found.token, found.seconds))

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
