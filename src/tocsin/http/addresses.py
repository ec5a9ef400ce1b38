"""Addresses: which can be reached from this machine only, and which is a client's, also behind a proxy."""

from __future__ import annotations

import socket
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any
from urllib.parse import urlsplit

from tocsin.config import ProxyHeader
from tocsin.errors import UserError
from tocsin.http.requests import Headers

Address = IPv4Address | IPv6Address

#: Leading bits of an IPv6 address that one client has: it may choose the others.
IPV6_CLIENT = 64


def resolved(host: str) -> list[Address]:
    """All addresses of a host; an OSError or UnicodeError if it is not known."""
    found = {str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    return [_parsed(each) for each in found]


def is_loopback(host: str) -> bool:
    try:
        return all(each.is_loopback for each in resolved(host))
    except (OSError, UnicodeError):
        return False


def is_loopback_url(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def client_of(scope: Any) -> str:
    """The address that limits count by; of IPv6 the network, because a client has as many addresses as it likes."""
    host = scope["client"][0] if scope["client"] else ""
    if ":" not in host:
        return str(host)
    address = _parsed(host)
    return str(ip_network((int(address), IPV6_CLIENT), strict=False) if address.version == 6 else address)


class Proxies:
    """Whose word about the address of a client counts: ``trusted`` are networks and addresses of proxies.

    The header has one entry for each proxy on the way, the client's own claims first: the last one that is not a proxy
    is the client.
    """

    def __init__(self, trusted: Iterable[str], header: ProxyHeader = "x-forwarded-for") -> None:
        self._header = header.encode()
        try:
            self._trusted = [ip_network(each, strict=False) for each in trusted]
        except ValueError as error:
            hint = "write networks or addresses, such as 10.1.0.0/16"
            raise UserError(f"the setting trusted_proxies is wrong: {error}", hint=hint) from error

    def client(self, scope: Any, headers: Headers) -> Any:
        """The ``client`` of the scope: that of the connection, unless a proxy of these sends it for another one."""
        client = scope["client"]
        if not self._trusted or not client or not self._is_proxy(client[0]):
            return client
        text = b",".join(value for name, value in headers if name == self._header).decode("latin-1")
        for entry in reversed(text.split(",")):
            found = _forwarded_for(entry) if self._header == b"forwarded" else entry
            host = _without_port(found.strip())
            try:
                client = (str(_parsed(host)), 0)
            except ValueError:
                return client  # not an address: the proxy after it is all that is known
            if not self._is_proxy(client[0]):
                return client
        return client

    def _is_proxy(self, host: str) -> bool:
        address = _parsed(host)
        return any(address.version == each.version and address in each for each in self._trusted)


def _parsed(text: str) -> Address:
    address = ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address


def _forwarded_for(entry: str) -> str:
    """Of one entry of the header Forwarded (RFC 7239)."""
    for pair in entry.split(";"):
        name, _, value = pair.strip().partition("=")
        if name.lower() == "for":
            return value.strip('"')
    return ""


def _without_port(text: str) -> str:
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.partition(":")[0] if text.count(":") == 1 else text
