"""User and password for a token."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from tocsin.client.http_post import post
from tocsin.client.refusal import refusal
from tocsin.errors import Unreachable, UserError

#: Seconds for the answer.
PATIENCE = 10.0


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
        status, content = await post(http, "/login", credentials, PATIENCE)
    except OSError as error:
        raise Unreachable(f"no broker answers at {http}: {str(error) or type(error).__name__}") from error
    if not 200 <= status < 300:
        raise refusal(status, content, f"the login at {http}")
    try:
        return msgspec.json.decode(content, type=_Answer).token
    except msgspec.DecodeError as error:
        raise UserError(f"{http} does not answer like a broker") from error
