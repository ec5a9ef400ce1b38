"""What each user may hold on this broker, over all devices and connections, REST included."""

from __future__ import annotations

from msgspec import Struct

from tocsin.broker.core.events import Problem
from tocsin.config import BrokerLimits


class Usage(Struct):
    subscriptions: int = 0
    argument_bytes: int = 0


class Quotas:
    """Counts durable subscriptions, and requests that have no answer yet."""

    def __init__(self, limits: BrokerLimits) -> None:
        self.limits = limits
        self.by_user: dict[str, Usage] = {}

    def add(self, session: str, size: int) -> None:
        """``session`` is one device of a user."""
        usage = self.by_user.setdefault(_user(session), Usage())
        usage.subscriptions += 1
        usage.argument_bytes += size

    def remove(self, session: str, size: int) -> None:
        user = _user(session)
        usage = self.by_user[user]
        usage.subscriptions -= 1
        usage.argument_bytes -= size
        if not usage.subscriptions:
            del self.by_user[user]

    def problem(self, session: str, size: int) -> Problem | None:
        """Why one more subscription would be too much."""
        limits, usage = self.limits, self.by_user.get(_user(session), Usage())
        if usage.subscriptions >= limits.subscriptions:
            return limit_exceeded(f"at most {limits.subscriptions} subscriptions of a user")
        most = limits.user_argument_bytes
        if usage.argument_bytes + size > most:
            return limit_exceeded(f"at most {most} bytes of arguments of all subscriptions of a user")
        return None


def limit_exceeded(message: str) -> Problem:
    return Problem("limit_exceeded", message, "unsubscribe from something first")


def _user(session: str) -> str:
    return session.partition("/")[0]
