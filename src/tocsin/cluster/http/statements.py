"""``POST /sql``: scripts of statements, answered at the end or line by line as they run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from starlette.responses import Response

from tocsin.cluster.http.operation import Answer, Exchange, Operation
from tocsin.cluster.http.schemas import ColumnInfo, OutcomeInfo, Outcomes, ProgressInfo, Script, ScriptLine
from tocsin.cluster.records import formats
from tocsin.errors import (
    AlreadyExists,
    BodyRefused,
    Busy,
    Conflict,
    CrossOrigin,
    InUse,
    LimitExceeded,
    Malformed,
    NotAcceptable,
    NotFound,
    NotReady,
    ParseError,
    QueryFailed,
    RecordsRefused,
    StorageError,
    SystemTrouble,
    TocsinError,
    TypeMismatch,
    UnsupportedMedia,
    UserError,
)
from tocsin.http.requests import accepted, from_json, media_type, read_body, text_of
from tocsin.http.responses import JSON, NDJSON, answer, encoder, error_answer, error_body, stream

PLAIN = ("text/plain", "application/sql")
END: Any = object()

#: What a statement or a query can be refused for.
STATEMENT_ERRORS = (
    Malformed,
    ParseError,
    BodyRefused,
    QueryFailed,
    TypeMismatch,
    UserError,
    CrossOrigin,
    NotFound,
    AlreadyExists,
    InUse,
    Conflict,
    NotAcceptable,
    LimitExceeded,
    UnsupportedMedia,
    RecordsRefused,
    Busy,
    NotReady,
    SystemTrouble,
    StorageError,
)


async def script_of(exchange: Exchange, kind: type[Any], field: str) -> str:
    """The text, sent plainly or as a field of a JSON object."""
    limit = exchange.limits.statement_bytes
    media = media_type(exchange.headers, (JSON, *PLAIN), "text/plain")
    body = await read_body(exchange.headers, exchange.receive, limit)
    text: str = getattr(from_json(body, kind), field) if media == JSON else text_of(body)
    if not text.strip():
        raise Malformed("there is no statement in the request")
    return text


def outcome_info(outcome: Any) -> OutcomeInfo:
    info = OutcomeInfo(outcome.statement, outcome.kind, outcome.message, outcome.rows, outcome.data)
    if outcome.table is None:
        return info
    columns = [ColumnInfo(field.name, str(field.type)) for field in formats.distinct(outcome.table).schema]
    rows = [row for batch in formats.objects(outcome.table) for row in batch]
    return msgspec.structs.replace(info, columns=columns, result=rows)


async def run_script(exchange: Exchange) -> Response:
    wanted = accepted(exchange.headers, {JSON: "json", NDJSON: "ndjson"}, "json")
    script = await script_of(exchange, Script, "script")
    if wanted == "ndjson":
        return stream(await lines(exchange, script), NDJSON)
    done: list[OutcomeInfo] = []

    def run() -> Response:
        try:
            # extend keeps what came before an error
            done.extend(map(outcome_info, exchange.cluster.run(script)))
        except TocsinError as error:
            return error_answer(error, "POST /sql", outcomes=done)
        return answer(Outcomes(done))

    # In the thread the answer is encoded too: a large one would hold up the loop.
    return await exchange.threads.work.run(run)


async def lines(exchange: Exchange, script: str) -> AsyncIterator[bytes]:
    """A line for each outcome and progress. One thread runs the whole script; it stops when the client has gone."""
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Any] = asyncio.Queue()
    gone = False

    def put(line: Any) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, line if line is END else encoder.encode(line) + b"\n")

    def progress(step: Any) -> None:
        put(ScriptLine(progress=ProgressInfo(step.statement, step.done, step.rows, step.text)))

    def run() -> None:
        try:
            for outcome in exchange.cluster.run(script, progress):
                put(ScriptLine(outcome=outcome_info(outcome)))
                if gone:
                    break
        except Exception as error:
            put(error_body(error, "POST /sql")[1])
        finally:
            put(END)

    exchange.threads.work.submit(run)

    async def read() -> AsyncIterator[bytes]:
        nonlocal gone
        try:
            while (line := await queue.get()) is not END:
                yield line
        finally:
            gone = True

    return read()


OPERATIONS = (
    Operation(
        "POST",
        "/sql",
        "run_script",
        "Run a script of statements",
        run_script,
        (
            Answer("What each statement did; as lines, also progress, and the error as the last line", Outcomes),
            Answer("", None, (NDJSON,), ScriptLine),
        ),
        body={JSON: Script, "text/plain": str, "application/sql": str},
        errors=STATEMENT_ERRORS,
        description="A script stops at its first error and leaves what came before it done; the error says where it "
        "happened and `outcomes` what was done. A client that goes away from a streamed answer ends the script after "
        "the statement that runs.",
    ),
)
