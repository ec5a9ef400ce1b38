"""Who may change the network: drain a broker, forget one, choose another strategy."""

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
    """With a token: who knows it. Without: who is on this machine, and only if nobody else can reach the port.

    ``names``: names of this machine that a browser on it may use, besides localhost.
    """

    def __init__(self, token: str, sock: socket.socket, names: Iterable[str] = ()) -> None:
        self._expected = b"Bearer " + token.encode() if token else None
        self._inside = loopback(sock)
        self._by_name = sock.family != socket.AF_UNIX  # no browser gets at those
        self._names = {"localhost", *(name.lower() for name in names)}

    def check(self, headers: Headers) -> None:
        """Raises if the request may not change anything; every route that does begins with this."""
        check_origin(headers)
        if self._expected is None:
            if not self._inside:
                raise Unauthorized("nothing can be changed from outside while there is no admin token", hint=SET_IT)
            if self._by_name and not self._ours(header(headers, b"host")):
                raise CrossOrigin("without an admin token only this machine by its own name is answered", hint=NAME_IT)
        elif not hmac.compare_digest(header(headers, b"authorization") or b"", self._expected):
            raise Unauthorized("this needs the admin token", hint=GIVE_IT)

    def _ours(self, host: bytes | None) -> bool:
        """A page of somebody else whose name was made to mean this machine sends that name, and Origin fits to it."""
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
    """Whether only this machine reaches the socket."""
    if sock.family == socket.AF_UNIX:
        return True
    return ipaddress.ip_address(str(sock.getsockname()[0]).partition("%")[0]).is_loopback
