"""Exchanges user and password for a token."""

from __future__ import annotations

import msgspec
from msgspec import Struct

from tocsin.client.http_post import post
from tocsin.client.refusal import refusal
from tocsin.errors import Unreachable, UserError

#: Seconds for the answer.
TIMEOUT = 10.0


class Credentials(Struct, frozen=True, omit_defaults=True):
    user: str
    password: str
    device: str | None = None

    def __repr__(self) -> str:
        return f"Credentials(user={self.user!r}, device={self.device!r})"  # never the password


class _Answer(Struct):
    token: str


async def login(http: str, credentials: Credentials) -> str:
    """A token. A UserError is final; the caller may retry after other errors."""
    try:
        status, content = await post(http, "/login", credentials, TIMEOUT)
    except OSError as error:
        raise Unreachable(f"no broker answers at {http}: {str(error) or type(error).__name__}") from error
    if not 200 <= status < 300:
        raise refusal(status, content, f"the login at {http}")
    try:
        return msgspec.json.decode(content, type=_Answer).token
    except msgspec.DecodeError as error:
        raise UserError(f"{http} does not answer like a broker") from error
