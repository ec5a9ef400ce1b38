"""Those who are behind: served from recent results where these reach back, otherwise from the data cluster.

One BE subscription is fetched once at a time for all who wait for it, from the furthest behind. When everybody comes
back after a crash, that is one fetch for ten thousand subscribers.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from tocsin.broker.core.be_subscription import BESubscription, Former
from tocsin.broker.core.events import Line, Peer
from tocsin.broker.core.instructions import Fetch


class Job(Struct, eq=False):
    """``source`` differs from the back's own number where results are those of its former number, for one peer."""

    id: int
    back: BESubscription
    source: int
    after: int
    through: int = 0
    peer: Peer = None

    @property
    def begin(self) -> bool:
        """Whether it is to be found out where the results of the back's own number begin."""
        return self.peer is not None and self.source == self.back.id


class Share(Struct, frozen=True):
    """What a group of peers with the same position gets out of a fetch."""

    peers: tuple[Peer, ...]
    lines: list[Line]
    position: int


class CatchUp:
    """Decides what to fetch and who gets what; at most ``most`` fetches at a time."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.jobs: dict[int, Job] = {}
        self.queue: deque[Job] = deque()
        self.early: list[Job] = []
        self._number = 0

    def wait(self, back: BESubscription, peer: Peer, after: int) -> None:
        back.waiting[peer] = after
        if not back.fetching:
            self._enqueue(back)

    def former(
        self, back: BESubscription, peer: Peer, numbers: tuple[int, ...], after: int, *, between: bool = False
    ) -> None:
        """For this peer alone: the rest of the first of the numbers that it had the subscription under."""
        self._former(back, peer, Former(numbers, self._number + 1, between), numbers[0], after)

    def following(self, job: Job, after: int) -> None:
        """The first number has no more: the next one, or where the results of the present one begin."""
        numbers, _, between = job.back.former[job.peer]
        if len(numbers) > 1:
            self.former(job.back, job.peer, numbers[1:], after, between=True)
        else:
            self._former(job.back, job.peer, Former(numbers, self._number + 1, between), job.back.id, after)

    def _former(self, back: BESubscription, peer: Peer, former: Former, source: int, after: int) -> None:
        self._number = former.job
        back.former[peer] = former
        self.queue.append(Job(former.job, back, source, after, peer=peer))

    def again_former(self, back: BESubscription, peer: Peer, after: int) -> None:
        """As it was asked before, from the first number on."""
        former = back.former[peer]
        self.former(back, peer, former.numbers, after, between=former.between)

    def postpone(self, number: int) -> None:
        self.early.append(self.jobs.pop(number))

    def retry(self) -> None:
        """What was asked too early, from the rest of the former number on: it may have got something meanwhile."""
        early, self.early = self.early, []
        for job in early:
            if self.current(job):
                self.again_former(job.back, job.peer, job.after)

    def start(self) -> list[Fetch]:
        """The fetches there is room for."""
        found = []
        while self.queue and len(self.jobs) < self.most:
            job = self.queue.popleft()
            if job.peer is None:
                if not job.back.waiting:
                    job.back.fetching = False
                    continue
                job.after = min(job.back.waiting.values())
            elif not self.current(job):
                continue
            job.through = job.back.through
            self.jobs[job.id] = job
            found.append(Fetch(job.id, job.back.channel.name, job.source, job.after, job.begin))
        return found

    def current(self, job: Job) -> bool:
        """Whether a job for one peer is still what this peer waits for."""
        former = job.back.former.get(job.peer)
        return former is not None and former.job == job.id

    def fetched(self, number: int, lines: list[Line], more: bool) -> tuple[Job, list[Share]]:
        """Shares for those whose position the fetch covers. What is not delivered yet is left to come live."""
        job = self.jobs.pop(number)
        back = job.back
        limit = back.through
        known = [line for line in lines if line.execution <= limit]
        last = known[-1].execution if known else job.after
        if len(known) < len(lines):
            covered = limit
        elif more:
            covered = last
        else:  # it covers at least what was delivered when it was asked for
            covered = max(last, job.through)
        groups: dict[int, list[Peer]] = {}
        for peer, after in back.waiting.items():
            if after >= job.after:
                groups.setdefault(after, []).append(peer)
        shares = []
        for after, peers in groups.items():
            mine = [line for line in known if line.execution > after]
            position = max(after, covered)
            shares.append(Share(tuple(peers), mine, position))
            for peer in peers:
                back.waiting[peer] = position
        return job, shares

    def gone_before(self, number: int, first: int) -> tuple[Job, list[tuple[Peer, int]]]:
        """(peer, its position) of all who wanted something from before ``first``; their position is moved there."""
        job = self.jobs.pop(number)
        missing = []
        for peer, after in job.back.waiting.items():
            if after < first - 1:
                missing.append((peer, after))
                job.back.waiting[peer] = first - 1
        return job, missing

    def again(self, back: BESubscription) -> None:
        """After a fetch was dealt with: whoever still waits is next in the queue."""
        back.fetching = False
        if back.waiting:
            self._enqueue(back)

    def _enqueue(self, back: BESubscription) -> None:
        back.fetching = True
        self._number += 1
        self.queue.append(Job(self._number, back, back.id, 0))
