"""A limit for each address or user: a token bucket."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

from tocsin.errors import RateLimited

#: Most keys that are remembered; those that did nothing for longest are forgotten first.
REMEMBERED = 100_000


def is_here(address: str) -> bool:
    """Whether a client's address is this machine's: all clients of a proxy on it have that one."""
    return address.startswith("127.") or address in ("", "::1", "::/64")


class RateLimit:
    """At most ``per_minute`` in a minute for each key, all of them at once if there were none before."""

    def __init__(self, what: str, per_minute: float, clock: Callable[[], float]) -> None:
        self._what, self._most, self._clock = what, max(1.0, per_minute), clock
        self._rate = per_minute / 60
        self._buckets: dict[str, tuple[float, float]] = {}  # tokens, and when

    def take(self, key: str) -> None:
        left = self._left(key)
        if left < 1.0:
            seconds = ceil((1.0 - left) / self._rate)
            raise RateLimited(f"too many {self._what}", hint=f"try again in {seconds} s", retry_after=seconds)
        self._put(key, left - 1.0)

    def give_back(self, key: str) -> None:
        self._put(key, self._left(key) + 1.0)

    def _left(self, key: str) -> float:
        tokens, at = self._buckets.get(key, (self._most, 0.0))
        return min(self._most, tokens + max(0.0, self._clock() - at) * self._rate)

    def _put(self, key: str, tokens: float) -> None:
        self._buckets.pop(key, None)
        if tokens < self._most:
            self._buckets[key] = (tokens, self._clock())
        if len(self._buckets) > REMEMBERED:
            del self._buckets[next(iter(self._buckets))]


class AddressLimit:
    """A rate limit by address. ``per_minute`` is a setting: 0 for ``default``, and for any number from this machine."""

    def __init__(self, what: str, per_minute: float, default: float, clock: Callable[[], float]) -> None:
        self._limit = RateLimit(f"{what} from this address", per_minute or default, clock)
        self._exempt_here = not per_minute

    def take(self, address: str) -> None:
        if not (self._exempt_here and is_here(address)):
            self._limit.take(address)
