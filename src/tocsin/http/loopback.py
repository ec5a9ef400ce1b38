"""Whether an address can be reached from this machine only."""

from __future__ import annotations

import socket
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import urlsplit


def resolved(host: str) -> list[IPv4Address | IPv6Address]:
    """All addresses of a host; an OSError or UnicodeError if it is not known."""
    found = {str(each[4][0]) for each in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    addresses = [ip_address(each.partition("%")[0]) for each in found]
    return [getattr(each, "ipv4_mapped", None) or each for each in addresses]


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
