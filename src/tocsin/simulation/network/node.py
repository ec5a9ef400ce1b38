"""A machine with one process: it is up or down, handles one event after the other, and may be busy or frozen."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tocsin.simulation.network.network import Network

#: What the machines' clocks show when the simulation begins.
EPOCH = 1_700_000_000.0


class Node:
    """``life`` counts starts and stops: an event for an earlier run does not reach the next one.

    ``silent``: the machine itself is down, so that it does not even refuse connections. ``on_death``: called when it
    dies. ``skew``: by how many seconds its clock is fast.
    """

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self.network = network
        self.clock = network.clock
        self.trace = network.trace
        self.up = False
        self.silent = False
        self.life = 0
        self.busy_until = 0.0
        self.skew = 0.0
        self.on_death: list[Callable[[], None]] = []
        self._inbox: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._woken = False

    def wall_clock(self) -> float:
        return EPOCH + self.clock.now + self.skew

    def boot(self) -> None:
        self.life += 1
        self.up, self.silent = True, False
        self.busy_until = 0.0

    def die(self, *, silent: bool = False) -> None:
        self.life += 1
        self.up, self.silent = False, silent
        self._inbox.clear()
        ended, self.on_death = self.on_death, []
        for end in ended:
            end()

    def freeze(self, seconds: float) -> None:
        """It does nothing, like a process that is swapped out."""
        self.busy_until = max(self.busy_until, self.clock.now + seconds)

    def take(self, action: Callable[..., object], *args: Any) -> None:
        """Handles an event now, or after those that came before."""
        if not self.up:
            return
        if self._inbox or self.clock.now < self.busy_until:
            self._inbox.append((action, args))
            self._wake()
        else:
            action(*args)

    def _wake(self) -> None:
        if not self._woken:
            self._woken = True
            self.clock.at(self.busy_until, self._work)

    def _work(self) -> None:
        self._woken = False
        inbox = self._inbox
        while inbox and self.clock.now >= self.busy_until:
            action, args = inbox.popleft()
            action(*args)
        if inbox:
            self._wake()

    def later(self, seconds: float, action: Callable[..., object], *args: Any) -> None:
        """Unless the node stops before."""
        self.clock.after(seconds, self._due, self.life, action, args)

    def _due(self, life: int, action: Callable[..., object], args: tuple[Any, ...]) -> None:
        if life == self.life:
            self.take(action, *args)
