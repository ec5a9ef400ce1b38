"""``POST /sql``: run a script of statements; the answer comes at the end, or line by line while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import msgspec
from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, operation
from tocsin.cluster.http.schemas import ColumnInfo, OutcomeInfo, Outcomes, ProgressInfo, ScriptLine, ScriptRequest
from tocsin.cluster.records import formats
from tocsin.cluster.spark.work import Request, stopped
from tocsin.errors import (
    AlreadyExists,
    BodyRefused,
    Conflict,
    InUse,
    Malformed,
    NotAcceptable,
    NotFound,
    NotReady,
    ParseError,
    QueryFailed,
    QueryTimeout,
    RecordsRefused,
    StorageError,
    TocsinError,
    TypeMismatch,
    UserError,
)
from tocsin.http.requests import accepted, from_json, media_type, read_body, text_of
from tocsin.http.responses import JSON, NDJSON, answer, encoder, error_answer, error_body, stream

if TYPE_CHECKING:
    from tocsin.cluster.execute.script import Outcome, Progress

PLAIN = ("text/plain", "application/sql")
END: Any = object()

#: The errors of a statement or a query.
_REFUSED = (ParseError, BodyRefused, QueryFailed, QueryTimeout, TypeMismatch, UserError, RecordsRefused, NotAcceptable)
STATEMENT_ERRORS = (*_REFUSED, NotFound, AlreadyExists, InUse, Conflict, NotReady, StorageError)


async def script_of(exchange: Exchange, kind: type[Any], field: str) -> str:
    """The text of the request: the whole body, or a field of a JSON object."""
    limit = exchange.limits.statement_bytes
    media = media_type(exchange.headers, (JSON, *PLAIN), "text/plain")
    body = await read_body(exchange.headers, exchange.receive, limit)
    text: str = getattr(from_json(body, kind), field) if media == JSON else text_of(body)
    if not text.strip():
        raise Malformed("the request has no statement")
    return text


def outcome_info(outcome: Outcome) -> OutcomeInfo:
    info = OutcomeInfo(outcome.statement, outcome.kind, outcome.message, outcome.rows, outcome.data)
    if outcome.table is None:
        return info
    columns = [ColumnInfo(field.name, str(field.type)) for field in formats.distinct(outcome.table).schema]
    rows = [row for batch in formats.objects(outcome.table) for row in batch]
    return msgspec.structs.replace(info, columns=columns, result=rows)


@operation(
    "POST",
    "/sql",
    "Run a script of statements",
    Answer("What each statement did; NDJSON also has progress, and an error is its last line", Outcomes),
    Answer("", None, (NDJSON,), ScriptLine),
    body={JSON: ScriptRequest, "text/plain": str, "application/sql": str},
    errors=STATEMENT_ERRORS,
    access="checked",
    description="A script stops at its first error; the statements before it stay done. The error says where it "
    "happened, and `outcomes` what was done. If the client disconnects, a running query, change or load is "
    "cancelled, and the script ends. Every statement but a query needs the privilege `ADMIN`.",
)
async def run_script(exchange: Exchange) -> Response:
    wanted = accepted(exchange.headers, {JSON: "json", NDJSON: "ndjson"}, "json")
    script = await script_of(exchange, ScriptRequest, "script")
    if wanted == "ndjson":
        return stream(await lines(exchange, script), NDJSON)
    done: list[OutcomeInfo] = []

    def run() -> Response:
        try:
            for outcome in exchange.cluster.run(script, principal=exchange.principal):
                done.append(outcome_info(outcome))
                if stopped():
                    break
        except TocsinError as error:
            return error_answer(error, "POST /sql", outcomes=done)
        return answer(Outcomes(done))

    # The thread also encodes the answer: a large one would block the event loop.
    return await exchange.attend(exchange.threads.work, run)


async def lines(exchange: Exchange, script: str) -> AsyncIterator[bytes]:
    """A line for each outcome and progress. One thread runs the script; it stops when the client disconnects."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Any] = asyncio.Queue()

    def put(line: Any) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, line if line is END else encoder.encode(line) + b"\n")

    def progress(step: Progress) -> None:
        put(ScriptLine(progress=ProgressInfo(step.statement, step.done, step.rows, step.text)))

    def run() -> None:
        try:
            for outcome in exchange.cluster.run(script, progress, exchange.principal):
                put(ScriptLine(outcome=outcome_info(outcome)))
                if stopped():
                    break
        except Exception as error:
            put(error_body(error, "POST /sql")[1])
        finally:
            put(END)

    request = Request()
    exchange.threads.work.submit(request.run, run)

    async def read() -> AsyncIterator[bytes]:
        try:
            while (line := await queue.get()) is not END:
                yield line
        finally:
            request.stop()

    return read()


OPERATIONS = (run_script,)
