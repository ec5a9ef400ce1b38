"""The emergency application of the city: its statements, and creating it in a data cluster."""

from __future__ import annotations

import math
import re
from functools import cache
from importlib import resources
from typing import Any

import httpx

from tocsin.cluster.statements.ast import CreateChannel, CreateFunction
from tocsin.cluster.statements.parser import iter_statements
from tocsin.demo.city.reports import ndjson
from tocsin.errors import SystemFailure

#: A feed is the quickest way into a dataset: it needs no Spark.
SHELTERS = "CREATE FEED ShelterFeed; CONNECT FEED ShelterFeed TO DATASET Shelters; START FEED ShelterFeed;"


def script(speed: float = 1.0) -> str:
    """``examples/emergency.sql``, with its periods divided by ``speed``."""
    text = resources.files("tocsin.demo.city").joinpath("emergency.sql").read_text(encoding="utf-8")
    return re.sub(r'duration\("PT(\d+)S"\)', lambda found: f'duration("PT{int(found[1]) / speed:g}S")', text)


@cache
def channels() -> dict[str, tuple[str, ...]]:
    """The names of the parameters of each channel."""
    made = [each.statement for each in iter_statements(script())]
    functions = {each.name: each for each in made if isinstance(each, CreateFunction)}
    found = {}
    for each in made:
        if isinstance(each, CreateChannel):
            parameters = each.parameters or functions[str(each.function)].parameters
            found[each.name] = tuple(parameter.name for parameter in parameters)
    return found


def periods(speed: float = 1.0) -> dict[str, float]:
    """Seconds of each channel."""
    made = [each.statement for each in iter_statements(script(speed))]
    return {each.name: each.period for each in made if isinstance(each, CreateChannel) and each.period is not None}


async def make(client: httpx.AsyncClient, speed: float, shelters: list[dict[str, Any]]) -> str:
    """Creates what does not exist yet. Returns a remark, or '': channels of a kept home keep their periods."""
    known = {each["name"]: each["period"] for each in (await client.get("/channels")).json()["channels"]}
    wanted = periods(speed)
    there = wanted.keys() <= known.keys()
    if not there:
        await _post(client, "/sql", (script(speed) + SHELTERS).encode(), "text/plain")
    await _post(client, "/feeds/ShelterFeed", ndjson(shelters), "application/x-ndjson")
    if not there or all(math.isclose(known[name], wanted[name], rel_tol=1e-3) for name in wanted):
        return ""
    before = periods()
    was = next(before[name] / known[name] for name in wanted)
    return (
        f"the channels in this folder were created for --speed {was:g} and keep their periods; "
        f"for the periods of --speed {speed:g} use another --home"
    )


async def _post(client: httpx.AsyncClient, path: str, body: bytes, media: str) -> None:
    answer = await client.post(path, content=body, headers={"content-type": media})
    if answer.is_error:
        raise SystemFailure(f"the application cannot be created: {answer.json()['error']['message']}")
