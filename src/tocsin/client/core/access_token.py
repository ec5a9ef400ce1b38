"""The client's access token and when to get the next one. Pure; part of the client's state machine."""

from __future__ import annotations

#: The shares of a token's lifetime after which the client gets the next one, and tries again if there was no answer.
REFRESH_AT, REFRESH_AGAIN = 0.75, 0.02


class AccessToken:
    """``fresh``: it is newer than the last welcome. ``refresh_at``: when to get the next one, if that is known."""

    def __init__(self, value: str | None) -> None:
        self.value = value
        self.fresh = False
        self.refresh_at: float | None = None
        self._lifetime = 0.0

    def renew(self, value: str, seconds: float | None, now: float, *, fresh: bool) -> None:
        self.value, self.fresh, self._lifetime = value, fresh, seconds or 0.0
        self.refresh_at = now + REFRESH_AT * seconds if seconds else None

    def refused(self) -> None:
        self.value = self.refresh_at = None

    def retry(self, now: float) -> None:
        self.refresh_at = now + max(REFRESH_AGAIN * self._lifetime, 1.0)

    def due(self, now: float) -> bool:
        """Once for each token."""
        if self.refresh_at is None or now < self.refresh_at:
            return False
        self.refresh_at = None
        return True
