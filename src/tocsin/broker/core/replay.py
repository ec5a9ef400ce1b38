"""Those who are behind, because they came back, are slow, or the broker itself was cut off."""

from __future__ import annotations

from tocsin.broker.core import events as ev
from tocsin.broker.core.base import Core
from tocsin.broker.core.be_subscription import BESubscription
from tocsin.broker.core.catchup import Job
from tocsin.broker.core.session import LIVE, Session
from tocsin.wire import messages as wire


class Behind(Core):
    """Gets subscribers from where they are to where everybody is."""

    def _resume(self, back: BESubscription, front: Session, after: int, *, quiet: bool = False) -> None:
        """Sends what came after ``after`` and goes live, or waits for the data cluster."""
        back.slow.pop(front.peer, None)
        if front.congested:
            front.subscriptions[back.id] = after
            back.slow[front.peer] = None
        elif after >= back.recent.floor or after >= back.through:
            if after < back.through:
                self.cache.hits += 1
                missed = back.recent.after(after)
                if missed:
                    self._notify((front.peer,), b"".join(missed), len(missed))
            self._live(back, front, quiet)
        else:
            self.cache.misses += 1
            front.subscriptions[back.id] = after
            self.catchup.wait(back, front.peer, after)

    def _live(self, back: BESubscription, front: Session, quiet: bool = False) -> None:
        front.subscriptions[back.id] = LIVE
        front.behind -= 1
        back.live[front.peer] = None
        back.audience = None
        if not quiet:
            self._send(front, wire.Live(back.id, back.through))

    def _congested(self, event: ev.Congested) -> None:
        front = self.fronts.get(event.peer)
        if front is None or front.congested:
            return
        front.congested = True
        self.counters.lagged += 1
        for number, after in front.subscriptions.items():
            back = self.backs[number]
            if after == LIVE:
                del back.live[front.peer]
                back.audience = None
                front.subscriptions[number] = back.through
                front.behind += 1
            else:
                front.subscriptions[number] = back.waiting.pop(front.peer, after)
            back.slow[front.peer] = None
            self._send(front, wire.Lagging(number, front.subscriptions[number]))

    def _drained(self, event: ev.Drained) -> None:
        front = self.fronts.get(event.peer)
        if front is None or not front.congested:
            return
        front.congested = False
        for number, after in list(front.subscriptions.items()):
            back = self.backs[number]
            if after == LIVE:
                continue
            back.slow.pop(front.peer, None)
            if front.peer in back.former:
                self.catchup.again_former(back, front.peer, after)
            else:
                self._resume(back, front, after)

    def _fetched(self, event: ev.Fetched) -> None:
        job = self.catchup.jobs.get(event.job)
        if job is None:
            return
        if job.peer is not None:
            self._fetched_former(job, event)
            return
        job, shares = self.catchup.fetched(event.job, event.lines, event.more)
        back = job.back
        for share in shares:
            if share.lines:
                self._notify_lines(back, share.peers, share.lines)
        self._go_on(back)

    def _go_on(self, back: BESubscription) -> None:
        """Whoever is near enough now goes live; the others wait for the next fetch."""
        for peer, after in list(back.waiting.items()):
            front = self.fronts[peer]
            front.subscriptions[back.id] = after
            if after >= back.recent.floor or after >= back.through:
                del back.waiting[peer]
                self._resume(back, front, after)
        self.catchup.again(back)

    def _fetched_former(self, job: Job, event: ev.Fetched) -> None:
        """First the rest of the former numbers; then a look at where the results of the present one begin."""
        front = self._heir(job)
        if front is None:
            return
        back, lines = job.back, event.lines
        if job.begin:
            next = min(lines[0].execution if lines else event.begin + 1, event.begin + 1)
            if next > job.after + 1:
                self._gap(front, back, job.after, next, "released")
            del back.former[front.peer]
            self._resume(back, front, max(job.after, next - 1))
            return
        numbers, _, between = back.former[front.peer]
        after = lines[-1].execution if lines else job.after
        if lines:
            if between and lines[0].execution > job.after + 1:
                self._gap(front, back, job.after, lines[0].execution, "released")
            self._notify_lines(back, (front.peer,), lines)
        front.subscriptions[back.id] = after
        if event.more:
            self.catchup.former(back, front.peer, numbers, after)
        else:
            self.catchup.following(job, after)

    def _fetch_early(self, event: ev.FetchEarly) -> None:
        """The gap that is to be announced ends with an execution that has no number yet: the next tick asks again."""
        if event.job in self.catchup.jobs:
            self.catchup.postpone(event.job)

    def _heir(self, job: Job) -> Session | None:
        """The one whom a job was for; None if it has left or asked for something else. Who is congested asks again."""
        del self.catchup.jobs[job.id]
        front = self.fronts.get(job.peer)
        return None if front is None or front.congested or not self.catchup.current(job) else front

    def _fetch_gap(self, event: ev.FetchGap) -> None:
        job = self.catchup.jobs.get(event.job)
        if job is None:
            return
        if job.peer is not None:
            self._former_gap(job, event.first)
            return
        job, missing = self.catchup.gone_before(event.job, event.first)
        for peer, after in missing:
            self._gap(self.fronts[peer], job.back, after, event.first, "retention")
        self._go_on(job.back)

    def _former_gap(self, job: Job, first: int) -> None:
        front = self._heir(job)
        if front is None:
            return
        back, after = job.back, first - 1
        self._gap(front, back, job.after, first, "retention")
        front.subscriptions[back.id] = after
        if after <= back.born:
            self.catchup.again_former(back, front.peer, after)
        else:
            del back.former[front.peer]
            self._resume(back, front, after)

    def _gap(self, front: Session, back: BESubscription, after: int, next: int, reason: str) -> None:
        self.counters.gaps += 1
        self._send(front, wire.Gap(back.id, after, next, reason))

    def _returned(self, event: ev.Returned) -> None:
        """Tells were lost: everybody of these channels looks at the results again."""
        before: dict[int, int] = {}
        for name, position in event.positions.items():
            channel = self.channels.get(name.lower())
            if channel is None or (event.epoch and event.epoch != channel.epoch):
                continue
            channel.lost = max(channel.lost, position)
            if position <= channel.position:
                continue
            for back in channel.backs.values():
                if back.through < position:
                    before[back.id] = back.through
                    self.cache.forget(back.recent)
                    back.start = back.recent.floor = position
            channel.newest = max(channel.newest, position)
        for front in self.fronts.values() if before else ():
            for number in [number for number, after in front.subscriptions.items() if after == LIVE]:
                if number in before:
                    back = self.backs[number]
                    del back.live[front.peer]
                    back.audience = None
                    front.behind += 1
                    self._resume(back, front, before[number])
