"""Where the state machine's commands go: to the live feeds of this broker, or to the data cluster."""

from __future__ import annotations

from collections.abc import Callable

from tocsin.broker.core import instructions as do
from tocsin.wire.feed_name import feed_of


class Destination:
    """Which feeds are live is only known when the data cluster has listed them: until then, commands for feeds wait.

    ``live`` returns False for a command that is not about a live feed.
    """

    def __init__(self, live: Callable[[do.Upstream], bool], upstream: Callable[[do.Upstream], None]) -> None:
        self._live, self._upstream = live, upstream
        self._waiting: list[do.Upstream] | None = []

    def carry_out(self, command: do.Upstream) -> None:
        if self._live(command):
            return
        if self._waiting is not None and (isinstance(command, do.Publish) or feed_of(command.channel) is not None):
            self._waiting.append(command)
        else:
            self._upstream(command)

    def listed(self) -> None:
        """The live feeds are known."""
        waiting, self._waiting = self._waiting or [], None
        for command in waiting:
            self.carry_out(command)
