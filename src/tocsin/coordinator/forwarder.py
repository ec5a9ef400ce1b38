"""What the page needs of the data cluster and of the town, fetched for it: a page may only talk to where it is from."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from tocsin.errors import NoSuchPath, Unreachable
from tocsin.http.requests import read_body
from tocsin.http.responses import answer

#: Only connecting has a limit: a stream is silent for as long as nothing happens.
TIMEOUT = httpx.Timeout(None, connect=5.0)
BODY_BYTES = 64 * 1024
#: What of a request and of an answer is passed on. Tokens are the coordinator's and go no further.
ASKED = ("accept", "content-type", "last-event-id")
ANSWERED = ("content-type", "cache-control", "retry-after")


class Forwarder:
    """To one address; '' for none, whose ``name`` is then said to be missing."""

    def __init__(self, name: str, url: str, option: str) -> None:
        self.name, self.url, self.option = name, url.rstrip("/"), option
        self._http = httpx.AsyncClient(timeout=TIMEOUT, limits=httpx.Limits(max_connections=None), trust_env=False)

    async def forward(self, request: Request, path: str) -> Response:
        if not self.url:
            raise NoSuchPath(f"no {self.name}", hint=f"start the coordinator with {self.option} ADDRESS")
        if not all(part.strip(".") for part in path.split("/")):
            raise NoSuchPath(f"the {self.name} has nothing at {path}")
        body = await read_body(request.scope["headers"], request.receive, BODY_BYTES)
        headers = {name: request.headers[name] for name in ASKED if name in request.headers}
        # As it came: names in it stay percent-encoded.
        raw = request.scope["raw_path"].decode("ascii").split("/", 2)[2]
        query = request.scope["query_string"].decode("latin-1")
        address = f"{self.url}/{raw}{'?' if query else ''}{query}"
        stack = AsyncExitStack()
        try:
            made = self._http.stream(request.method, address, headers=headers, content=body)
            found = await stack.enter_async_context(made)
        except (httpx.TransportError, httpx.InvalidURL):
            # Asked for again and again while it is away: not worth a line in the log each time.
            hint = f"is it running? The coordinator was given {self.option} {self.url}"
            return answer({"error": Unreachable(f"the {self.name} does not answer", hint=hint).to_dict()}, 502)
        kept = {name: found.headers[name] for name in ANSWERED if name in found.headers}
        return Passing(stack, found, kept)

    async def close(self) -> None:
        await self._http.aclose()


class Passing(StreamingResponse):
    """An answer that is passed on as it comes, and let go when either side ends it."""

    def __init__(self, stack: AsyncExitStack, found: httpx.Response, headers: dict[str, str]) -> None:
        self.stack = stack
        super().__init__(self._chunks(found), found.status_code, headers)

    @staticmethod
    async def _chunks(found: httpx.Response) -> AsyncIterator[bytes]:
        try:
            async for chunk in found.aiter_bytes():
                yield chunk
        except httpx.TransportError:
            # A stream of events ends when it ends; of anything else a part is not the whole.
            if not found.headers.get("content-type", "").startswith("text/event-stream"):
                raise

    async def __call__(self, scope: object, receive: object, send: object) -> None:
        async with self.stack:
            await super().__call__(scope, receive, send)  # type: ignore[arg-type]
