"""When a broker that does not answer is tried again, and when it counts as gone. The caller passes the time."""

from __future__ import annotations

from random import Random

from tocsin.wire.backoff import backoff


class RetryPolicy:
    """For one broker. After ``gone_after`` seconds without an answer it is gone."""

    def __init__(self, gone_after: float, rng: Random, least: float = 0.1, most: float = 30.0) -> None:
        self.gone_after, self.rng, self.least, self.most = gone_after, rng, least, most
        self.failures = 0
        self.silent_since: float | None = None

    def answered(self) -> None:
        """The broker answered, or registered again."""
        self.failures, self.silent_since = 0, None

    def failed(self, now: float) -> float | None:
        """Seconds until the next try; None: the broker is gone."""
        self.failures += 1
        if self.silent_since is None:
            self.silent_since = now
        if now - self.silent_since >= self.gone_after:
            return None
        return backoff(self.failures, self.least, self.most, self.rng)
