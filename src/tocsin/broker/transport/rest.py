"""REST with the papers' names, for clients that cannot hold a WebSocket; through the same state machine."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.broker.transport.driver import Driver
from tocsin.broker.transport.event_stream import EventStream, until_message
from tocsin.broker.transport.rest_calls import (
    Acknowledgement,
    Durable,
    Publication,
    RestCalls,
    ResultsQuery,
    SubscribeRequest,
    UnsubscribeRequest,
    UntilWritten,
    VerifyToken,
    mine,
)
from tocsin.effects import Effects, run_effects
from tocsin.errors import Malformed, NotReady, Unauthorized
from tocsin.http.addresses import client_of
from tocsin.http.budgets import Budget, counted_elsewhere
from tocsin.http.openapi import document
from tocsin.http.requests import from_json, from_query, media_type, read_body
from tocsin.http.responses import HeldStream, answer
from tocsin.http.routes import all_routes, route
from tocsin.identity import messages as it
from tocsin.identity.grants import ANONYMOUS
from tocsin.identity.grants import user as user_principal
from tocsin.identity.tokens import Claims
from tocsin.wire import messages as wire
from tocsin.wire.feed_name import ALL, WHERE, channel_of

if TYPE_CHECKING:
    from tocsin.broker.upstream.users import Users

BODY_BYTES = 1024 * 1024
USER = "users, with their token"

T = TypeVar("T")


class Rest:
    """The papers' calls. ``list_channels`` asks the data cluster."""

    def __init__(
        self, driver: Driver, list_channels: Callable[[], Awaitable[list[dict[str, Any]]]], users: Users
    ) -> None:
        self.driver = driver
        self.list_channels = list_channels
        self.users = users
        self.calls = RestCalls(driver, users.exchange.acknowledge)
        limits = driver.config.limits
        self.long_polls = Budget("long polls", limits.long_polls)
        self.event_streams = Budget("streams of events", limits.event_streams)
        self.routes = [Route(each.path, getattr(self, each.name), methods=[each.method]) for each in ROUTES]

    @route("GET /openapi.json", "this description", "OpenAPI 3.1")
    async def openapi(self, request: Request) -> Response:
        return answer(document("Tocsin broker", ROUTES))

    # -- users

    @route("POST /registeruser", "register a user", it.Changed, body=it.Register)
    async def registeruser(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.Register), 201)

    @route("POST /login", "begin a session of a device, or continue it", it.Tokens, body=it.LogIn)
    async def login(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.LogIn))

    @route("POST /refresh", "another access token for the session", it.Tokens, body=it.Refresh)
    async def refresh(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.Refresh))

    @route("POST /changepassword", "change the password; all tokens end", it.Changed, body=it.ChangePassword)
    async def changepassword(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.ChangePassword))

    @route("POST /deleteuser", "delete a user and all that is stored for it", it.Changed, body=it.DeleteUser)
    async def deleteuser(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.DeleteUser))

    @route("POST /logout", "end the session with its durable subscriptions", "`user`", USER)
    async def logout(self, request: Request) -> Response:
        return await self.call(request, it.LogOut(bearer(request)))

    async def call(self, request: Request, call: it.AnyCall, status: int = 200) -> Response:
        found = await self.users.call(call, client_of(request.scope))
        if isinstance(call, it.LogOut | it.ChangePassword | it.DeleteUser):
            await self.users.exchanged()  # the connections to this broker end now
        return answer(found, status)

    async def session(self, request: Request) -> tuple[Claims, Durable]:
        return await self._run(self.calls.session(bearer(request)))

    async def _run(self, effects: Effects[T]) -> T:
        return await run_effects(effects, self._perform)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, VerifyToken):
            return await self.users.authenticate(effect.token)
        if isinstance(effect, UntilWritten):
            return await self.users.written()
        return await until_message(effect)

    # -- subscriptions

    @route(
        "POST /subscribe",
        "subscribe durably",
        "`subscription`, `channel`, `after`, `epoch`, `warnings`",
        USER,
        body=SubscribeRequest,
    )
    async def subscribe(self, request: Request) -> Response:
        user, _ = await self.session(request)
        return answer(await self._run(self.calls.subscribe(user, await body(request, SubscribeRequest))), 201)

    @route("POST /unsubscribe", "end a durable subscription", "`subscription`", USER, body=UnsubscribeRequest)
    async def unsubscribe(self, request: Request) -> Response:
        user, durable = await self.session(request)
        asked = await body(request, UnsubscribeRequest)
        return answer(await self._run(self.calls.unsubscribe(user, durable, asked)))

    @route("GET /listsubscriptions", "the durable subscriptions", "`subscriptions`", USER)
    async def listsubscriptions(self, request: Request) -> Response:
        _, durable = await self.session(request)
        return answer({"subscriptions": durable})

    @route("GET /listchannels", "the channels that may be subscribed to", "`channels`")
    async def listchannels(self, request: Request) -> Response:
        """Those that the user, or anonymous, may subscribe to."""
        principal = ANONYMOUS
        if "authorization" in request.headers:
            user, _ = await self.session(request)
            principal = user_principal(user.raw, user.roles)
        access = self.driver.state.access
        if not access.known:
            raise NotReady("this broker does not know the grants yet", hint="try again in a second")
        shown = ("name", "kind", "parameters", "period", "retention", "columns")
        channels = [each for each in await self.list_channels() if access.may_subscribe(principal, each["name"])]
        return answer({"channels": [{name: each[name] for name in shown} for each in channels]})

    # -- results

    @route(
        "GET /getresults",
        "results of a durable subscription; with `wait` as soon as there are any",
        "`subscription`, `after`, `epoch`, `results`, `gaps`, `migrate`",
        USER,
        query=ResultsQuery,
    )
    async def getresults(self, request: Request) -> Response:
        user, durable = await self.session(request)
        asked = from_query(request.scope["query_string"], ResultsQuery)
        mine(durable, asked.subscription)  # what does not exist is not waited for
        with ExitStack() as held:
            if asked.wait:
                held.enter_context(self.long_polls.one())
                held.enter_context(counted_elsewhere(request.scope))
            return answer(await self._run(self.calls.results(user, durable, asked)))

    @route(
        "POST /ackresults",
        "acknowledge results up to an execution",
        "`subscription`, `execution`",
        USER,
        body=Acknowledgement,
    )
    async def ackresults(self, request: Request) -> Response:
        user, durable = await self.session(request)
        asked = await body(request, Acknowledgement)
        return answer(await self._run(self.calls.acknowledge(user, durable, asked)))

    @route("POST /publish", "publish records", "`accepted`, `refused`", USER, body=Publication)
    async def publish(self, request: Request) -> Response:
        user, _ = await self.session(request)
        return answer(await self._run(self.calls.publish(user, await body(request, Publication))), 201)

    @route("GET /events", "notifications as Server-Sent Events", "`notify`, `gap`")
    async def events(self, request: Request) -> Response:
        """With a token all durable subscriptions of the user; without one the channel and arguments of the query, or
        the feed and the condition."""
        before = last_event(request.headers.get("last-event-id", ""))
        requests: list[wire.Subscribe] = []
        user: Claims | None = None
        previous_id: int | None = None
        if "authorization" in request.headers:
            user, durable = await self.session(request)
            for id, each in enumerate(durable, 1):
                after = max(each.after, *(before.get(one, 0) for one in (each.subscription, *each.previous_ids)))
                requests.append(wire.Subscribe(id, each.channel, each.args, after, each.subscription))
        else:
            args = dict(request.query_params)
            channel = args.pop("channel", "")
            if not channel and "feed" in args:
                channel = channel_of(args.pop("feed"))
                args.setdefault(WHERE, ALL)
            if not channel:
                raise Malformed(
                    "say which channel or feed: /events?channel=NAME&parameter=value or /events?feed=NAME&where=…"
                )
            previous_id = next(iter(before), None)
            position = None if previous_id is None else before[previous_id]
            requests.append(wire.Subscribe(1, channel, args, position, previous_id))
        with ExitStack() as held:
            held.enter_context(self.event_streams.one())
            held.enter_context(counted_elsewhere(request.scope))
            stream = EventStream(self.driver, user, client_of(request.scope))
            held.enter_context(stream)
            stream.request(*requests)
            if user is None:
                first = await stream.answer(1)
                stream.start(first.subscription, first.after, previous_id)
            kept = held.pop_all()

        async def all_events() -> Any:
            # With an id: a client that loses the connection before the first event resumes too.
            yield b"retry: 1000\n" + (b"id: %b\n\n" % stream.mark if stream.mark else b"\n")
            async for event in stream.events():
                yield event

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return HeldStream(kept, all_events(), "text/event-stream", headers)


def bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("no token", hint="POST /login, then send Authorization: Bearer TOKEN")
    return token.strip()


ROUTES = all_routes(Rest)


def last_event(text: str) -> dict[int, int]:
    """``subscription:execution`` of each, as ``EventStream.events`` writes them."""
    try:
        pairs = [pair.split(":") for pair in text.split(",") if pair]
        return {int(id): int(execution) for id, execution in pairs}
    except ValueError:
        raise Malformed("this Last-Event-ID is not one of ours") from None


async def body(request: Request, kind: type[Any]) -> Any:
    headers = request.scope["headers"]
    media_type(headers, ["application/json"], "application/json")
    return from_json(await read_body(headers, request.receive, BODY_BYTES), kind)
