"""Authorises changes of the network, such as draining a broker, and views of it."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Iterable

from tocsin.errors import CrossOrigin, Unauthorized
from tocsin.http.access import loopback, means_loopback, same_origin
from tocsin.http.requests import Headers, header

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
        self._names = {name.lower() for name in names}

    def check(self, headers: Headers) -> None:
        """Raise unless the request may make changes; every route that makes changes begins with this."""
        if self._expected is None:
            if not self._inside:
                raise Unauthorized("requests of operators from other machines need an admin token", hint=SET_IT)
            host, origin = header(headers, b"host"), header(headers, b"origin")
            if origin is not None and not same_origin(origin, host):
                raise CrossOrigin("without an admin token only this server's own page may make changes", hint=SET_IT)
            if self._by_name and not means_loopback(host, self._names):
                raise CrossOrigin("without an admin token the request must use this machine's own name", hint=NAME_IT)
        elif not hmac.compare_digest(header(headers, b"authorization") or b"", self._expected):
            raise Unauthorized("wrong or missing admin token", hint=GIVE_IT)

    def check_view(self, headers: Headers) -> None:
        """Raise unless the request may see the network: brokers, their load, channels, decisions."""
        if not self._inside:
            self.check(headers)
