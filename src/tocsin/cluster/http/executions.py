"""``/channels/{channel}/executions``: what a channel has found, and the one pull that brings it to a broker."""

from __future__ import annotations

from time import monotonic

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, Operation
from tocsin.cluster.http.schemas import ExecutionParameters, Executions, PullParameters, ResultLine
from tocsin.errors import Busy, Malformed, NotFound, StorageError, SystemTrouble
from tocsin.http.responses import NDJSON, answer, stream

PATH = "/channels/{channel}/executions"
#: A long poll looks this often whether the client has gone or the server stops.
SLICE = 1.0


async def list_executions(exchange: Exchange) -> Response:
    channel, wish = exchange.path["channel"], exchange.query
    end = monotonic() + wish.wait
    while (left := end - monotonic()) > 0 and not exchange.site.stopping:
        newest = await exchange.threads.waits.run(
            exchange.cluster.wait_execution, channel, wish.after, min(left, SLICE)
        )
        if newest > wish.after or await exchange.gone():
            break
    found = await exchange.threads.quick.run(exchange.cluster.executions, channel, wish.after, wish.limit)
    return answer({"executions": found})


async def pull(exchange: Exchange) -> Response:
    channel, number, broker = exchange.path["channel"], exchange.path["number"], exchange.query.broker
    chunks = await exchange.threads.pulls.iterate(lambda: iter(exchange.cluster.pull(channel, number, broker)))
    return stream(chunks, NDJSON)


OPERATIONS = (
    Operation(
        "GET",
        PATH,
        "list_executions",
        "Executions of a channel",
        list_executions,
        (Answer("By number; with `wait`, as soon as there is one", Executions),),
        query=ExecutionParameters,
        errors=(Malformed, NotFound, Busy, SystemTrouble),
    ),
    Operation(
        "GET",
        PATH + "/{number}/results",
        "pull_results",
        "Results of an execution for a broker",
        pull,
        (Answer("A line for each subscription of the broker that has results", None, (NDJSON,), ResultLine),),
        query=PullParameters,
        errors=(Malformed, NotFound, Busy, SystemTrouble, StorageError),
    ),
)
