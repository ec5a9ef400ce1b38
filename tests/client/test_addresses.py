"""Addresses of brokers."""

from __future__ import annotations

import pytest

from tocsin.client.addresses import Address, address
from tocsin.errors import UserError


@pytest.mark.parametrize(
    ("url", "socket", "http"),
    [
        ("http://host:1", "ws://host:1/v1/ws", "http://host:1"),
        ("https://host/", "wss://host/v1/ws", "https://host"),
        ("ws://host:1/v1/ws", "ws://host:1/v1/ws", "http://host:1"),
        ("wss://host/alarms", "wss://host/alarms/v1/ws", "https://host/alarms"),
        ("tocsin://host", "ws://host:8481/v1/ws", "http://host:8481"),
        ("tocsin://[::1]:9", "ws://[::1]:9/v1/ws", "http://[::1]:9"),
    ],
)
def test_an_address_may_have_several_forms(url, socket, http):
    assert address(url) == Address(socket, http)


@pytest.mark.parametrize(
    "url", ["", "host:1", "ftp://host", "http://", "http://host:port", "http://[", "ws://a:b@host"]
)
def test_an_invalid_address_is_an_error(url):
    with pytest.raises(UserError, match="is not the address of a broker"):
        address(url)
