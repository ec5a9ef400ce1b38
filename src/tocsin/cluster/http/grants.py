"""``/grants``: who may do what, for brokers, which check it at subscribe and publish."""

from __future__ import annotations

import asyncio
from time import monotonic

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import GrantParameters
from tocsin.http.responses import answer
from tocsin.identity.grants import GrantTable

#: Seconds between two looks of a long poll for changes; it holds no thread.
LOOK = 0.25


@operation(
    "GET",
    "/grants",
    "All grants",
    Answer("The grants; with `wait`, as soon as they have another version", GrantTable),
    query=GrantParameters,
)
async def list_grants(exchange: Exchange) -> Response:
    cluster, query = exchange.cluster, exchange.query
    end = monotonic() + query.wait
    while cluster.grants.version == query.version and monotonic() < end and not exchange.site.stopping:
        if await exchange.gone():
            break
        await asyncio.sleep(LOOK)
    return answer(cluster.grants)


OPERATIONS = (list_grants,)
