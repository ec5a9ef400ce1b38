"""``/channels/{channel}/executions``: the executions of a channel, and their results for a broker."""

from __future__ import annotations

from time import monotonic

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import ExecutionParameters, Executions, PullParameters, ResultLine
from tocsin.errors import NotFound, StorageError, Unauthorized
from tocsin.http.responses import NDJSON, answer, stream

PATH = "/channels/{channel}/executions"
#: Seconds between two checks of a long poll whether the client has disconnected or the server stops.
SLICE = 1.0


@operation(
    "GET",
    PATH,
    "Executions of a channel",
    Answer("Ordered by number; with `wait`, as soon as there is one", Executions),
    query=ExecutionParameters,
    errors=(NotFound,),
    access="checked",
)
async def list_executions(exchange: Exchange) -> Response:
    exchange.check_subscribe()
    channel, query = exchange.path["channel"], exchange.query
    end = monotonic() + query.wait
    while (left := end - monotonic()) > 0 and not exchange.site.stopping:
        newest = await exchange.threads.waits.run(
            exchange.cluster.wait_execution, channel, query.after, min(left, SLICE)
        )
        if newest > query.after or await exchange.gone():
            break
    executions = await exchange.threads.quick.run(exchange.cluster.executions, channel, query.after, query.limit)
    return answer({"executions": executions})


@operation(
    "GET",
    PATH + "/{number}/results",
    "Results of an execution for a broker",
    Answer("A line for each subscription of the broker that has results", None, (NDJSON,), ResultLine),
    query=PullParameters,
    errors=(NotFound, Unauthorized, StorageError),
)
async def pull_results(exchange: Exchange) -> Response:
    channel, number, broker = exchange.path["channel"], exchange.path["number"], exchange.query.broker
    exchange.check_broker(broker)
    chunks = await exchange.threads.pulls.iterate(lambda: iter(exchange.cluster.pull(channel, number, broker)))
    return stream(chunks, NDJSON)


OPERATIONS = (list_executions, pull_results)
