"""How a client gets its tokens: with the refresh token, or with the password. Pure."""

from __future__ import annotations

from msgspec import Struct

from tocsin.effects import Effects
from tocsin.errors import UserError


class Tokens(Struct, frozen=True):
    """``seconds``: for which ``token`` is valid; ``refresh`` gets the next one."""

    token: str
    seconds: float | None = None
    refresh: str = ""

    def __repr__(self) -> str:
        return f"Tokens(seconds={self.seconds!r})"


class SendPassword(Struct, frozen=True):
    """Answered by Tokens. A UserError is final."""


class SendRefresh(Struct, frozen=True):
    """Answered by Tokens. A UserError: the session has ended."""

    refresh: str

    def __repr__(self) -> str:
        return "SendRefresh()"


class Login:
    def __init__(self) -> None:
        self._refresh = ""

    def tokens(self) -> Effects[Tokens]:
        found: Tokens
        if self._refresh:
            try:
                found = yield SendRefresh(self._refresh)
            except UserError:
                self._refresh = ""
        if not self._refresh:
            found = yield SendPassword()
        self._refresh = found.refresh
        return found
