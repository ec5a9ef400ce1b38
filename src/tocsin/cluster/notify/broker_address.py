"""The addresses of brokers that the data cluster may notify: an allow-list of networks and host names."""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv6Address, ip_network
from urllib.parse import urlsplit

from tocsin.errors import UserError
from tocsin.http.addresses import is_loopback, resolved

LOOPBACK = ("127.0.0.0/8", "::1/128", "0.0.0.0/32", "::/128")
PRIVATE = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_PATH = re.compile(r"/?|(/[A-Za-z0-9._~-]+)*/notify")


class BrokerAddresses:
    """``allowed``: networks and host names. If empty: loopback, and private networks unless ``host`` is loopback."""

    def __init__(self, allowed: Iterable[str], host: str) -> None:
        entries = tuple(allowed)
        if not entries:
            entries = LOOPBACK if is_loopback(host) else LOOPBACK + PRIVATE
        self.names = {each.lower() for each in entries if _HOST.fullmatch(each) and re.search("[A-Za-z]", each)}
        try:
            self.networks = [ip_network(each, strict=False) for each in entries if each.lower() not in self.names]
        except ValueError as error:
            raise UserError(f"the setting broker_addresses is wrong: {error}") from error

    def check(self, url: str) -> str:
        """The address, if it is well-formed and on the allow-list."""
        host = _host_of(url)
        if host.lower() not in self.names:
            for address in _resolved(host):
                if not any(address.version == each.version and address in each for each in self.networks):
                    raise UserError(
                        f"the address of a broker must not be {host!r}",
                        hint="the setting broker_addresses lists the networks and host names that are allowed",
                    )
        return url


def _host_of(url: str) -> str:
    wrong = UserError(
        f"{url[:100]!r} is not the address of a broker",
        hint="write http://host:port or https://host:port, with /notify as the only path",
    )
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise wrong from error
    netloc = parts.netloc.rpartition(":")[0] if port is not None else parts.netloc
    well_formed = (
        parts.scheme in ("http", "https")
        and _HOST.fullmatch(netloc)
        and port != 0
        and _PATH.fullmatch(parts.path)
        and not set(url) & set("?#@\\")
        and url.isprintable()
        and " " not in url
        and ".." not in url
        and len(url) <= 2_000
    )
    if not well_formed:
        raise wrong
    return host


def _resolved(host: str) -> list[IPv4Address | IPv6Address]:
    try:
        return resolved(host)
    except (OSError, UnicodeError) as error:
        raise UserError(f"the host {host!r} of a broker is not known: {error}") from error
