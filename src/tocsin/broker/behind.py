"""Those who are behind, because they came back, are slow, or the broker itself was cut off."""

from __future__ import annotations

from tocsin.broker import events as ev
from tocsin.broker.back import Back
from tocsin.broker.core import Core
from tocsin.broker.front import LIVE, Front
from tocsin.wire import messages as wire


class Behind(Core):
    """Gets subscribers from where they are to where everybody is."""

    def _resume(self, back: Back, front: Front, after: int, *, quiet: bool = False) -> None:
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
                    self._notify(back, (front.peer,), b"".join(missed), len(missed))
            self._live(back, front, quiet)
        else:
            self.cache.misses += 1
            front.subscriptions[back.id] = after
            self.catchup.wait(back, front.peer, after)

    def _live(self, back: Back, front: Front, quiet: bool = False) -> None:
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
                self.catchup.former(back, front.peer, back.former[front.peer], after)
            else:
                self._resume(back, front, after)

    def _fetched(self, event: ev.Fetched) -> None:
        job = self.catchup.jobs.get(event.job)
        if job is None:
            return
        if job.peer is not None:
            self._fetched_former(event)
            return
        job, shares = self.catchup.fetched(event.job, event.lines, event.more)
        back = job.back
        for share in shares:
            if share.lines:
                self._notify_lines(back, share.peers, share.lines)
        self._go_on(back)

    def _go_on(self, back: Back) -> None:
        """Whoever is near enough now goes live; the others wait for the next fetch."""
        for peer, after in list(back.waiting.items()):
            front = self.fronts[peer]
            front.subscriptions[back.id] = after
            if after >= back.recent.floor or after >= back.through:
                del back.waiting[peer]
                self._resume(back, front, after)
        self.catchup.again(back)

    def _fetched_former(self, event: ev.Fetched) -> None:
        job = self.catchup.jobs.pop(event.job)
        back, front = job.back, self.fronts.get(job.peer)
        if front is None or job.peer not in back.former or front.congested:
            return  # one that is congested asks again
        known = [line for line in event.lines if line.execution <= back.start]
        last = known[-1].execution if known else job.after
        if known:
            self._notify_lines(back, (front.peer,), known)
        if event.more and len(known) == len(event.lines):
            front.subscriptions[back.id] = last
            self.catchup.former(back, front.peer, job.source, last)
            return
        del back.former[front.peer]
        self._gap(front, back, last, back.start + 1, "released")
        self._resume(back, front, max(last, back.start))

    def _fetch_gap(self, event: ev.FetchGap) -> None:
        job = self.catchup.jobs.get(event.job)
        if job is None:
            return
        if job.peer is not None:
            del self.catchup.jobs[event.job]
            front = self.fronts.get(job.peer)
            if front is not None and job.back.former.pop(job.peer, None) is not None:
                next = max(event.first, job.back.start + 1)
                self._gap(front, job.back, job.after, next, "retention")
                self._resume(job.back, front, next - 1)
            return
        job, missing = self.catchup.gone_before(event.job, event.first)
        for peer, after in missing:
            self._gap(self.fronts[peer], job.back, after, event.first, "retention")
        self._go_on(job.back)

    def _gap(self, front: Front, back: Back, after: int, next: int, reason: str) -> None:
        self.counters.gaps += 1
        self._send(front, wire.Gap(back.id, after, next, reason))

    def _returned(self, event: ev.Returned) -> None:
        """Tells were lost: everybody of these channels looks at the results again."""
        before: dict[int, int] = {}
        for name, position in event.positions.items():
            channel = self.channels.get(name.lower())
            if channel is None or position <= channel.position:
                continue
            for back in channel.backs.values():
                before[back.id] = back.through
                self.cache.forget(back.recent)
                back.start = back.recent.floor = position
            channel.newest = max(channel.newest, position)
        for front in self.fronts.values():
            for number in [number for number, after in front.subscriptions.items() if after == LIVE]:
                if number in before:
                    back = self.backs[number]
                    del back.live[front.peer]
                    back.audience = None
                    front.behind += 1
                    self._resume(back, front, before[number])
