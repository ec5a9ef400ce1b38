"""Whose address a request has, directly and through proxies."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.config import ProxyHeader
from tocsin.errors import UserError
from tocsin.http.addresses import Proxies, client_of


def seen(
    peer: str | None,
    *values: str,
    trusted: tuple[str, ...] = ("10.0.0.0/8", "127.0.0.1", "fd00::/8"),
    header: ProxyHeader = "x-forwarded-for",
) -> str:
    """The address that limits count, of a request with these values in both headers of proxies."""
    scope: dict[str, Any] = {"client": (peer, 4711) if peer else None}
    headers = [(header.encode(), value.encode()) for value in values]
    scope["client"] = Proxies(trusted, header).client(scope, headers)
    return client_of(scope)


def test_a_client_without_a_proxy_cannot_choose_its_address() -> None:
    assert seen("192.0.2.7", "198.51.100.1") == "192.0.2.7"
    assert seen("10.0.0.1", "198.51.100.1", trusted=()) == "10.0.0.1"
    assert seen(None, "198.51.100.1") == ""


def test_a_trusted_proxy_names_the_client() -> None:
    assert seen("10.0.0.1", "198.51.100.1") == "198.51.100.1"
    assert seen("127.0.0.1", "198.51.100.1:4711") == "198.51.100.1"
    assert seen("10.0.0.1") == "10.0.0.1", "it says nothing"


def test_what_a_client_claims_itself_does_not_count() -> None:
    assert seen("10.0.0.1", "203.0.113.5, 198.51.100.1") == "198.51.100.1"
    assert seen("10.0.0.1", "203.0.113.5", "198.51.100.1") == "198.51.100.1", "in two lines"
    assert seen("10.0.0.1", "198.51.100.1, 10.0.0.2, 10.0.0.3") == "198.51.100.1", "through three proxies"
    assert seen("10.0.0.1", "198.51.100.1, nonsense") == "10.0.0.1"
    assert seen("10.0.0.1", "198.51.100.1, nonsense, 10.0.0.2") == "10.0.0.2"


def test_the_header_forwarded_counts_where_the_proxies_set_it() -> None:
    entries = ("for=203.0.113.5", 'for="198.51.100.1:47011";proto=https;by=10.0.0.1, For=10.0.0.2')
    assert seen("10.0.0.1", *entries, header="forwarded") == "198.51.100.1"
    assert seen("10.0.0.1", "proto=https", header="forwarded") == "10.0.0.1"
    scope = {"client": ("10.0.0.1", 1)}
    other = [(b"x-forwarded-for", b"203.0.113.5")]
    assert Proxies(["10.0.0.1"], "forwarded").client(scope, other) == ("10.0.0.1", 1), "a header that no proxy checks"


def test_a_client_has_a_whole_network_of_ipv6_addresses() -> None:
    assert seen("2001:db8:1:2:3::4") == seen("2001:db8:1:2:9::9%eth0") == "2001:db8:1:2::/64"
    assert seen("fd00::1", 'for="[2001:db8::17]:47011"', header="forwarded") == "2001:db8::/64"
    assert seen("::ffff:192.0.2.7") == "192.0.2.7"


@pytest.mark.parametrize("wrong", ["proxy.example.org", "10.0.0.0/99", ""])
def test_proxies_are_addresses_or_networks(wrong: str) -> None:
    with pytest.raises(UserError, match="trusted_proxies"):
        Proxies([wrong])
