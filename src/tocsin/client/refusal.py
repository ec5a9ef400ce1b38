"""Error answers over HTTP as exceptions."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from tocsin.errors import SystemFailure, TocsinError, Unauthorized, UserError
from tocsin.wire.remote_errors import remote_error


class _Problem(Struct):
    code: str
    message: str
    hint: str = ""


class _Refusal(Struct):
    error: _Problem


def refusal(status: int, content: bytes, what: str) -> TocsinError:
    """``what`` names the request, for servers that send no error message."""
    try:
        problem = msgspec.json.decode(content, type=_Refusal).error
        return remote_error(problem.code, problem.message, problem.hint)
    except msgspec.DecodeError:
        text = f"{what} failed with status {status}"
        if status in (401, 403):
            return Unauthorized(text)
        return SystemFailure(text) if status >= 500 else UserError(text)
