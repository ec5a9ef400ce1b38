"""Answers for those who watch: the page's files, events, the topology that waits, what others are asked for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tocsin.balancing import placement
from tocsin.balancing.strategies import registry
from tocsin.coordinator.admin import Admin
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core import reconfiguration
from tocsin.coordinator.event_feed import TOPOLOGY
from tocsin.coordinator.forwarder import Forwarder
from tocsin.dashboard.files import HEADERS, files
from tocsin.errors import NoSuchPath
from tocsin.http.requests import from_query, header
from tocsin.http.responses import answer, encoder, stream

if TYPE_CHECKING:
    from tocsin.coordinator.server import Coordinator

#: Seconds that an answer may wait for something to happen.
PATIENCE = 25.0
SSE = {"cache-control": "no-store"}
#: Every page asks for the facts: that there is no town is one of them, and no error on its console.
NO_TOWN: dict[str, Any] = {"city": False, "can": [], "brokers": [], "subscribers": 0}


class Wait(Struct, forbid_unknown_fields=True):
    wait: Annotated[int, Meta(ge=0)] | None = None


class Following(Struct, forbid_unknown_fields=True):
    backlog: Annotated[int, Meta(ge=0, le=10_000)] = 0
    after: Annotated[str, Meta(max_length=64)] = ""


class Viewing:
    def __init__(self, coordinator: Coordinator, admin: Admin) -> None:
        self.coordinator = coordinator
        self.admin = admin
        self.watch = coordinator.feed
        self.files = files()
        config = coordinator.config
        self.cluster = Forwarder("data cluster", config.cluster, "--cluster")
        self.others = Forwarder("town", config.town, "--town")
        self._picture: tuple[tuple[int, float], bytes] = ((0, 0.0), b"")

    async def close(self) -> None:
        self.watch.close()
        await self.cluster.close()
        await self.others.close()

    async def topology(self, request: Request) -> Response:
        wish = from_query(request.scope["query_string"], Wait)
        if wish.wait is not None:
            await self.watch.until_not(wish.wait, PATIENCE)
        return Response(self.picture(), media_type="application/json")

    def picture(self) -> bytes:
        """The network as it is; made once for all who watch."""
        now = (self.watch.version, time.time() // TOPOLOGY)
        if self._picture[0] != now:
            found = {"version": self.watch.version, "time": time.time()}
            self._picture = (now, encoder.encode(found | self.coordinator.handle(ev.ShowTopology(None))))
        return self._picture[1]

    async def events(self, request: Request) -> Response:
        wish = from_query(request.scope["query_string"], Following)
        last = request.headers.get("last-event-id", wish.after)
        return stream(self.watch.events(last, wish.backlog, self.picture), "text/event-stream", SSE)

    async def strategy(self, request: Request) -> Response:
        config = self.coordinator.state.config
        known = {name: shown(registry.parameters(name)) for name in reconfiguration.known()}
        settings = known.get(config.strategy, {}) | config.settings
        return answer({"strategy": config.strategy, "settings": settings, "known": known})

    async def placement(self, request: Request) -> Response:
        config = self.coordinator.state.config
        return answer({"placement": config.placement, "known": list(placement.PLACEMENTS)})

    async def channels(self, request: Request) -> Response:
        return await self.cluster.forward(request, "channels")

    async def executions(self, request: Request) -> Response:
        return await self.cluster.forward(request, f"channels/{request.path_params['channel']}/executions")

    async def town(self, request: Request) -> Response:
        if not self.others.url and request.path_params["path"] == "facts":
            return answer(NO_TOWN)
        return await self.others.forward(request, request.path_params["path"])

    async def do_in_town(self, request: Request) -> Response:
        self.admin.check(request.scope["headers"])
        return await self.others.forward(request, request.path_params["path"])

    async def to_page(self, request: Request) -> Response:
        return RedirectResponse("/ui/")

    async def page(self, request: Request) -> Response:
        found = self.files.get(request.path_params["path"] or "index.html")
        if found is None:
            raise NoSuchPath(f"the page has no file {request.path_params['path']!r}", hint="the page is at /ui/")
        headers = HEADERS | {"etag": found.tag, "vary": "accept-encoding"}
        asked = request.scope["headers"]
        if header(asked, b"if-none-match") == found.tag.encode():
            return Response(status_code=304, headers=headers)
        if b"gzip" in (header(asked, b"accept-encoding") or b""):
            return Response(found.packed, 200, headers | {"content-encoding": "gzip"}, found.media)
        return Response(found.content, 200, headers, found.media)


def shown(parameters: dict[str, Any]) -> dict[str, float | str]:
    """Those that have a default; a strategy of somebody else's may have others."""
    return {name: value for name, value in parameters.items() if isinstance(value, int | float | str)}


def is_browser(request: Request) -> bool:
    return b"text/html" in (header(request.scope["headers"], b"accept") or b"")
