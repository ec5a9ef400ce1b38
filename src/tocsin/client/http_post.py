"""One POST of JSON and its answer: what a client asks over HTTP before it has a connection.

When a broker is gone, all its clients ask at the same moment, and many of them may be in one process. A bare client
takes a fifth of the processor time of a whole library for that. The library does what is rarer, such as proxies.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx
import msgspec
from msgspec import Struct

from tocsin.http.client import HttpClient, trust

#: Bytes of an answer; nobody here needs more than a token or an address.
LARGEST = 64 * 1024


async def post(url: str, path: str, body: Struct, seconds: float) -> tuple[int, bytes]:
    """The status and the answer. Raises OSError if there is none in time."""
    data = msgspec.json.encode(body)
    send = _directly if url.isascii() and not _proxied(url) else _by_library
    try:
        async with asyncio.timeout(seconds):
            return await send(url, path, data)
    except (UnicodeError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise OSError(str(error) or type(error).__name__) from error


def _proxied(url: str) -> bool:
    parts, proxies = urlsplit(url), getproxies()
    return bool(proxies.get(parts.scheme) or proxies.get("all")) and not proxy_bypass(parts.netloc)


async def _directly(url: str, path: str, data: bytes) -> tuple[int, bytes]:
    caller, found = HttpClient(url), bytearray()

    def take(piece: bytes) -> None:
        found.extend(piece)
        if len(found) > LARGEST:
            raise OSError("the answer is too long")

    try:
        status, refusal = await caller.post(path, data, take, timeout=3600.0)  # the whole is limited
    finally:
        caller.close()
    return status, bytes(found) or refusal


async def _by_library(url: str, path: str, data: bytes) -> tuple[int, bytes]:
    async with httpx.AsyncClient(timeout=None, verify=trust()) as client:
        answer = await client.post(url + path, content=data, headers={"content-type": "application/json"})
    return answer.status_code, answer.content
