"""The town's HTTP interface, for the page: on the loopback only, reached through the coordinator."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router

from tocsin.errors import NoSuchPath, TocsinError
from tocsin.http.request_handler import handle
from tocsin.http.requests import check_origin
from tocsin.http.responses import answer, error_body, error_headers
from tocsin.http.server import WebServer, no_such_path

GRACE = 1


class Parts(Protocol):
    """What of the supervisor is needed here."""

    brokers: list[str]

    async def add_broker(self) -> str: ...
    async def kill_broker(self, name: str) -> None: ...


class App:
    """Errors are ``{"error": text, "code": …}``: the page shows the text as it is."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.router = Router(self.routes(), redirect_slashes=False, default=no_such_path)

    def routes(self) -> list[Route]:
        return [
            Route("/facts", self.facts, methods=["GET"]),
            Route("/brokers", self.add, methods=["POST"]),
            Route("/brokers/{name}/kill", self.kill, methods=["POST"]),
            *(Route(path, self.no_city, methods=["GET"]) for path in ("/map", "/people", "/stream")),
        ]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        await handle(self.router, scope, receive, send, refusal)

    async def facts(self, request: Request) -> Response:
        return answer(
            {
                "city": False,
                "name": "",
                "seed": 0,
                "speed": 1.0,
                "can": ["add", "kill"],
                "brokers": self.parts.brokers,
                "subscribers": 0,
                "now": 0.0,
            }
        )

    async def no_city(self, request: Request) -> Response:
        raise NoSuchPath("this town has no city", hint="`tocsin demo` has one")

    async def add(self, request: Request) -> Response:
        check_origin(request.scope["headers"])
        return answer({"broker": await self.parts.add_broker()}, 201)

    async def kill(self, request: Request) -> Response:
        check_origin(request.scope["headers"])
        name = request.path_params["name"]
        await self.parts.kill_broker(name)
        return answer({"broker": name})


def refusal(error: Exception, where: str) -> Response:
    status, body = error_body(error, where)
    problem = body["error"]
    text = str(error) if isinstance(error, TocsinError) else problem["message"]
    return answer({"error": text, "code": problem["code"]}, status, error_headers(error))


class Server(WebServer):
    """Runs in the loop of the town."""

    def __init__(self, app: Any, sock: socket.socket) -> None:
        super().__init__(app, grace=GRACE)
        self.sock = sock
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.create_task(self.serve([self.sock]))

    async def end(self) -> None:
        self.should_exit = True
        if self._task is not None:
            await self._task
