"""The scheduler of channels and periodic procedures: a few threads, and the job that is due first runs first.

A repetitive job is due at fixed times, however long its last run took: a run that takes too long delays only the next
run of the same job, and is counted as late. A continuous job is due as soon as a dataset it follows has a new commit.
One thread at a time runs a job. The job that has waited longest goes first, so that busy jobs cannot starve others.

The first run of a job in a new Spark session mostly compiles, which keeps one core busy for seconds. First runs in
parallel would only slow each other down, so they run one after the other.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any

from tocsin.errors import NotReady

log = logging.getLogger(__name__)

#: Seconds by which a repetitive job is preferred to continuous ones, because it has a schedule.
HEAD_START = 1.0
#: Seconds after which other first runs no longer wait for a first run.
ALONE = 5.0


@dataclass(eq=False)
class Job:
    """A repeated task. ``run`` returns whether more work is waiting; ``cold`` whether its next run is the first one in
    this Spark session."""

    name: str
    run: Callable[[], bool]
    _: KW_ONLY
    period: float | None
    follows: frozenset[int] | None
    cold: Callable[[], bool] = lambda: False
    due: float | None = None
    anchor: float = 0.0
    running: bool = False
    compiling: bool = False
    late: int = 0
    late_reported: int = 0
    runs: int = 0
    failures: int = 0
    started: float = -math.inf


class Scheduler:
    """``failed`` gets the error of a job and returns the seconds until the next try. ``compiling`` is the number of
    first runs that may run in parallel."""

    def __init__(
        self,
        threads: int,
        clock: Callable[[], float],
        ready: Callable[[], bool],
        failed: Callable[[Job, Exception], float],
        compiling: int = 1,
    ) -> None:
        self.compiling = compiling
        self.clock = clock
        self.ready = ready
        self.failed = failed
        self.jobs: dict[Any, Job] = {}
        self._changed = threading.Condition()
        self._open = False
        self._threads = [
            threading.Thread(target=self._work, name=f"execution-{n}", daemon=True) for n in range(threads)
        ]

    def start(self) -> None:
        self._open = True
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        with self._changed:
            self._open = False
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def add(self, key: Any, job: Job, *, due_now: bool = False) -> None:
        with self._changed:
            now = self.clock()
            job.anchor = now
            if due_now:
                job.due = now
            elif job.follows is None and job.period is not None:
                job.due = now + job.period
            self.jobs[key] = job
            self._changed.notify()

    def remove(self, key: Any) -> None:
        """Remove a job; returns when its last run has ended."""
        with self._changed:
            job = self.jobs.pop(key, None)
            if job is not None:
                self._changed.wait_for(lambda: not job.running)

    def appended(self, heads: dict[int, int]) -> None:
        """Datasets have new commits: make the jobs due that follow one of them."""
        with self._changed:
            now = self.clock()
            for job in self.jobs.values():
                if job.follows is not None and job.due is None and not job.follows.isdisjoint(heads):
                    job.due = now if job.period is None else max(now, job.started + job.period)
                    self._changed.notify()

    def wake(self) -> None:
        """The result of ``ready`` has changed."""
        with self._changed:
            self._changed.notify_all()

    def _next(self, now: float) -> tuple[Job | None, float | None]:
        """The job to run now, or the seconds until one is due (None: no job is due)."""
        waiting = [job for job in self.jobs.values() if job.due is not None and not job.running]
        if not waiting or not self.ready():
            return None, None if not waiting else 1.0
        alone = sorted(job.started + ALONE for job in self.jobs.values() if job.compiling and job.started + ALONE > now)
        full = len(alone) >= self.compiling
        due = [job for job in waiting if job.due is not None and job.due <= now and not (full and job.cold())]
        if not due:
            later = [job.due for job in waiting if job.due is not None and job.due > now]
            return None, min([*later, *(alone[:1] if full else [])]) - now
        return min(due, key=lambda job: (job.due or 0.0) - (HEAD_START if job.follows is None else 0.0)), 0.0

    def _work(self) -> None:
        while True:
            with self._changed:
                job: Job | None = None
                while self._open:
                    job, pause = self._next(self.clock())
                    if job is not None:
                        break
                    self._changed.wait(pause)
                if not self._open or job is None:
                    return
                job.running = True
                job.compiling = job.cold()
                job.started = self.clock()
                job.due = None
                # Another thread can run the next job that is due.
                self._changed.notify()
            self._run(job)

    def _run(self, job: Job) -> None:
        more, retry = False, None
        try:
            more = job.run()
            job.failures = 0
            job.runs += 1
        except NotReady:
            retry = 0.5
        except Exception as error:
            job.failures += 1
            retry = self.failed(job, error)
        with self._changed:
            job.running = job.compiling = False
            now = self.clock()
            if retry is not None:
                job.due = now + retry
            elif job.follows is None:
                job.due = self._following(job, now)
            elif more or job.due is not None:
                job.due = now if job.period is None else max(now, job.started + job.period)
            self._changed.notify_all()

    @staticmethod
    def _following(job: Job, now: float) -> float | None:
        if job.period is None:
            return None
        missed = math.floor((now - job.anchor) / job.period) - math.floor((job.started - job.anchor) / job.period)
        job.late += max(0, missed)
        return job.anchor + (math.floor((now - job.anchor) / job.period) + 1) * job.period
