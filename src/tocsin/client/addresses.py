"""Addresses of brokers, in the forms that people write."""

from __future__ import annotations

from urllib.parse import urlsplit

from msgspec import Struct

from tocsin.errors import UserError

PORT = 8481
SOCKET = "/v1/ws"
_SCHEMES = {"ws": "", "http": "", "tocsin": "", "wss": "s", "https": "s"}


class Address(Struct, frozen=True):
    """``socket`` for WebSocket, ``http`` for everything else."""

    socket: str
    http: str


def address(url: str) -> Address:
    """``ws``, ``wss``, ``http``, ``https`` or ``tocsin``; a path before ``/v1/ws`` is kept, for proxies."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise _wrong(url, str(error)) from error
    if parts.scheme not in _SCHEMES:
        raise _wrong(url, "it does not begin with ws:, wss:, http:, https: or tocsin:")
    if not parts.hostname:
        raise _wrong(url, "it has no host")
    if parts.username is not None or parts.query or parts.fragment:
        raise _wrong(url, "only a host, a port and a path are allowed")
    secure = _SCHEMES[parts.scheme]
    if port is None and parts.scheme == "tocsin":
        port = PORT
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    location = (host if port is None else f"{host}:{port}") + parts.path.rstrip("/").removesuffix(SOCKET)
    return Address(f"ws{secure}://{location}{SOCKET}", f"http{secure}://{location}")


def _wrong(url: str, why: str) -> UserError:
    return UserError(f"{url!r} is not the address of a broker: {why}", hint=f"give one like http://127.0.0.1:{PORT}")
