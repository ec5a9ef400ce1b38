"""The web server of a local deployment: the page, the actions that need the supervisor, and the coordinator's API.

The page talks to its own origin only, so requests that are not for this server are forwarded to the coordinator.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, Router

from tocsin.config import HttpLimits
from tocsin.coordinator.admin import Admin
from tocsin.dashboard.files import Page
from tocsin.http.access import Access
from tocsin.http.forwarder import Forwarder
from tocsin.http.request_handler import handle
from tocsin.http.responses import answer
from tocsin.http.server import WebServer
from tocsin.local.supervisor import Supervisor

GRACE = 1
#: Seconds in which a coordinator that ended is there again: the page does not notice.
RETRY_SECONDS = 10.0


class LocalApp:
    """``features`` are the panels and buttons that the page has in addition to the coordinator's own."""

    features: tuple[str, ...] = ("local",)

    def __init__(self, supervisor: Supervisor, admin: Admin) -> None:
        self.supervisor, self.admin = supervisor, admin
        self._page = Page(self.features)
        hint = "it is started again when it ends"
        self._coordinator = Forwarder("coordinator", hint, authorized=True, retry_seconds=RETRY_SECONDS)
        self.router = Router(self.routes(), redirect_slashes=False, default=self._forward)

    def routes(self) -> list[Route]:
        return [
            Route("/", self.redirect, methods=["GET"]),
            Route("/ui", self.redirect, methods=["GET"]),
            Route("/ui/{path:path}", self.page, methods=["GET"]),
            Route("/local/brokers", self.add, methods=["POST"]),
            Route("/local/brokers/{name}/kill", self.kill, methods=["POST"]),
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await handle(self._checked, scope, receive, send)

    async def _checked(self, scope: Any, receive: Any, send: Any) -> None:
        # Here for all routes: the coordinator cannot see the origin of what is forwarded to it.
        if scope["method"] not in ("GET", "HEAD"):
            self.admin.check(scope["headers"])
        elif scope["path"] != "/" and not scope["path"].startswith("/ui"):
            self.admin.check_view(scope["headers"])
        await self.router(scope, receive, send)

    async def _forward(self, scope: Any, receive: Any, send: Any) -> None:
        request = Request(scope, receive)
        response = await self._coordinator.forward(request, self.supervisor.coordinator, request.scope["raw_path"])
        await response(scope, receive, send)

    async def redirect(self, request: Request) -> Response:
        return RedirectResponse("/ui/")

    async def page(self, request: Request) -> Response:
        return self._page.respond(request, request.path_params["path"])

    async def add(self, request: Request) -> Response:
        return answer({"broker": await self.supervisor.add_broker()}, 201)

    async def kill(self, request: Request) -> Response:
        name = request.path_params["name"]
        await self.supervisor.kill_broker(name)
        return answer({"broker": name})

    async def stop(self) -> None:
        """Called before the processes stop; an application on top stops here."""
        self._coordinator.retry_seconds = 0.0

    async def close(self) -> None:
        await self._coordinator.close()


class Server(WebServer):
    """Runs in the event loop of its owner."""

    def __init__(self, app: LocalApp, sock: socket.socket, host: str) -> None:
        super().__init__(app, Access(sock, own=[host]), grace=GRACE, limits=HttpLimits())
        self.app, self.sock = app, sock
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self.serve([self.sock]))

    async def stop(self) -> None:
        self.should_exit = True
        if self._task is not None:
            await self._task
        await self.app.close()
        self.sock.close()
