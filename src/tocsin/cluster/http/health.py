"""For operators: health, readiness, metrics, the OpenAPI document and the index of routes."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from tocsin import __version__
from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import Index, RouteInfo, Status
from tocsin.errors import NotReady, SystemFailure
from tocsin.http.responses import answer

#: A cluster that does not report its status within this many seconds is not healthy.
STATUS_TIMEOUT = 5.0


async def status(exchange: Exchange) -> dict[str, Any]:
    try:
        async with asyncio.timeout(STATUS_TIMEOUT):
            return await exchange.threads.quick.run(exchange.cluster.status)
    except TimeoutError:
        raise SystemFailure(f"the data cluster did not report its status within {STATUS_TIMEOUT:g} s") from None


@operation("GET", "/healthz", "Whether the process is healthy", Answer("It is healthy", Status), access="anyone")
async def health(exchange: Exchange) -> Response:
    """Healthy while the committer runs; Spark may be down."""
    state = await status(exchange)
    if not state["committer"]:
        raise SystemFailure(
            "the committer has stopped, so nothing can be stored", hint="see the log, and restart the data cluster"
        )
    return answer(state)


@operation(
    "GET",
    "/readyz",
    "Whether it can run queries and channels",
    Answer("It is ready", Status),
    errors=(NotReady,),
    access="anyone",
)
async def readiness(exchange: Exchange) -> Response:
    state = await status(exchange)
    if not state["ready"]:
        word, reason = state["spark"], state["reason"]
        if reason and word == "up":
            raise NotReady(reason, spark=word)
        message = f"Spark is {word}"
        raise NotReady(message if reason in ("", message) else f"{message}: {reason}", spark=word)
    return answer(state)


@operation(
    "GET",
    "/metrics",
    "Metrics for Prometheus",
    Answer("The text format of Prometheus", None, ("text/plain",)),
    access="anyone",
)
async def metrics(exchange: Exchange) -> Response:
    body, media = await exchange.threads.quick.run(exchange.cluster.metrics.read)
    return Response(body, headers={"content-type": media})


@operation("GET", "/openapi.json", "This description", Answer("OpenAPI 3.1", dict[str, Any]), access="anyone")
async def openapi(exchange: Exchange) -> Response:
    return answer(exchange.site.document)


@operation("GET", "/", "All routes", Answer("The routes", Index), access="anyone")
async def index(exchange: Exchange) -> Response:
    routes = [RouteInfo(each.method, each.path, each.summary) for each in exchange.site.operations]
    return answer(Index("tocsin data cluster", __version__, "/openapi.json", routes))


OPERATIONS = (health, readiness, metrics, openapi, index)
