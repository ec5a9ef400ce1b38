"""The emergency application of the city in a data cluster without Spark."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sparkless import sparkless
from tocsin.demo import application
from tocsin.demo.city import City
from tocsin.errors import SystemFailure


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with sparkless(tmp_path) as (_, found):
        yield found


def make(url: str, speed: float) -> str:
    async def ask() -> str:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            return await application.make(client, speed, City(1, 0).shelters)

    return asyncio.run(ask())


def test_the_application_is_created_once_and_then_found(address: str) -> None:
    assert make(address, 10) == "" and make(address, 10) == ""
    found = httpx.get(f"{address}/channels", timeout=60).json()["channels"]
    channels = application.channels()
    for each in found:
        if each["name"] in channels:
            assert tuple(parameter["name"] for parameter in each["parameters"]) == channels[each["name"]]
            assert each["period"] == application.periods(10)[each["name"]]
    assert {each["name"] for each in found} >= set(channels) and len(channels) == 7


def test_a_remark_explains_that_channels_of_another_speed_keep_their_periods(address: str) -> None:
    make(address, 10)
    remark = make(address, 2)
    assert "created for --speed 10" in remark and "--speed 2 use another --home" in remark
    found = {each["name"]: each["period"] for each in httpx.get(f"{address}/channels", timeout=60).json()["channels"]}
    assert application.periods(10).items() <= found.items()


def test_the_error_names_a_conflicting_object(address: str) -> None:
    httpx.post(
        f"{address}/sql",
        content=b"CREATE DATASET Shelters (a string)",
        headers={"content-type": "text/plain"},
        timeout=60,
    )
    with pytest.raises(SystemFailure, match=r"cannot be created: .*Shelters"):
        make(address, 10)
