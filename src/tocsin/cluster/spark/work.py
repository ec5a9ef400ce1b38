"""The work that runs in Spark: for which request, until when, and why it was cancelled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from tocsin.errors import Busy, QueryTimeout, TocsinError

T = TypeVar("T")
Kind = Literal["channel", "query", "other"]


class Request:
    """A client's request. Work that the call ``run`` begins in Spark is cancelled soon after ``stop``."""

    stopped = False

    def stop(self) -> None:
        self.stopped = True

    def run(self, call: Callable[..., T], *args: Any) -> T:
        token = _request.set(self)
        try:
            return call(*args)
        finally:
            _request.reset(token)


_request: ContextVar[Request | None] = ContextVar("request", default=None)


def stopped() -> bool:
    """Whether the client of this thread's request has gone."""
    request = _request.get()
    return request is not None and request.stopped


@dataclass(eq=False)
class Work:
    """The jobs of one group. ``waiting`` counts the checks, one after the other, at which they had no core."""

    group: str
    kind: Kind
    started: float
    seconds: float | None
    request: Request | None
    waiting: int = 0
    error: TocsinError | None = None


class WorkList:
    """All work that runs now."""

    def __init__(self) -> None:
        self._running: dict[str, Work] = {}

    @contextmanager
    def running(self, group: str, kind: Kind, started: float, seconds: float | None) -> Iterator[None]:
        """The error of cancelled work says why it was cancelled."""
        work = self._running[group] = Work(group, kind, started, seconds, _request.get())
        try:
            self._end_stopped(work)
            if work.error is not None:
                raise work.error
            yield
        except Exception as error:
            if work.error is None or work.error is error:
                raise
            raise work.error from error
        finally:
            del self._running[group]

    @staticmethod
    def _end_stopped(work: Work) -> None:
        if work.request is not None and work.request.stopped:
            work.error = QueryTimeout("the client did not wait for the answer")

    def to_cancel(self, now: float, active: Callable[[str], int | None]) -> list[str]:
        """The groups to cancel. ``active`` counts the running tasks of a group; None: it has no job that could run."""
        works = list(self._running.values())
        for work in works:
            if work.error is None:
                self._end_stopped(work)
            if work.error is None and work.seconds is not None and now - work.started > work.seconds:
                subject = "execution" if work.kind == "channel" else "query"
                work.error = QueryTimeout(
                    f"the {subject} took longer than {work.seconds:g} s and was cancelled",
                    hint=f"make it smaller, or raise the setting {subject}_seconds",
                )
        queries = [work for work in works if work.kind == "query" and work.error is None]
        channels = [work for work in works if work.kind == "channel"] if queries else []
        for work in channels:
            work.waiting = work.waiting + 1 if active(work.group) == 0 else 0
        if any(work.waiting > 1 for work in channels):
            holding = [work for work in queries if active(work.group)]
            if holding:
                oldest = min(holding, key=lambda work: work.started)
                oldest.error = Busy(
                    "the query was cancelled because channels waited for its cores",
                    hint="make it smaller, or try again later",
                )
        return [work.group for work in works if work.error is not None]
