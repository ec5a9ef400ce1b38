"""Authorises changes of the network: draining and forgetting a broker, choosing another strategy."""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from tocsin.errors import CrossOrigin, Unauthorized
from tocsin.http.requests import Headers, check_origin, header

SET_IT = "set one with --admin-token or TOCSIN_COORDINATOR_ADMIN_TOKEN, or listen on 127.0.0.1"
NAME_IT = "ask for localhost or 127.0.0.1, or set --admin-token"
GIVE_IT = "send Authorization: Bearer with the coordinator's admin token (--admin-token)"


class Admin:
    """With a token, requests must carry it. Without one, only this machine may, and only if the port is not reachable
    from others. ``names``: names of this machine that a browser on it may use, besides localhost."""

    def __init__(self, token: str, sock: socket.socket, names: Iterable[str] = ()) -> None:
        self._expected = b"Bearer " + token.encode() if token else None
        self._inside = loopback(sock)
        self._by_name = sock.family != socket.AF_UNIX  # browsers cannot reach those
        self._names = {"localhost", *(name.lower() for name in names)}

    def check(self, headers: Headers) -> None:
        """Raise unless the request may make changes; every route that makes changes begins with this."""
        check_origin(headers)
        if self._expected is None:
            if not self._inside:
                raise Unauthorized("changes from other machines need an admin token", hint=SET_IT)
            if self._by_name and not self._ours(header(headers, b"host")):
                raise CrossOrigin("without an admin token the request must use this machine's own name", hint=NAME_IT)
        elif not hmac.compare_digest(header(headers, b"authorization") or b"", self._expected):
            raise Unauthorized("wrong or missing admin token", hint=GIVE_IT)

    def _ours(self, host: bytes | None) -> bool:
        """Guards against DNS rebinding: a foreign page under a name that resolves to this machine sends that name."""
        try:
            given = (host or b"").decode("ascii").lower()
            found = urlsplit("//" + given)
            name, port = found.hostname, found.port
        except (ValueError, UnicodeDecodeError):
            return False
        if not name or given not in (spelled(name), f"{spelled(name)}:{port}"):
            return False
        if name in self._names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False


def spelled(name: str) -> str:
    return f"[{name}]" if ":" in name else name


def loopback(sock: socket.socket) -> bool:
    """Whether only this machine can reach the socket."""
    if sock.family == socket.AF_UNIX:
        return True
    return ipaddress.ip_address(str(sock.getsockname()[0]).partition("%")[0]).is_loopback
