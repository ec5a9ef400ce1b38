"""A clock that cannot jump: nothing expires because an operator set the clock of the machine."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

#: Seconds by which the time may differ from what is expected. What is more is a jump.
JUMP = 300.0


def elapsed() -> float:
    """Seconds since the machine started, with those in which it slept, where the system counts them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SteadyClock:
    """The wall clock, checked against the elapsed time and, at the start, against the ``last`` time that a store kept.

    ``now`` is for time stamps: within the process it goes on evenly. ``expiry`` is for everything that expires: it does
    not follow a jump, nor a time that has passed unseen, until that has lasted for ``grace`` seconds.
    """

    def __init__(
        self,
        grace: float,
        last: float | None = None,
        wall: Callable[[], float] = time.time,
        steady: Callable[[], float] = elapsed,
    ) -> None:
        self._grace, self._wall, self._steady = grace, wall, steady
        self._lock = threading.Lock()
        self._stamps = self._accepted = wall() - steady()  # what to add to the elapsed time
        if last is not None:
            self._accepted = last - steady()
        self._since: float | None = None
        self._jump = 0.0
        self._latest = 0.0
        self._start = False  # the jump was seen at the start
        self._check()
        self._latest = self._steady() + self._stamps

    def now(self) -> float:
        with self._lock:
            self._latest = max(self._latest, self._check() + self._stamps)
            return self._latest

    def expiry(self) -> float:
        with self._lock:
            return self._check() + self._accepted

    @property
    def jump(self) -> float:
        """Seconds by which the clock of the machine is ahead of ``expiry``; 0 where it is right."""
        with self._lock:
            self._check()
            return self._jump

    @property
    def problem(self) -> str:
        return self._describe() if self.jump else ""

    def _describe(self) -> str:
        what = (
            "the clock has jumped, or this much time has passed since the last run"
            if self._start
            else "the clock has jumped"
        )
        return f"{what}: {self._jump:+.0f} s; nothing expires by it until it has lasted for {self._grace:g} s"

    def _check(self) -> float:
        """The elapsed time."""
        at = self._steady()
        offset = self._wall() - at
        jump = offset - self._accepted
        if abs(jump) <= JUMP:
            if self._since is not None:
                log.warning("the clock is right again")
            self._stamps = self._accepted = offset
            self._since, self._jump = None, 0.0
            return at
        if self._since is None or abs(jump - self._jump) > JUMP:
            self._start, self._since, self._jump = not self._latest, at, jump
            log.warning("%s", self._describe())
        self._jump = jump
        if at - self._since >= self._grace:
            log.warning("the clock's time is accepted")
            self._stamps = self._accepted = offset
            self._since, self._jump = None, 0.0
        return at
