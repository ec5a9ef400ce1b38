"""Reads requests: bodies within limits, JSON and query strings into structs. Malformed requests get a 4xx."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import msgspec

from tocsin.errors import LimitExceeded, Malformed, NotAcceptable, NotJson, UnsupportedMedia

#: Several servers share this module, and each has its own reference page.
REFERENCE = "docs/reference describes the parameters of each path"

T = TypeVar("T")
Headers = Iterable[tuple[bytes, bytes]]
Receive = Callable[[], Awaitable[Any]]


class Disconnected(Exception):
    """The client disconnected before its request was complete."""


def header(headers: Headers, name: bytes) -> bytes | None:
    for key, value in headers:
        if key == name:
            return value
    return None


async def read_body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """The whole body; refused as soon as its Content-Length or the bytes received are too many."""
    length = header(headers, b"content-length")
    if length is not None and length.isdigit() and int(length) > limit:
        raise too_large(limit)
    chunks: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        chunks.append(message.get("body", b""))
        size, more = size + len(chunks[-1]), message.get("more_body", False)
        if size > limit:
            raise too_large(limit)
    return b"".join(chunks)


def too_large(limit: int) -> LimitExceeded:
    return LimitExceeded(f"the request is larger than {limit} bytes", hint="send it in smaller parts", limit=limit)


def media_type(headers: Headers, allowed: Iterable[str], default: str) -> str:
    """The media type of the body without its parameters; only UTF-8 is read."""
    raw = header(headers, b"content-type")
    if raw is None:
        return default
    parts = raw.decode("latin-1").lower().split(";")
    media = parts[0].strip()
    known = list(allowed)
    if media not in known:
        raise UnsupportedMedia(f"a body of type {media!r} is not read here", hint=f"send {' or '.join(known)}")
    for part in parts[1:]:
        name, _, value = part.partition("=")
        if name.strip() == "charset" and value.strip().strip('"') not in ("utf-8", "utf8", "us-ascii"):
            raise UnsupportedMedia(f"the charset {value.strip()!r} is not read here", hint="send UTF-8")
    return media


def accepted(headers: Headers, offered: dict[str, str], default: str) -> str:
    """The format that the client prefers: ``offered`` maps media types to names of formats."""
    raw = header(headers, b"accept")
    if raw is None:
        return default
    preferences = []
    for order, item in enumerate(raw.decode("latin-1").lower().split(",")):
        media, *parameters = (part.strip() for part in item.split(";"))
        weight = 1.0
        for parameter in parameters:
            if parameter.startswith("q="):
                try:
                    weight = float(parameter[2:])
                except ValueError:
                    weight = 0.0
        preferences.append((-weight, order, media))
    for weight, _, media in sorted(preferences):
        if weight == 0:
            continue
        if media in offered:
            return offered[media]
        if media in ("*/*", ""):
            return default
        if media in ("application/*", "text/*"):
            return next((name for offer, name in offered.items() if offer.startswith(media[:-1])), default)
    raise NotAcceptable(f"none of {raw.decode('latin-1')!r} is offered", hint=f"accept one of {', '.join(offered)}")


def from_json(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Malformed(f"the request does not fit: {error}", hint=REFERENCE) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise NotJson(f"the body is not JSON: {error}") from error
    except RecursionError as error:
        raise LimitExceeded("the JSON is nested too deeply") from error


def text_of(body: bytes) -> str:
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8: {error.reason} at byte {error.start}") from error


def from_query(query: bytes, kind: type[T]) -> T:
    """The query string as ``kind``: unknown, repeated and badly written parameters are refused."""
    try:
        pairs = parse_qsl(query.decode("ascii"), keep_blank_values=True, strict_parsing=bool(query), errors="strict")
    except (UnicodeError, ValueError) as error:
        raise Malformed(f"the query string cannot be read: {error}") from error
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise Malformed(f"the parameter {name!r} is given twice")
        values[name] = check_text(value, name)
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(f"the query string does not fit: {error}", hint=REFERENCE) from error


def check_text(value: str, what: str) -> str:
    """Refuses control characters: no name has them, and catalogs cannot store NUL."""
    if not value.isprintable() and any(ord(c) < 32 or ord(c) == 127 or 0xD800 <= ord(c) < 0xE000 for c in value):
        raise Malformed(f"{what} has a control character in it")
    return value
