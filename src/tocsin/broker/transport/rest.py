"""REST with the papers' names, for clients that cannot hold a WebSocket; through the same state machine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Restored
from tocsin.broker.transport.driver import Driver
from tocsin.broker.transport.virtual_peers import EventStream, RestRequest
from tocsin.errors import Malformed, NotFound, NotReady, SystemFailure, Unauthorized
from tocsin.http.budgets import Budget, counted_elsewhere
from tocsin.http.requests import from_json, from_query, media_type, read_body
from tocsin.http.responses import HeldStream, answer
from tocsin.identity import messages as it
from tocsin.identity.grants import ANONYMOUS
from tocsin.identity.grants import user as user_principal
from tocsin.identity.tokens import Claims
from tocsin.wire import messages as wire
from tocsin.wire.position import Position
from tocsin.wire.remote_errors import remote_error

if TYPE_CHECKING:
    from tocsin.broker.upstream.users import Users

BODY_BYTES = 1024 * 1024
#: Longest long poll.
LONGEST = 300.0


class SubscribeRequest(Struct, forbid_unknown_fields=True):
    channel: wire.Name
    args: wire.Arguments = msgspec.field(default_factory=list)
    after: wire.Execution | None = None


class UnsubscribeRequest(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId


class Acknowledgement(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId
    execution: wire.Execution


class Publication(Struct, forbid_unknown_fields=True):
    feed: wire.Name
    records: Annotated[list[msgspec.Raw], Meta(min_length=1, max_length=wire.MOST_RECORDS)]


class ResultsQuery(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId
    after: wire.Execution | None = None
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    wait: Annotated[float, Meta(ge=0, le=LONGEST)] = 0.0


class Rest:
    """The papers' calls. ``list_channels`` asks the data cluster."""

    def __init__(
        self, driver: Driver, list_channels: Callable[[], Awaitable[list[dict[str, Any]]]], users: Users
    ) -> None:
        self.driver = driver
        self.list_channels = list_channels
        self.users = users
        limits = driver.config.limits
        self.long_polls = Budget("long polls", limits.long_polls)
        self.event_streams = Budget("streams of events", limits.event_streams)
        self.routes = [
            Route("/registeruser", self.registeruser, methods=["POST"]),
            Route("/login", self.login, methods=["POST"]),
            Route("/refresh", self.refresh, methods=["POST"]),
            Route("/changepassword", self.changepassword, methods=["POST"]),
            Route("/deleteuser", self.deleteuser, methods=["POST"]),
            Route("/logout", self.logout, methods=["POST"]),
            Route("/subscribe", self.subscribe, methods=["POST"]),
            Route("/unsubscribe", self.unsubscribe, methods=["POST"]),
            Route("/listsubscriptions", self.listsubscriptions, methods=["GET"]),
            Route("/listchannels", self.listchannels, methods=["GET"]),
            Route("/getresults", self.getresults, methods=["GET"]),
            Route("/ackresults", self.ackresults, methods=["POST"]),
            Route("/publish", self.publish, methods=["POST"]),
            Route("/events", self.events, methods=["GET"]),
        ]

    # -- users

    async def registeruser(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.Register), 201)

    async def login(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.LogIn))

    async def refresh(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.Refresh))

    async def changepassword(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.ChangePassword))

    async def deleteuser(self, request: Request) -> Response:
        return await self.call(request, await body(request, it.DeleteUser))

    async def logout(self, request: Request) -> Response:
        return await self.call(request, it.LogOut(bearer(request)))

    async def call(self, request: Request, call: it.AnyCall, status: int = 200) -> Response:
        found = await self.users.call(call, request.client.host if request.client else "")
        if isinstance(call, it.LogOut | it.ChangePassword | it.DeleteUser):
            await self.users.exchanged()  # the connections to this broker end now
        return answer(found, status)

    async def session(self, request: Request) -> tuple[Claims, list[wire.DurableSubscription]]:
        """Who asks. This broker serves the durable subscriptions from now on: another one that did so releases them."""
        claims, durable = await self.users.authenticate(bearer(request))
        self.driver.handle(Restored(claims.sid, durable))
        return claims, durable

    # -- subscriptions

    async def subscribe(self, request: Request) -> Response:
        user, _ = await self.session(request)
        asked = await body(request, SubscribeRequest)
        with RestRequest(self.driver, user) as peer:
            peer.request(wire.Subscribe(1, asked.channel, asked.args, asked.after))
            done = await peer.answer(1)
        await self.users.written()
        return answer({"subscription": done.subscription, "channel": done.channel, "after": done.after}, 201)

    async def unsubscribe(self, request: Request) -> Response:
        user, durable = await self.session(request)
        asked = await body(request, UnsubscribeRequest)
        subscription = mine(durable, asked.subscription).subscription
        with RestRequest(self.driver, user) as peer:
            peer.request(wire.Unsubscribe(1, subscription))
            await peer.answer(1)
        await self.users.written()
        return answer({"subscription": subscription})

    async def listsubscriptions(self, request: Request) -> Response:
        _, durable = await self.session(request)
        return answer({"subscriptions": durable})

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

    async def getresults(self, request: Request) -> Response:
        user, all_durable = await self.session(request)
        asked = from_query(request.scope["query_string"], ResultsQuery)
        durable = mine(all_durable, asked.subscription)
        with ExitStack() as held:
            if asked.wait:
                held.enter_context(self.long_polls.one())
                held.enter_context(counted_elsewhere(request.scope))
            return await self._results(user, durable, asked)

    async def _results(self, user: Claims, durable: wire.DurableSubscription, asked: ResultsQuery) -> Response:
        after = durable.after if asked.after is None else asked.after
        found: list[msgspec.Raw] = []
        gaps: list[wire.Gap] = []
        migrate: wire.Migrate | None = None
        with RestRequest(self.driver, user) as peer:
            peer.request(wire.Subscribe(1, durable.channel, durable.args, after, durable.subscription))
            live = False
            end = asyncio.get_running_loop().time() + asked.wait
            while len(found) < asked.limit:
                try:
                    # Until it is live, what it missed is on its way, however long the data cluster takes.
                    async with asyncio.timeout_at(end if live else None):
                        head, text = await peer.next()
                except TimeoutError:
                    break
                if head.type == "notify" and head.execution > after:
                    found.append(msgspec.Raw(text))
                    after = head.execution
                elif head.type == "gap":
                    gaps.append(peer.decode(text))
                    after = max(after, head.next - 1)
                elif head.type == "error":
                    peer.decode(text)
                elif head.type == "ended":
                    ended: wire.Ended = peer.decode(text)
                    raise remote_error(ended.code, ended.message)
                elif head.type == "migrate":
                    migrate = peer.decode(text)
                elif head.type == "live":
                    live = True
                if live and (found or migrate or not asked.wait):
                    break
        results = {"subscription": durable.subscription, "after": after, "results": found, "gaps": gaps}
        return answer(results if migrate is None else results | {"migrate": migrate})

    async def ackresults(self, request: Request) -> Response:
        user, durable = await self.session(request)
        asked = await body(request, Acknowledgement)
        id = mine(durable, asked.subscription).subscription
        self.users.exchange.acknowledge(do.Acknowledge(user.sid, {id: Position(0, asked.execution)}))
        with contextlib.suppress(SystemFailure):  # while the store is away, it waits here
            await self.users.written()
        return answer({"subscription": id, "execution": asked.execution})

    async def publish(self, request: Request) -> Response:
        """Answered when the records are durable."""
        user, _ = await self.session(request)
        asked = await body(request, Publication)
        with RestRequest(self.driver, user) as peer:
            peer.request(wire.Publish(1, asked.feed, asked.records))
            done = await peer.answer(1)
        return answer({"accepted": done.accepted, "refused": done.refused}, 201)

    async def events(self, request: Request) -> Response:
        """With a token all durable subscriptions of the user; without one the channel and arguments of the query."""
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
            if not channel:
                raise Malformed("say which channel: /events?channel=NAME&parameter=value")
            previous_id = next(iter(before), None)
            position = None if previous_id is None else before[previous_id]
            requests.append(wire.Subscribe(1, channel, args, position, previous_id))
        with ExitStack() as held:
            held.enter_context(self.event_streams.one())
            held.enter_context(counted_elsewhere(request.scope))
            stream = EventStream(self.driver, user, request.client.host if request.client else "")
            held.enter_context(stream)
            stream.request(*requests)
            if user is None:
                first = await stream.answer(1)
                stream.start(first.subscription, first.after, previous_id)
            kept = held.pop_all()

        async def all_events() -> Any:
            yield b"retry: 1000\n\n"
            async for event in stream.events():
                yield event

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return HeldStream(kept, all_events(), "text/event-stream", headers)


def bearer(request: Request) -> str:
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Unauthorized("no token", hint="POST /login, then send Authorization: Bearer TOKEN")
    return token.strip()


def mine(durable: list[wire.DurableSubscription], subscription: int) -> wire.DurableSubscription:
    """By its id, or by a previous id as long as results under that are not acknowledged."""
    found = next((each for each in durable if subscription in (each.subscription, *each.previous_ids)), None)
    if found is None:
        raise NotFound("subscription", str(subscription), hint="GET /listsubscriptions lists them")
    return found


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
