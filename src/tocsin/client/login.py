"""User and password for a token."""

from __future__ import annotations

import httpx
import msgspec
from msgspec import Struct

from tocsin.errors import SystemTrouble, TocsinError, Unauthorized, Unreachable, UserError
from tocsin.wire.remote import told

TIMEOUT = httpx.Timeout(10.0)


class Credentials(Struct, frozen=True, omit_defaults=True):
    user: str
    password: str
    device: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, device={self.device!r})"  # the password is nobody's business


class _Answer(Struct):
    token: str


class _Problem(Struct):
    code: str
    message: str
    hint: str = ""


class _Refusal(Struct):
    error: _Problem


async def login(http: str, credentials: Credentials) -> str:
    """A token. Raises UserError if trying again is of no use."""
    try:
        async with httpx.AsyncClient(timeout=TIMEOUT) as client:
            answer = await client.post(
                f"{http}/login",
                content=msgspec.json.encode(credentials),
                headers={"content-type": "application/json"},
            )
    except httpx.TransportError as error:
        raise Unreachable(f"no broker answers at {http}: {str(error) or type(error).__name__}") from error
    if answer.is_success:
        try:
            return msgspec.json.decode(answer.content, type=_Answer).token
        except msgspec.DecodeError as error:
            raise UserError(f"{http} does not answer like a broker") from error
    raise _refused(http, answer)


def _refused(http: str, answer: httpx.Response) -> TocsinError:
    try:
        problem = msgspec.json.decode(answer.content, type=_Refusal).error
        return told(problem.code, problem.message, problem.hint)
    except msgspec.DecodeError:
        text = f"the login at {http} failed with status {answer.status_code}"
        if answer.status_code in (401, 403):
            return Unauthorized(text)
        return SystemTrouble(text) if answer.status_code >= 500 else UserError(text)
