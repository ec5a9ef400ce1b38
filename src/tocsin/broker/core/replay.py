"""Replay: subscribers that resume or lag get what they missed, from the cache or from the data cluster."""

from __future__ import annotations

from collections.abc import Mapping

from tocsin.broker.core import events as ev
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.events import Line
from tocsin.broker.core.fetch_queue import FetchQueue, Job
from tocsin.broker.core.model.be_subscription import BESubscription
from tocsin.broker.core.model.session import LIVE, Session
from tocsin.wire import messages as wire


class Replay:
    """``by_id``: the BE subscriptions."""

    def __init__(self, context: Context, by_id: Mapping[int, BESubscription]) -> None:
        self.context = context
        self.by_id = by_id
        self.fetches = FetchQueue(context.config.fetches)

    def resume(
        self, subscription: BESubscription, session: Session, execution: int, out: Out, *, quiet: bool = False
    ) -> None:
        """Sends what came after ``execution`` and goes live, or waits for the data cluster."""
        subscription.congested.pop(session.peer, None)
        if session.congested:
            session.subscriptions[subscription.id] = execution
            subscription.congested[session.peer] = None
        elif self._near(subscription, execution):
            if execution < subscription.delivered:
                self.context.ledger.cache.hits += 1
                missed = subscription.recent.after(execution)
                if missed:
                    self.context.deliver((session.peer,), tuple(missed), out)
            self._go_live(subscription, session, out, quiet=quiet)
        else:
            self.context.ledger.cache.misses += 1
            session.subscriptions[subscription.id] = execution
            self.fetches.wait(subscription, session.peer, execution)

    def _near(self, subscription: BESubscription, execution: int) -> bool:
        return execution >= subscription.recent.complete_after or execution >= subscription.delivered

    def _go_live(self, subscription: BESubscription, session: Session, out: Out, *, quiet: bool) -> None:
        session.subscriptions[subscription.id] = LIVE
        session.not_live -= 1
        subscription.live[session.peer] = None
        subscription.audience = None
        if not quiet:
            self.context.send(session, wire.Live(subscription.id, subscription.delivered), out)

    def stop_live(self, subscription: BESubscription, session: Session) -> None:
        del subscription.live[session.peer]
        subscription.audience = None
        session.not_live += 1

    # -- slow subscribers

    def congested(self, event: ev.Congested, out: Out) -> None:
        session = self.context.sessions.get(event.peer)
        if session is None or session.congested:
            return
        session.congested = True
        self.context.ledger.counters.lagged += 1
        for id, execution in session.subscriptions.items():
            subscription = self.by_id[id]
            if execution == LIVE:
                self.stop_live(subscription, session)
                session.subscriptions[id] = subscription.delivered
            else:
                session.subscriptions[id] = subscription.waiting.pop(session.peer, execution)
            subscription.congested[session.peer] = None
            self.context.send(session, wire.Lagging(id, session.subscriptions[id]), out)

    def drained(self, event: ev.Drained, out: Out) -> None:
        session = self.context.sessions.get(event.peer)
        if session is None or not session.congested:
            return
        session.congested = False
        for id, execution in list(session.subscriptions.items()):
            if execution == LIVE:
                continue
            subscription = self.by_id[id]
            subscription.congested.pop(session.peer, None)
            if session.peer in subscription.previous:
                self.fetches.fetch_previous_again(subscription, session.peer, execution)
            else:
                self.resume(subscription, session, execution, out)

    # -- answers of the data cluster

    def fetched(self, event: ev.Fetched, out: Out) -> None:
        job = self.fetches.jobs.get(event.job)
        if job is None:
            return
        if job.peer is not None:
            self._fetched_previous(job, event, out)
            return
        for peers, lines in self.fetches.fetched(event.job, event.lines, event.more):
            if lines:
                self.context.deliver_lines(job.subscription, peers, lines, out)
        self._go_on(job.subscription, out)

    def _go_on(self, subscription: BESubscription, out: Out) -> None:
        """Those near enough go live; the others wait for the next fetch."""
        for peer, execution in list(subscription.waiting.items()):
            session = self.context.sessions[peer]
            session.subscriptions[subscription.id] = execution
            if self._near(subscription, execution):
                del subscription.waiting[peer]
                self.resume(subscription, session, execution, out)
        self.fetches.again(subscription)

    def _fetched_previous(self, job: Job, event: ev.Fetched, out: Out) -> None:
        """First the rest of the previous ids; then where the results of the present one begin."""
        session = self._session_of(job)
        if session is None:
            return
        subscription, lines = job.subscription, event.lines
        if job.find_begin:
            begins_after = event.begins_after.execution
            next = min(_first(lines) or begins_after + 1, begins_after + 1)
            if next > job.execution + 1:
                self._gap(session, subscription, job.execution, next, "released", out)
            del subscription.previous[session.peer]
            self.resume(subscription, session, max(job.execution, next - 1), out)
            return
        ids, _, released = subscription.previous[session.peer]
        execution = lines[-1].execution if lines else job.execution
        first = _first(lines)
        if lines:
            if released and first > job.execution + 1:
                self._gap(session, subscription, job.execution, first, "released", out)
                lines = [line for line in lines if line.execution >= first]
            self.context.deliver_lines(subscription, (session.peer,), lines, out)
        session.subscriptions[subscription.id] = execution
        if event.more:
            self.fetches.fetch_previous(subscription, session.peer, ids, execution, released=released and not first)
        else:
            self.fetches.fetch_next(job, execution)

    def fetch_early(self, event: ev.FetchEarly, out: Out) -> None:
        """The gap to announce ends with an execution that has no number yet: the next tick asks again."""
        if event.job in self.fetches.jobs:
            self.fetches.early.append(self.fetches.jobs.pop(event.job))

    def _session_of(self, job: Job) -> Session | None:
        """None if it has left or asked for something else. A congested one asks again when it is drained."""
        del self.fetches.jobs[job.id]
        session = self.context.sessions.get(job.peer)
        return None if session is None or session.congested or not self.fetches.current(job) else session

    def fetch_gap(self, event: ev.FetchGap, out: Out) -> None:
        job, first = self.fetches.jobs.get(event.job), event.first.execution
        if job is None:
            return
        if job.peer is not None:
            self._previous_gap(job, first, out)
            return
        for peer, execution in self.fetches.expired_before(event.job, first):
            self._gap(self.context.sessions[peer], job.subscription, execution, first, "retention", out)
        self._go_on(job.subscription, out)

    def _previous_gap(self, job: Job, first: int, out: Out) -> None:
        session = self._session_of(job)
        if session is None:
            return
        subscription, execution = job.subscription, first - 1
        self._gap(session, subscription, job.execution, first, "retention", out)
        session.subscriptions[subscription.id] = execution
        if execution <= subscription.confirmed_at:
            self.fetches.fetch_previous_again(subscription, session.peer, execution)
        else:
            del subscription.previous[session.peer]
            self.resume(subscription, session, execution, out)

    def _gap(
        self, session: Session, subscription: BESubscription, execution: int, next: int, reason: str, out: Out
    ) -> None:
        self.context.ledger.counters.gaps += 1
        self.context.send(session, wire.Gap(subscription.id, execution, next, reason), out)


def _first(lines: list[Line]) -> int:
    """The first execution with results; 0 if there is none. A gap does not show that the subscription existed."""
    return next((line.execution for line in lines if not line.gap), 0)
