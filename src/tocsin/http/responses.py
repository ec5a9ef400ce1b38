"""Answers: JSON, errors and streams."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import msgspec
from starlette.responses import Response, StreamingResponse

from tocsin.errors import Busy, MethodNotAllowed, NotReady, TocsinError, disk_full
from tocsin.http.log_limit import LogLimit

log = logging.getLogger("tocsin.server")
_refused = LogLimit()

JSON = "application/json"
NDJSON = "application/x-ndjson"


def plain(value: Any) -> Any:
    """For the encoder: values that JSON does not have become text."""
    return sorted(value, key=str) if isinstance(value, frozenset | set) else str(value)


encoder = msgspec.json.Encoder(enc_hook=plain, decimal_format="number")


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(encoder.encode(value), status, headers, JSON)


def stream(chunks: AsyncIterator[bytes], media: str, headers: dict[str, str] | None = None) -> Response:
    return StreamingResponse(chunks, 200, headers, media)


class HeldStream(StreamingResponse):
    """A stream that closes ``held`` when it ends, even if it never began."""

    def __init__(
        self, held: ExitStack, chunks: AsyncIterator[bytes], media: str, headers: dict[str, str] | None = None
    ) -> None:
        self.held = held
        super().__init__(chunks, 200, headers, media)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        with self.held:
            await super().__call__(scope, receive, send)


def error_body(error: Exception, where: str = "") -> tuple[int, dict[str, Any]]:
    """(status, body) of an error. Unexpected errors are logged under an id, and the client gets only the id."""
    error = disk_full(error) or error
    if isinstance(error, TocsinError):
        if error.status >= 500 and not isinstance(error, Busy | NotReady):
            left_out = _refused.admit(error.code)
            if left_out is not None:
                more = f" ({left_out} like it were left out)" if left_out else ""
                log.warning("%s: %s: %s%s", where, error.code, error, more)
        return error.status, {"error": error.to_dict()}
    id = secrets.token_hex(4)
    log.error("error %s at %s", id, where, exc_info=error)
    message = "something went wrong in the server; its log has the details under this id"
    return 500, {"error": {"code": "internal", "message": message, "id": id}}


def error_headers(error: Exception) -> dict[str, str]:
    if isinstance(error, MethodNotAllowed):
        return {"allow": ", ".join(error.allowed)}
    if isinstance(error, Busy | NotReady):
        return {"retry-after": str(error.fields.get("retry_after", 1))}
    return {}


def error_answer(error: Exception, where: str = "", **more: Any) -> Response:
    status, body = error_body(error, where)
    return answer(body | more, status, error_headers(error))
