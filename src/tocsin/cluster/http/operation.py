"""An operation of the HTTP interface. The router and the OpenAPI document are made from the table of operations."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from tocsin.cluster.http.principals import Principals
from tocsin.cluster.spark.work import Request
from tocsin.config import ClusterConfig
from tocsin.errors import Malformed, TocsinError, Unauthorized
from tocsin.http.requests import (
    Disconnected,
    Receive,
    check_text,
    from_json,
    from_query,
    media_type,
    read_body,
)
from tocsin.http.responses import JSON
from tocsin.http.thread_pools import Pool, Threads
from tocsin.identity.grants import ANONYMOUS, PART, Arguments, Policy, Principal
from tocsin.identity.part_keys import Part

if TYPE_CHECKING:
    from tocsin.cluster.service import DataCluster

T = TypeVar("T")
#: Seconds between two checks whether the client of a query is still connected.
ATTENTION = 0.5
SIGN = "brokers sign their requests (header tocsin-part); use a broker that was made with CREATE BROKER"
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

    ``errors``: those that not every operation of its kind can answer. ``access``: only other parts and operators,
    those that prove the join secret, those whom the handler itself allows, or anyone.
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
    access: Literal["parts", "joins", "checked", "anyone"] = "parts"

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
        self.path = {name: path_value(name, raw) for name, raw in scope.get("path_params", {}).items()}
        self.query: Any = from_query(scope["query_string"], operation.query)
        self.principal: Principal = ANONYMOUS
        self._scope, self._access = scope, operation.access

    @property
    def policy(self) -> Policy:
        return self.cluster.policy

    @property
    def is_operator(self) -> bool:
        return self.policy.refusal(self.principal, "admin") is None

    async def authorize(self) -> None:
        """Finds the principal, and refuses it unless others than parts are allowed."""
        if self._access != "anyone":
            self.principal = await self.site.principals.find(self._scope)
        joins = self._access == "joins" and not self.site.config.join_secret
        if (self._access == "parts" or joins) and not self.principal.holds >= PART.holds:
            self.policy.check(self.principal, "admin")

    def check_subscribe(self, args: Arguments | None = None) -> None:
        self.policy.check(self.principal, "subscribe", self.path["channel"], args)

    @cached_property
    def part(self) -> Part | None:
        """The part whose key signed this request."""
        return self.cluster.sender(self.headers)

    def check_broker(self, name: str | None) -> None:
        """A broker that has a key acts only with that key."""
        key = self.cluster.key_of(name) if name is not None else ""
        if key and (self.part is None or self.part.key != key):
            raise Unauthorized(f"the key of the broker {name!r} did not sign this request", hint=SIGN)

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
    principals: Principals
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
