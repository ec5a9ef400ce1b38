"""Passes requests of the page on to another server: a page may only talk to its own origin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import unquote

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tocsin.errors import NoSuchPath, Unreachable
from tocsin.http.client import trust
from tocsin.http.requests import read_body
from tocsin.http.responses import answer
from tocsin.http.tls import Tls

#: Only connecting has a timeout: a stream is silent for as long as nothing happens.
TIMEOUT = httpx.Timeout(None, connect=5.0)
READ_TIMEOUT = 30.0
#: Seconds between two tries of a GET.
RETRY_EVERY = 0.2
BODY_BYTES = 64 * 1024
REQUEST_HEADERS = ("accept", "content-type", "last-event-id")
RESPONSE_HEADERS = ("content-type", "cache-control", "retry-after")


class Forwarder:
    """``name`` and ``hint`` are for the error when the server does not answer.

    ``authorized``: the server takes the same tokens as this one; otherwise they are not passed on. ``retry_seconds``:
    for which a GET is repeated, so that a server that restarts is not an error.
    """

    def __init__(
        self, name: str, hint: str, tls: Tls | None = None, *, authorized: bool = False, retry_seconds: float = 0.0
    ) -> None:
        self.name, self.hint = name, hint
        self.retry_seconds = retry_seconds
        self._headers = (*REQUEST_HEADERS, "authorization") if authorized else REQUEST_HEADERS
        self._http = httpx.AsyncClient(
            timeout=TIMEOUT,
            limits=httpx.Limits(max_connections=None),
            trust_env=False,
            verify=trust() if tls is None else tls.client(),
        )

    async def forward(
        self, request: Request, url: str, raw_path: bytes, more: Mapping[str, str] | None = None
    ) -> Response:
        """``raw_path`` as it came: names in it stay percent-encoded. ``more`` headers are sent with the request."""
        path = raw_path.decode("ascii")
        if any(segment and not segment.strip(".") for segment in unquote(path).split("/")):
            raise NoSuchPath(f"the {self.name} has nothing at {path}")
        body = await read_body(request.scope["headers"], request.receive, BODY_BYTES)
        headers = {name: request.headers[name] for name in self._headers if name in request.headers} | dict(more or {})
        query = request.scope["query_string"].decode("latin-1")
        address = f"{url.rstrip('/')}{path}{'?' if query else ''}{query}"
        stack = AsyncExitStack()
        began = asyncio.get_running_loop().time()
        while True:
            try:
                found = await stack.enter_async_context(
                    self._http.stream(request.method, address, headers=headers, content=body)
                )
                break
            except (httpx.TransportError, httpx.InvalidURL):
                if request.method != "GET" or asyncio.get_running_loop().time() - began >= self.retry_seconds:
                    # The page asks again and again: an answer, because raising would log a line each time.
                    error = Unreachable(f"the {self.name} does not answer", hint=self.hint)
                    return answer({"error": error.to_dict()}, 502)
                await asyncio.sleep(RETRY_EVERY)
        kept = {name: found.headers[name] for name in RESPONSE_HEADERS if name in found.headers}
        return ForwardedResponse(stack, found, kept)

    async def post(self, url: str, body: bytes) -> bytes:
        """A request of this part itself; b'' without an answer."""
        try:
            found = await self._http.post(url, content=body, headers={"content-type": "application/json"}, timeout=5.0)
        except (httpx.TransportError, httpx.InvalidURL):
            return b""
        return found.content if found.is_success else b""

    async def read(self, url: str, path: str, headers: dict[str, str]) -> tuple[int, Any]:
        """Status and JSON of a GET, for what is not passed on as it is."""
        try:
            found = await self._http.get(f"{url.rstrip('/')}{path}", headers=headers, timeout=READ_TIMEOUT)
            return found.status_code, found.json()
        except (httpx.TransportError, httpx.InvalidURL, ValueError):
            return 502, {"error": Unreachable(f"the {self.name} does not answer", hint=self.hint).to_dict()}

    async def close(self) -> None:
        await self._http.aclose()


class ForwardedResponse(StreamingResponse):
    """A response that is passed on as it comes, and closed when either side ends it."""

    def __init__(self, stack: AsyncExitStack, found: httpx.Response, headers: dict[str, str]) -> None:
        self.stack = stack
        super().__init__(self._chunks(found), found.status_code, headers)

    @staticmethod
    async def _chunks(found: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in found.aiter_bytes():
                yield chunk
        except httpx.TransportError:
            # An event stream may end at any time; a part of anything else is an error.
            if not found.headers.get("content-type", "").startswith("text/event-stream"):
                raise

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        async with self.stack:
            await super().__call__(scope, receive, send)  # type: ignore[arg-type]
