"""Who may change the network: drain a broker, forget one, choose another strategy."""

from __future__ import annotations

import hmac
import ipaddress
import socket

from tocsin.errors import Unauthorized
from tocsin.web.reading import Headers, check_origin, header

SET_IT = "set one with --admin-token or TOCSIN_COORDINATOR_ADMIN_TOKEN, or listen on 127.0.0.1"
GIVE_IT = "send Authorization: Bearer with the coordinator's admin token (--admin-token)"


class Admin:
    """With a token: who knows it. Without: who is on this machine, and only if nobody else can reach the port."""

    def __init__(self, token: str, sock: socket.socket) -> None:
        self._expected = b"Bearer " + token.encode() if token else None
        self._inside = loopback(sock)

    def check(self, headers: Headers) -> None:
        """Raises if the request may not change anything; every route that does begins with this."""
        check_origin(headers)
        if self._expected is None:
            if not self._inside:
                raise Unauthorized("nothing can be changed from outside while there is no admin token", hint=SET_IT)
        elif not hmac.compare_digest(header(headers, b"authorization") or b"", self._expected):
            raise Unauthorized("this needs the admin token", hint=GIVE_IT)


def loopback(sock: socket.socket) -> bool:
    """Whether only this machine reaches the socket."""
    if sock.family == socket.AF_UNIX:
        return True
    return ipaddress.ip_address(str(sock.getsockname()[0]).partition("%")[0]).is_loopback
