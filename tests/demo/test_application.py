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
def url(tmp_path: Path) -> Iterator[str]:
    with sparkless(tmp_path) as (_, found):
        yield found


def make(url: str, speed: float) -> str:
    async def ask() -> str:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            return await application.make(client, speed, City(1, 0).shelters)

    return asyncio.run(ask())


def test_the_application_is_created_once_and_then_found(url: str) -> None:
    assert make(url, 10) == "" and make(url, 10) == ""
    found = httpx.get(f"{url}/channels", timeout=60).json()["channels"]
    channels = application.channels()
    for each in found:
        if each["name"] in channels:
            assert tuple(parameter["name"] for parameter in each["parameters"]) == channels[each["name"]]
            assert each["period"] == application.periods(10)[each["name"]]
    assert {each["name"] for each in found} >= set(channels) and len(channels) == 7


def test_a_remark_explains_that_channels_of_another_speed_keep_their_periods(url: str) -> None:
    make(url, 10)
    remark = make(url, 2)
    assert "created for --speed 10" in remark and "--speed 2 use another --home" in remark
    found = {each["name"]: each["period"] for each in httpx.get(f"{url}/channels", timeout=60).json()["channels"]}
    assert application.periods(10).items() <= found.items()


def test_the_error_names_a_conflicting_object(url: str) -> None:
    httpx.post(
        f"{url}/sql", content=b"CREATE DATASET Shelters (a string)", headers={"content-type": "text/plain"}, timeout=60
    )
    with pytest.raises(SystemFailure, match=r"cannot be created: .*Shelters"):
        make(url, 10)
