"""User and password for a token."""

from __future__ import annotations

import httpx
import msgspec
from msgspec import Struct

from tocsin.client.refusal import refusal
from tocsin.errors import Unreachable, UserError

TIMEOUT = httpx.Timeout(10.0)


class Credentials(Struct, frozen=True, omit_defaults=True):
    user: str
    password: str
    device: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, device={self.device!r})"  # the password is nobody's business


class _Answer(Struct):
    token: str


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
    raise refusal(answer, f"the login at {http}")
