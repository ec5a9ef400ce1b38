"""REST with the papers' names, for those who cannot hold a WebSocket; through the same state machine."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from tocsin.broker.core.events import Restored, UserEnded
from tocsin.broker.transport.driver import Driver
from tocsin.broker.transport.virtual_peers import Caller, Stream
from tocsin.broker.upstream.http_client import UpstreamClient
from tocsin.broker.user_store import UserStore
from tocsin.errors import Malformed, NotFound, Unauthorized
from tocsin.http.requests import check_origin, from_json, from_query, media_type, read_body
from tocsin.http.responses import answer
from tocsin.wire import messages as wire
from tocsin.wire.remote_errors import remote_error

BODY_BYTES = 1024 * 1024
#: Longest long poll.
LONGEST = 300.0


class Credentials(Struct, forbid_unknown_fields=True):
    user: str
    password: str
    device: str = "default"


class Subscribing(Struct, forbid_unknown_fields=True):
    channel: wire.Name
    args: wire.Arguments = msgspec.field(default_factory=list)
    after: wire.Execution | None = None


class Unsubscribing(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId


class Acknowledging(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId
    execution: wire.Execution


class Results(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId
    after: wire.Execution | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    wait: Annotated[float, Meta(ge=0, le=LONGEST)] = 0.0


class Rest:
    """The papers' calls. ``routes`` is what the server puts up."""

    def __init__(self, driver: Driver, link: UpstreamClient, users: UserStore) -> None:
        self.driver = driver
        self.link = link
        self.users = users
        self.routes = [
            Route("/registeruser", self.registeruser, methods=["POST"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/subscribe", self.subscribe, methods=["POST"]),
            Route("/unsubscribe", self.unsubscribe, methods=["POST"]),
            Route("/listsubscriptions", self.listsubscriptions, methods=["GET"]),
            Route("/listchannels", self.listchannels, methods=["GET"]),
            Route("/getresults", self.getresults, methods=["GET"]),
            Route("/ackresults", self.ackresults, methods=["POST"]),
            Route("/events", self.events, methods=["GET"]),
        ]

    # -- users

    async def registeruser(self, request: Request) -> Response:
        who = await body(request, Credentials)
        await asyncio.wrap_future(self.users.register(who.user, who.password))
        return answer({"user": who.user}, 201)

    async def login(self, request: Request) -> Response:
        who = await body(request, Credentials)
        session = await asyncio.wrap_future(self.users.login(who.user, who.password, who.device))
        await self.keep(session.id)
        return answer({"token": session.token, "expires": session.expires})

    async def logout(self, request: Request) -> Response:
        session = await self.session(request)
        await asyncio.wrap_future(self.users.logout(session))
        self.driver.handle(UserEnded(session))
        return answer({})

    async def session(self, request: Request) -> str:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise Unauthorized("no token", hint="POST /login, then send Authorization: Bearer TOKEN")
        found = await asyncio.wrap_future(self.users.session(token.strip()))
        if found is None:
            raise Unauthorized("the token is unknown or has expired", hint="POST /login again")
        await self.keep(found)
        return found

    async def keep(self, session: str) -> None:
        """Whoever calls here is kept for here: another broker that shares the store lets go of it."""
        self.driver.handle(Restored(session, await asyncio.wrap_future(self.users.held(session))))

    # -- subscriptions

    async def subscribe(self, request: Request) -> Response:
        session = await self.session(request)
        wish = await body(request, Subscribing)
        with Caller(self.driver, session) as caller:
            caller.send(wire.Subscribe(1, wish.channel, wish.args, wish.after))
            done = await caller.answer(1)
        await asyncio.wrap_future(self.users.written())
        return answer({"subscription": done.subscription, "channel": done.channel, "after": done.after}, 201)

    async def unsubscribe(self, request: Request) -> Response:
        session = await self.session(request)
        wish = await body(request, Unsubscribing)
        held = await self.mine(session, wish.subscription)
        with Caller(self.driver, session) as caller:
            caller.send(wire.Unsubscribe(1, held.subscription))
            await caller.answer(1)
        await asyncio.wrap_future(self.users.written())
        return answer({"subscription": held.subscription})

    async def listsubscriptions(self, request: Request) -> Response:
        session = await self.session(request)
        held = await asyncio.wrap_future(self.users.held(session))
        return answer({"subscriptions": held})

    async def listchannels(self, request: Request) -> Response:
        shown = ("name", "kind", "parameters", "period", "retention", "columns")
        channels = await self.link.channels()
        return answer({"channels": [{name: each[name] for name in shown} for each in channels]})

    async def mine(self, session: str, subscription: int) -> wire.DurableSubscription:
        """By its number, or by one that it had before as long as that has something that was not acknowledged."""
        held = await asyncio.wrap_future(self.users.held(session))
        found = next((each for each in held if subscription in (each.subscription, *each.previous_ids)), None)
        if found is None:
            raise NotFound("subscription", str(subscription), hint="GET /listsubscriptions lists them")
        return found

    # -- results

    async def getresults(self, request: Request) -> Response:
        session = await self.session(request)
        wish = from_query(request.scope["query_string"], Results)
        held = await self.mine(session, wish.subscription)
        after = held.after if wish.after is None else wish.after
        found: list[msgspec.Raw] = []
        gaps: list[wire.Gap] = []
        with Caller(self.driver, session) as caller:
            caller.send(wire.Subscribe(1, held.channel, held.args, after, held.subscription))
            live = False
            loop = asyncio.get_running_loop()
            end = loop.time() + wish.wait
            while len(found) < wish.limit:
                try:
                    # Until it is live, what it missed is on its way, however long the data cluster takes.
                    async with asyncio.timeout_at(end if live else None):
                        text = await caller.next()
                except TimeoutError:
                    break
                for message in wire.decode_answers(text):
                    if isinstance(message, wire.Notify) and message.execution > after:
                        found.append(msgspec.Raw(text))
                        after = message.execution
                    elif isinstance(message, wire.Gap):
                        gaps.append(message)
                        after = max(after, message.next - 1)
                    elif isinstance(message, wire.Error):
                        raise remote_error(message.code, message.message, message.hint)
                    elif isinstance(message, wire.Live):
                        live = True
                if live and (found or not wish.wait):
                    break
        return answer({"subscription": held.subscription, "after": after, "results": found, "gaps": gaps})

    async def ackresults(self, request: Request) -> Response:
        session = await self.session(request)
        wish = await body(request, Acknowledging)
        held = await self.mine(session, wish.subscription)
        self.users.acknowledge(session, {held.subscription: wish.execution})
        await asyncio.wrap_future(self.users.written())
        return answer({"subscription": held.subscription, "execution": wish.execution})

    async def events(self, request: Request) -> Response:
        """With a token all that is kept for the user; without one the channel and arguments of the query string."""
        before = last_event(request.headers.get("last-event-id", ""))
        wishes: list[wire.Subscribe] = []
        user: str | None = None
        former: int | None = None
        if "authorization" in request.headers:
            user = await self.session(request)
            held = await asyncio.wrap_future(self.users.held(user))
            for number, each in enumerate(held, 1):
                after = max(each.after, *(before.get(one, 0) for one in (each.subscription, *each.previous_ids)))
                wishes.append(wire.Subscribe(number, each.channel, each.args, after, each.subscription))
        else:
            args = dict(request.query_params)
            channel = args.pop("channel", "")
            if not channel:
                raise Malformed("say which channel: /events?channel=NAME&parameter=value")
            former = next(iter(before), None)
            wishes.append(wire.Subscribe(1, channel, args, None if former is None else before[former], former))
        stream = Stream(self.driver, user)
        stream.begin()
        try:
            stream.send(*wishes)
            if user is None:
                first = await stream.answer(1)
                stream.start(first.subscription, first.after, former)
        except BaseException:
            stream.end()
            raise

        async def all_events() -> Any:
            try:
                yield b"retry: 1000\n\n"
                async for event in stream.events():
                    yield event
            finally:
                stream.end()

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(all_events(), 200, headers, "text/event-stream")


def last_event(text: str) -> dict[int, int]:
    """``subscription:execution`` of each, as ``Stream.events`` writes them."""
    try:
        pairs = [pair.split(":") for pair in text.split(",") if pair]
        return {int(number): int(execution) for number, execution in pairs}
    except ValueError:
        raise Malformed("this Last-Event-ID is not one of ours") from None


async def body(request: Request, kind: type[Any]) -> Any:
    headers = request.scope["headers"]
    check_origin(headers)
    media_type(headers, ["application/json"], "application/json")
    return from_json(await read_body(headers, request.receive, BODY_BYTES), kind)
