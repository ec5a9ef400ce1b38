"""Round trips to the brokers of a coordinator, measured over real connections."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from test_client import looped
from test_migration import Coordinator

from tocsin.client.round_trips import MOST_BROKERS, measure_round_trips, select, tcp_round_trip
from tocsin.wire.reports import BrokerAddress

BROKERS = [("north", "ws://north:1"), ("south", "ws://south:1")]


async def measured(*brokers: tuple[str, str], **more: Any) -> dict[str, float]:
    async with Coordinator(brokers=brokers) as coordinator:
        return await measure_round_trips(coordinator.url, None, Random(1), **more)


@looped
async def test_every_broker_has_its_own_round_trip():
    async def measure(url: str) -> float:
        return {"http://north:1": 12.5, "http://south:1": 80.0}[url]

    assert await measured(*BROKERS, measure=measure) == {"north": 12.5, "south": 80.0}


@looped
async def test_brokers_that_fail_or_are_late_are_left_out():
    cancelled = []

    async def measure(url: str) -> float:
        if url == "http://north:1":
            raise OSError
        if url == "http://south:1":
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(url)
        return 5.0

    assert await measured(*BROKERS, ("east", "ws://east:1"), measure=measure, timeout=0.2) == {"east": 5.0}
    assert cancelled == ["http://south:1"]


@looped
async def test_the_time_to_connect_is_a_round_trip():
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        assert 0 < await tcp_round_trip(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") < float("inf")
    with pytest.raises(OSError):
        await tcp_round_trip("http://127.0.0.1:1")


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://coordinator.invalid:1"])
@looped
async def test_without_a_coordinator_there_are_no_round_trips(url):
    assert await measure_round_trips(url, None, Random(1)) == {}


@looped
async def test_without_brokers_there_are_no_round_trips():
    assert await measured() == {}


@looped
async def test_a_broker_with_an_invalid_address_has_no_round_trip():
    assert await measured(("north", "gopher:what")) == {}


def test_of_many_brokers_the_nearest_on_the_map_are_measured():
    brokers = [BrokerAddress(f"b{number}", "ws://b", 0.0, float(number)) for number in range(-179, 180)]
    assert {each.broker for each in select(brokers, (0.0, 178.0), Random(1))} >= {"b178", "b179", "b-179"}
    assert len(select(brokers, (0.0, 178.0), Random(1))) == MOST_BROKERS


def test_without_a_map_random_brokers_are_measured():
    brokers = [BrokerAddress(f"b{number}", "ws://b") for number in range(50)]
    first, second = select(brokers, (1.0, 1.0), Random(1)), select(brokers, None, Random(2))
    assert len({each.broker for each in first}) == MOST_BROKERS and first != second
