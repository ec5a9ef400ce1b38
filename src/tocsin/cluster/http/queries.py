"""``POST /query``: one query over datasets, results and the catalog, in the format that the client asks for."""

from __future__ import annotations

from typing import Any

from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import QueryParameters, QueryRequest
from tocsin.cluster.http.statements import STATEMENT_ERRORS, script_of
from tocsin.cluster.records import formats
from tocsin.http.requests import accepted
from tocsin.http.responses import JSON, NDJSON, stream

MEDIA = {"json": JSON, "ndjson": NDJSON, "csv": "text/csv", "arrow": "application/vnd.apache.arrow.stream"}


@operation(
    "POST",
    "/query",
    "Query datasets, results and the catalog",
    Answer("The rows", list[dict[str, Any]]),
    Answer("", None, (NDJSON,), dict[str, Any]),
    Answer("", None, (MEDIA["csv"], MEDIA["arrow"])),
    query=QueryParameters,
    body={JSON: QueryRequest, "text/plain": str, "application/sql": str},
    errors=STATEMENT_ERRORS,
    access="checked",
    description="Needs `SELECT` on each dataset in the query; `ADMIN` for results, subscriptions and the catalog.",
)
async def run_query(exchange: Exchange) -> Response:
    format = exchange.query.format or accepted(exchange.headers, {media: name for name, media in MEDIA.items()}, "json")
    sql = await script_of(exchange, QueryRequest, "sql")
    table = await exchange.attend(exchange.threads.work, exchange.cluster.query, sql, exchange.principal)
    chunks = await exchange.threads.pulls.iterate(lambda: formats.WRITERS[format](table))
    return stream(chunks, MEDIA[format], {"tocsin-rows": str(table.num_rows)})


OPERATIONS = (run_query,)
