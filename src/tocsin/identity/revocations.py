"""The revoked tokens that have not expired yet."""

from __future__ import annotations

from tocsin.errors import Unauthorized
from tocsin.identity.messages import Revocation
from tocsin.identity.tokens import LOG_IN, Claims


class Revocations:
    def __init__(self) -> None:
        self.last = 0
        self._by_user: dict[str, dict[str, Revocation]] = {}  # session, '' for all of them

    def add(self, revocation: Revocation, now: float) -> bool:
        """Whether it is new."""
        new = revocation.number > self.last
        self.last = max(self.last, revocation.number)
        if new and revocation.until > now:
            self._by_user.setdefault(revocation.user, {})[revocation.session] = revocation
        return new

    def check(self, claims: Claims) -> None:
        """Raises Unauthorized."""
        mine = self._by_user.get(claims.sub, {})
        for found in (mine.get(""), mine.get(claims.sid)):
            if found is not None and claims.issued <= found.before:
                raise Unauthorized("the token was revoked", hint=LOG_IN)

    def expire(self, now: float) -> None:
        for user, mine in list(self._by_user.items()):
            kept = {session: each for session, each in mine.items() if each.until > now}
            if kept:
                self._by_user[user] = kept
            else:
                del self._by_user[user]
