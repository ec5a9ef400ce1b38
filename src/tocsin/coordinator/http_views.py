"""The dashboard's requests: its files, the event feed, the topology, and what it reads of the data cluster."""

from __future__ import annotations

import logging
import time
from contextlib import AsyncExitStack, ExitStack, suppress
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tocsin.balancing import placement
from tocsin.balancing.catalogue.places import COORDINATOR, catalogue
from tocsin.balancing.catalogue.view import view
from tocsin.balancing.strategies import registry
from tocsin.coordinator.admin import Admin
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core import reconfiguration, strategy_chain
from tocsin.coordinator.event_feed import TOPOLOGY
from tocsin.dashboard.files import Page
from tocsin.errors import CrossOrigin, NoSuchPath, Unauthorized
from tocsin.http.addresses import client_of
from tocsin.http.budgets import Budget, counted_elsewhere, file_limit
from tocsin.http.forwarder import ForwardedResponse, Forwarder
from tocsin.http.requests import from_query, header
from tocsin.http.responses import HeldStream, answer, encoder
from tocsin.http.routes import OBSERVER, route
from tocsin.http.tls import Tls
from tocsin.identity.part_keys import Peer
from tocsin.wire.join import Joined

if TYPE_CHECKING:
    from tocsin.coordinator.server import Coordinator

log = logging.getLogger("tocsin.server")

#: Seconds for which a request may wait for a change.
LONGEST_WAIT = 25.0
#: What everybody may see of a channel.
CHANNEL = ("name", "kind", "parameters", "period", "state", "last_execution", "last_seconds", "subscriptions")
SSE = {"cache-control": "no-store"}


class Wait(Struct, forbid_unknown_fields=True):
    wait: Annotated[int, Meta(ge=0)] | None = None


class Following(Struct, forbid_unknown_fields=True):
    backlog: Annotated[int, Meta(ge=0, le=10_000)] = 0
    after: Annotated[str, Meta(max_length=64)] = ""


class Viewing:
    def __init__(self, coordinator: Coordinator, admin: Admin, tls: Tls | None) -> None:
        self.coordinator = coordinator
        self.admin = admin
        self.watch = coordinator.feed
        self._page = Page()
        hint = f"is it running? The coordinator was given --cluster {coordinator.config.cluster}"
        self.cluster = Forwarder("data cluster", hint, tls)
        self.peer = Peer("data cluster", coordinator.key, coordinator.config.join_secret)
        limits = coordinator.config.limits
        self._polls = Budget("long polls", limits.forwarded_polls, limits.forwarded_polls_per_address)
        most = min(limits.event_streams, file_limit() // 4)
        self.streams = Budget("streams of events", most, -(-most // 4))
        self._topology: tuple[tuple[int, float], bytes] = ((0, 0.0), b"")

    async def close(self) -> None:
        self.watch.close()
        await self.cluster.close()

    @route(
        "GET /topology",
        "brokers, load, balance, migrations; with `wait` as soon as the version differs from it, within 25 s",
        "`version`, `time`, `brokers`, `subscribers`, `cov`, `mean`, `maximum`, `bound`, `pending`, `strategy`, "
        "`balancing`, `placement`",
        OBSERVER,
        query=Wait,
    )
    async def topology(self, request: Request) -> Response:
        query = from_query(request.scope["query_string"], Wait)
        if query.wait is not None:
            with self.streams.one(client_of(request.scope)), counted_elsewhere(request.scope):
                await self.watch.until_not(query.wait, LONGEST_WAIT)
        return Response(self.topology_json(), media_type="application/json")

    def topology_json(self) -> bytes:
        """The network as it is; made once for all who watch."""
        now = (self.watch.version, time.time() // TOPOLOGY)
        if self._topology[0] != now:
            found = {"version": self.watch.version, "time": time.time()}
            self._topology = (now, encoder.encode(found | self.coordinator.handle(ev.ShowTopology(None))))
        return self._topology[1]

    @route(
        "GET /events",
        "what happens, as it happens (Server-Sent Events); the newest `backlog` notes and samples first",
        "`note`, `sample`, `topology`, `hello`, `gap`",
        OBSERVER,
        query=Following,
    )
    async def events(self, request: Request) -> Response:
        query = from_query(request.scope["query_string"], Following)
        last = request.headers.get("last-event-id", query.after)
        held = ExitStack()
        held.enter_context(self.streams.one(client_of(request.scope)))
        held.enter_context(counted_elsewhere(request.scope))
        return HeldStream(held, self.watch.events(last, query.backlog, self.topology_json), "text/event-stream", SSE)

    @route("GET /strategy", "how load is balanced", "`strategy`, `settings`, `components`, `known`", OBSERVER)
    async def strategy(self, request: Request) -> Any:
        config = self.coordinator.state.config
        known = {name: shown(registry.parameters(name)) for name in reconfiguration.known()}
        settings = known.get(config.strategy, {}) | config.settings
        components = config.balancing.components
        return {"strategy": config.strategy, "settings": settings, "components": components, "known": known}

    @route(
        "GET /balance/components",
        "the components that strategies can be made of, and those that run",
        "`place`, `strategy`, `running`, `components`",
        OBSERVER,
    )
    async def components(self, request: Request) -> Any:
        config = self.coordinator.state.config
        strategy = config.strategy if config.balancing.mode == "coordinator" else ""
        return view(catalogue(COORDINATOR), strategy, strategy_chain.running(config))

    @route("GET /placement", "how new subscribers are placed", "`placement`, `known`", OBSERVER)
    async def placement(self, request: Request) -> Any:
        config = self.coordinator.state.config
        return {"placement": config.placement, "known": list(placement.PLACEMENTS)}

    @route("GET /cluster/channels", "the channels of the data cluster, without their queries", "`channels`", OBSERVER)
    async def channels(self, request: Request) -> Response:
        """The page may only talk to its own origin. Queries and errors, which quote them, are not for everybody."""
        url = await self._cluster_url()
        status, found = await self.cluster.read(url, "/channels", self.peer.headers)
        self._joined(status)
        if status == 200:
            shown: tuple[str, ...] = CHANNEL
            with suppress(Unauthorized, CrossOrigin):
                self.admin.check(request.scope["headers"])
                shown = (*CHANNEL, "error")
            found = {"channels": [{name: each.get(name) for name in shown} for each in found["channels"]]}
        return answer(found, status)

    @route("GET /cluster/channels/{channel}/executions", "what a channel has found", "what that answers", OBSERVER)
    async def executions(self, request: Request) -> Response:
        path = request.scope["raw_path"].removeprefix(b"/cluster")
        async with AsyncExitStack() as held:
            if "wait" in request.query_params:
                held.enter_context(self._polls.one(client_of(request.scope)))
            url = await self._cluster_url()
            response = await self.cluster.forward(request, url, path, self.peer.headers)
            self._joined(response.status_code)
            if isinstance(response, ForwardedResponse):
                await response.stack.enter_async_context(held.pop_all())
        return response

    async def _cluster_url(self) -> str:
        if not self.coordinator.config.cluster:
            raise NoSuchPath("no data cluster", hint="start the coordinator with --cluster ADDRESS")
        url = self.coordinator.config.cluster
        if not self.peer.key:
            await self._join_cluster(url)
        return url

    async def _join_cluster(self, url: str) -> None:
        join = self.peer.join("")
        body = encoder.encode({"name": self.peer.own.name, "join": join})
        found = await self.cluster.post(f"{url.rstrip('/')}/join", body)
        try:
            self.peer.joined(join, msgspec.json.decode(found, type=Joined))
        except (Unauthorized, msgspec.DecodeError) as error:
            log.warning("the coordinator cannot join the data cluster: %s", error)

    def _joined(self, status: int) -> None:
        if status == 401:
            self.peer.key = ""  # the data cluster has restarted: the next request joins it again

    @route("GET /ui", "sends a browser to the page", "")
    async def to_page(self, request: Request) -> Response:
        return RedirectResponse("/ui/")

    @route("GET /ui/{path:path}", "the page for watching and operating", "a file")
    async def page(self, request: Request) -> Response:
        return self._page.respond(request, request.path_params["path"])


def shown(parameters: dict[str, Any]) -> dict[str, float | str]:
    """Those that have a default; a third-party strategy may have others."""
    return {name: value for name, value in parameters.items() if isinstance(value, int | float | str)}


def is_browser(request: Request) -> bool:
    return b"text/html" in (header(request.scope["headers"], b"accept") or b"")
