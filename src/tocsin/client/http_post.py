"""What a client asks over HTTP before it has a connection: a token, and a broker of the coordinator.

When a broker is gone, all its clients ask at the same moment, and many of them may be in one process. A bare client
takes a fifth of the processor time of a whole library for that. The library does what is rarer, such as proxies.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import msgspec
from msgspec import Struct

from tocsin.client.core.login import Tokens
from tocsin.errors import SystemFailure, TocsinError, Unauthorized, Unreachable, UserError
from tocsin.http.client import Context, HttpClient, trust
from tocsin.wire.remote_errors import remote_error
from tocsin.wire.reports import BrokerRequest, Placement

#: Bytes of an answer; a token or an address needs no more.
LARGEST = 64 * 1024
#: Seconds for the answer to a login, and to a request for a broker.
LOGIN_TIMEOUT, PLACEMENT_TIMEOUT = 10.0, 5.0

T = TypeVar("T")


class Credentials(Struct, frozen=True, omit_defaults=True):
    user: str
    password: str
    device: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, device={self.device!r})"  # never the password


class _Refresh(Struct, frozen=True):
    refresh: str


class _Problem(Struct):
    code: str
    message: str
    hint: str = ""


class _Refusal(Struct):
    error: _Problem


async def login(server: str, credentials: Credentials, context: Context = trust) -> Tokens:
    """A token of the coordinator, or of a broker without one. A UserError is final; the caller may retry after other
    errors."""
    return await _ask(server, "/login", credentials, Tokens, "server", LOGIN_TIMEOUT, UserError, context)


async def refresh(server: str, token: str, context: Context = trust) -> Tokens:
    """The next token, without the password. Raises Unauthorized if the session has ended."""
    return await _ask(server, "/refresh", _Refresh(token), Tokens, "server", LOGIN_TIMEOUT, UserError, context)


async def request_broker(coordinator: str, request: BrokerRequest, context: Context = trust) -> Placement:
    """A UserError is final; the caller may retry after other errors."""
    return await _ask(
        coordinator, "/requestbroker", request, Placement, "coordinator", PLACEMENT_TIMEOUT, SystemFailure, context
    )


async def _ask(
    url: str,
    path: str,
    body: Struct,
    kind: type[T],
    server: str,
    timeout: float,
    unreadable: type[TocsinError],
    context: Context,
) -> T:
    try:
        status, content = await post(url, path, body, timeout, context)
    except OSError as error:
        raise Unreachable(f"no {server} answers at {url}: {str(error) or type(error).__name__}") from error
    if not 200 <= status < 300:
        raise _refusal(status, content, url + path)
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise unreadable(f"{url} does not answer like a {server}") from error


def _refusal(status: int, content: bytes, url: str) -> TocsinError:
    try:
        problem = msgspec.json.decode(content, type=_Refusal).error
        return remote_error(problem.code, problem.message, problem.hint)
    except msgspec.DecodeError:  # not one of our servers
        text = f"{url} answers with status {status}"
        if status in (401, 403):
            return Unauthorized(text)
        return SystemFailure(text) if status >= 500 else UserError(text)


async def post(url: str, path: str, body: Struct, seconds: float, context: Context = trust) -> tuple[int, bytes]:
    """The status and the answer. Raises OSError if there is none in time."""
    data = msgspec.json.encode(body)
    send = _directly if url.isascii() and not _proxied(url) else _by_library
    try:
        async with asyncio.timeout(seconds):
            return await send(url, path, data, context)
    except (UnicodeError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error


def _proxied(url: str) -> bool:
    parts, proxies = urlsplit(url), getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.netloc)


async def _directly(url: str, path: str, data: bytes, context: Context) -> tuple[int, bytes]:
    caller, found = HttpClient(url, context), bytearray()

    def take(piece: bytes) -> None:
        found.extend(piece)
        if len(found) > LARGEST:
            raise OSError("the answer is too long")

    try:
        status, refusal = await caller.post(path, data, take, timeout=3600.0)  # the whole is limited
    finally:
        caller.close()
    return status, bytes(found) or refusal


async def _by_library(url: str, path: str, data: bytes, context: Context) -> tuple[int, bytes]:
    async with httpx.AsyncClient(timeout=None, verify=context()) as client:
        answer = await client.post(url + path, content=data, headers={"content-type": "application/json"})
    return answer.status_code, answer.content
