"""Which requests of browsers a server accepts: the Host header against DNS rebinding, the Origin header by a setting.

A page of any site can make its visitor's browser send requests to servers that only this browser can reach. If the
page's own name resolves to 127.0.0.1 (DNS rebinding), Origin and Host are equal, and only the name is wrong.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from starlette.responses import Response

from tocsin.errors import CrossOrigin, TocsinError
from tocsin.http.requests import Headers, header
from tocsin.http.responses import error_answer

#: Hosts that were accepted before, so that the usual ones are parsed once.
KNOWN_HOSTS = 64
#: For the answer to a preflight request.
CORS = {
    "access-control-allow-methods": "GET, POST, PUT, DELETE",
    "access-control-allow-headers": "authorization, content-type, idempotency-key, last-event-id",
    "access-control-max-age": "600",
}


class Access:
    """``hosts`` are names of this server besides those of loopback and its ``own`` ones. A server that listens beyond
    loopback and has no ``hosts`` answers to every name. Pages of the same origin and of ``origins`` may send requests;
    ``*`` allows all."""

    def __init__(
        self, sock: socket.socket, hosts: Iterable[str] = (), origins: Iterable[str] = (), *, own: Iterable[str] = ()
    ) -> None:
        names = list(hosts)
        self._hosts = {name.lower() for name in (*names, *own) if name}
        self._origins = {origin.lower().rstrip("/") for origin in origins}
        # Browsers cannot reach a Unix socket.
        self._any_host = sock.family == socket.AF_UNIX or not (loopback(sock) or names)
        self._known: set[bytes] = set()

    def refusal(self, headers: Headers) -> TocsinError | None:
        """Why this request is refused; None accepts it."""
        host = origin = None
        for name, value in headers:
            if name == b"host":
                host = value if host is None else b""  # two are none
            elif name == b"origin":
                origin = value
        if not self.accepts_host(host):
            return CrossOrigin(
                "this server does not answer to the name in the Host header",
                hint="use localhost or 127.0.0.1, or add the name to the setting `hosts`",
            )
        if origin is not None and not same_origin(origin, host) and not self._allows(origin):
            return CrossOrigin(
                "requests from pages of another site are refused", hint="add the site to the setting `origins`"
            )
        return None

    def accepts_host(self, host: bytes | None) -> bool:
        if self._any_host or host in self._known:
            return True
        if not means_loopback(host, self._hosts):
            return False
        if len(self._known) < KNOWN_HOSTS:
            self._known.add(host or b"")
        return True

    def _allows(self, origin: bytes) -> bool:
        return "*" in self._origins or origin.decode("latin-1").lower() in self._origins

    def guard(self, app: Any, headers: Headers) -> Any:
        """The application that answers this request: ``app``, or one that refuses, or one that adds CORS headers."""
        error = self.refusal(headers)
        if error is not None:
            return error_answer(error)
        origin = header(headers, b"origin")
        return CorsApp(app, origin) if origin is not None and self._allows(origin) else app


class CorsApp:
    """Answers preflight requests, and lets the page of ``origin`` read all answers."""

    def __init__(self, app: Any, origin: bytes) -> None:
        self._app, self._origin = app, origin

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def allowed(message: Any) -> None:
            if message["type"] == "http.response.start":
                cors = [(b"access-control-allow-origin", self._origin), (b"vary", b"origin")]
                message = message | {"headers": [*message.get("headers", ()), *cors]}
            await send(message)

        preflight = scope["method"] == "OPTIONS" and header(scope["headers"], b"access-control-request-method")
        await (Response(None, 204, CORS) if preflight else self._app)(scope, receive, allowed)


def host_of(url: str) -> str:
    """The host name in an address; '' if it has none."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def same_origin(origin: bytes, host: bytes | None) -> bool:
    try:
        of = urlsplit(origin.decode("latin-1")).netloc.lower()
    except ValueError:
        return False  # not an address
    return bool(of) and of == (host or b"").decode("latin-1").lower()


def means_loopback(host: bytes | None, names: Iterable[str] = ()) -> bool:
    """Whether a Host header is a name or address of loopback, or one of ``names``; with any port."""
    try:
        given = (host or b"").decode("ascii").lower()
        found = urlsplit("//" + given)
        name, port = found.hostname, found.port
    except (ValueError, UnicodeDecodeError):
        return False
    spelled = f"[{name}]" if name and ":" in name else name
    if not name or given not in (spelled, f"{spelled}:{port}"):
        return False
    if name == "localhost" or name in names:
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def loopback(sock: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    if sock.family == socket.AF_UNIX:
        return True
    return ipaddress.ip_address(str(sock.getsockname()[0]).partition("%")[0]).is_loopback
