"""Limits by address: of the coordinator's public routes, and behind a proxy."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from address_limits import CONNECTIONS, PLACEMENTS
from broker_lab import Speaker
from websockets.exceptions import ConnectionClosed


@pytest.fixture
def http(servers: dict[str, str]) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=servers["coordinator"], timeout=120, trust_env=False) as found:
        yield found


SUBSCRIBER = "a-subscriber-of-these-tests"


def through_proxy(address: str) -> dict[str, str]:
    """As the proxy on this machine, which the servers trust, sends it; the client has claimed to be another one."""
    return {"x-forwarded-for": f"127.0.0.1, {address}"}


def test_placements_are_limited_for_each_address(http: httpx.Client) -> None:
    def place(address: str) -> httpx.Response:
        return http.post("/requestbroker", json={"subscriber": SUBSCRIBER}, headers=through_proxy(address))

    answers = (place("198.51.100.1") for _ in range(1_000))  # some are allowed again while these are answered
    number, refused = next((number, each) for number, each in enumerate(answers) if each.status_code != 200)
    assert number >= PLACEMENTS
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limited")
    assert refused.headers["retry-after"] in ("1", "2")
    assert place("198.51.100.2").status_code == 200


def test_a_broker_counts_connections_by_the_address_that_the_proxy_names(servers: dict[str, str]) -> None:
    stranger = through_proxy("198.51.100.1")
    connected = [Speaker(servers["broker"], headers=stranger) for _ in range(CONNECTIONS)]
    with pytest.raises(ConnectionClosed, match=r"too many connections from 198\.51\.100\.1"):
        Speaker(servers["broker"], headers=stranger)
    connected.append(Speaker(servers["broker"], headers=through_proxy("198.51.100.2")))
    for each in connected:
        each.close()
