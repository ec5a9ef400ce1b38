"""Measures round trips to brokers, for a coordinator that places each subscriber at its nearest broker."""

from __future__ import annotations

import asyncio
import math
import socket
from collections.abc import Awaitable, Callable
from random import Random
from urllib.parse import urlsplit

import msgspec

from tocsin.client.addresses import address
from tocsin.errors import UserError
from tocsin.http.client import Context, HttpClient, trust
from tocsin.wire.reports import BrokerAddress, BrokerList

#: Seconds for the list of brokers, and again for all measurements together.
TIMEOUT = 2.0
#: Brokers that are measured, of however many there are.
MOST_BROKERS = 8
#: Connections to each; the fastest counts.
SAMPLES = 3

Location = tuple[float, float]


async def measure_round_trips(
    coordinator: str,
    location: Location | None,
    random: Random,
    *,
    measure: Callable[[str], Awaitable[float]] | None = None,
    timeout: float = TIMEOUT,
    context: Context = trust,
) -> dict[str, float]:
    """Broker: milliseconds. Brokers that do not answer in time are left out; empty without a list of brokers."""
    try:
        brokers = select(await list_brokers(coordinator, timeout, context), location, random)
    except (OSError, UserError, msgspec.DecodeError):
        return {}
    tasks = {
        each.broker: asyncio.ensure_future((measure or tcp_round_trip)(address(each.url).http)) for each in brokers
    }
    if tasks:
        _, late = await asyncio.wait(tasks.values(), timeout=timeout)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)
    return {name: task.result() for name, task in tasks.items() if not task.cancelled() and task.exception() is None}


async def list_brokers(coordinator: str, timeout: float, context: Context = trust) -> list[BrokerAddress]:
    client, body = HttpClient(coordinator, context), bytearray()
    try:
        async with asyncio.timeout(timeout):
            status, _ = await client.get("/brokers", body.extend, timeout)
    finally:
        client.close()
    if status != 200:
        raise OSError(f"the coordinator answered with status {status}")
    brokers = msgspec.json.decode(bytes(body), type=BrokerList).brokers
    for each in brokers:
        address(each.url)  # a UserError, if it is not an address
    return brokers


def select(brokers: list[BrokerAddress], location: Location | None, random: Random) -> list[BrokerAddress]:
    """The nearest on the map if all positions are known, else random ones."""
    if len(brokers) <= MOST_BROKERS:
        return brokers
    if location is None or any(each.lat is None or each.lon is None for each in brokers):
        return random.sample(brokers, MOST_BROKERS)
    lat, lon = location

    def distance(broker: BrokerAddress) -> float:
        assert broker.lat is not None and broker.lon is not None
        east = (broker.lon - lon + 180) % 360 - 180
        return math.hypot(broker.lat - lat, east * math.cos(math.radians((broker.lat + lat) / 2)))

    return sorted(brokers, key=distance)[:MOST_BROKERS]


async def tcp_round_trip(url: str) -> float:
    """Milliseconds to open a TCP connection, which takes one round trip."""
    loop, parts = asyncio.get_running_loop(), urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    family, kind, protocol, _, target = (await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM))[0]
    fastest = math.inf
    for _ in range(SAMPLES):
        with socket.socket(family, kind, protocol) as sock:
            sock.setblocking(False)
            began = loop.time()
            await loop.sock_connect(sock, target)
            fastest = min(fastest, loop.time() - began)
    return fastest * 1e3
