"""An operation of the HTTP interface. The router and the OpenAPI document are made from the table of operations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from tocsin.cluster.http.thread_pools import Pool, Threads
from tocsin.cluster.spark.work import Request
from tocsin.config import ClusterConfig
from tocsin.errors import Malformed, TocsinError
from tocsin.http.requests import (
    Disconnected,
    Receive,
    check_origin,
    check_text,
    from_json,
    from_query,
    media_type,
    read_body,
)
from tocsin.http.responses import JSON

if TYPE_CHECKING:
    from tocsin.cluster.service import DataCluster

T = TypeVar("T")
#: Seconds between two checks whether the client of a query is still connected.
ATTENTION = 0.5
Name = Annotated[str, Meta(min_length=1, description="compares without regard to case")]
Number = Annotated[int, Meta(ge=1, le=2**63 - 1)]

PATH_TYPES: dict[str, Any] = {
    "feed": Name,
    "dataset": Name,
    "channel": Name,
    "broker": Name,
    "id": Number,
    "number": Number,
}


class NoParameters(Struct, forbid_unknown_fields=True):
    """An operation that takes no query parameters."""


@dataclass(frozen=True)
class Answer:
    """``kind`` is the type of a JSON body, ``line`` the type of one line of an NDJSON body."""

    description: str
    kind: Any = None
    media: tuple[str, ...] = (JSON,)
    line: Any = None
    status: int = 200


Handler = Callable[["Exchange"], Awaitable[Response]]


@dataclass(frozen=True)
class Operation:
    """An operation without a ``handler`` is only described; the router does not serve it.

    ``errors``: those that not every operation of its kind can answer.
    """

    method: str
    path: str
    name: str
    summary: str
    handler: Handler | None
    answers: tuple[Answer, ...]
    query: type[Struct] = NoParameters
    headers: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    errors: tuple[type[TocsinError], ...] = ()
    description: str = ""

    @property
    def path_names(self) -> list[str]:
        return re.findall(r"{(\w+)}", self.path)


def operation(method: str, path: str, summary: str, *answers: Answer, **details: Any) -> Callable[[Handler], Operation]:
    """Makes the operation of the decorated handler, with the handler's name."""
    return lambda handler: Operation(method, path, handler.__name__, summary, handler, answers, **details)


class Exchange:
    """One request: its checked path, query and headers, the cluster and the thread pools."""

    def __init__(self, site: Site, operation: Operation, scope: dict[str, Any], receive: Receive) -> None:
        self.site = site
        self.cluster = site.cluster
        self.threads = site.threads
        self.limits = site.config.limits
        self.headers: list[tuple[bytes, bytes]] = scope["headers"]
        self.receive = receive
        self._request = HttpRequest(scope, receive)
        if operation.method != "GET":
            check_origin(self.headers)
        self.path = {name: path_value(name, raw) for name, raw in scope.get("path_params", {}).items()}
        self.query: Any = from_query(scope["query_string"], operation.query)

    async def gone(self) -> bool:
        """Whether the client has disconnected."""
        return await self._request.is_disconnected()

    async def attend(self, pool: Pool, call: Callable[..., T], *args: Any) -> T:
        """Run a call in a pool. If the client disconnects meanwhile, the call's work in Spark is cancelled."""
        request = Request()
        running: asyncio.Future[T] = asyncio.ensure_future(pool.run(request.run, call, *args))
        try:
            while not (await asyncio.wait({running}, timeout=ATTENTION))[0]:
                if await self.gone():
                    raise Disconnected
            return running.result()
        finally:
            request.stop()
            running.cancel()

    async def body(self, kind: type[Any], limit: int | None = None) -> Any:
        """The JSON body as ``kind``."""
        media_type(self.headers, [JSON], JSON)
        return from_json(await read_body(self.headers, self.receive, limit or self.limits.request_bytes), kind)


@dataclass
class Site:
    """The objects that all requests share. ``stopping`` ends long polls when the server shuts down."""

    cluster: DataCluster
    config: ClusterConfig
    threads: Threads
    operations: tuple[Operation, ...] = ()
    document: dict[str, Any] = field(default_factory=dict)
    stopping: bool = False


def path_value(name: str, raw: str) -> Any:
    kind = PATH_TYPES[name]
    try:
        value = msgspec.convert(raw, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(f"{raw!r} is not a valid {name}: {error}") from error
    return check_text(value, name) if kind is Name else value
