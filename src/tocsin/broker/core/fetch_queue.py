"""Which results to fetch from the data cluster, and which subscribers get what of the answers.

A BE subscription is fetched once at a time for all its waiting subscribers, from the lowest position on. After a crash
that is one fetch for ten thousand subscribers that reconnect.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct

from tocsin.broker.core.events import Line, Peer
from tocsin.broker.core.instructions import Fetch
from tocsin.broker.core.model.be_subscription import BESubscription, PreviousIds


class Job(Struct, eq=False):
    """``source`` differs from the subscription's id where results are those of a previous id, for one peer.

    ``delivered``: how far the subscription was when the fetch was asked for.
    """

    id: int
    subscription: BESubscription
    source: int
    execution: int
    delivered: int = 0
    peer: Peer = None

    @property
    def find_begin(self) -> bool:
        """Whether to find out where the results of the subscription's own id begin."""
        return self.peer is not None and self.source == self.subscription.id


class FetchQueue:
    """At most ``most`` fetches are in flight."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.jobs: dict[int, Job] = {}
        self.queue: deque[Job] = deque()
        self.early: list[Job] = []
        self._last_id = 0

    def wait(self, subscription: BESubscription, peer: Peer, execution: int) -> None:
        subscription.waiting[peer] = execution
        if not subscription.fetching:
            self._enqueue(subscription)

    def fetch_previous(
        self, subscription: BESubscription, peer: Peer, ids: tuple[int, ...], execution: int, *, released: bool = False
    ) -> None:
        """For this peer alone: the rest of the first of the previous ids."""
        self._fetch_for(subscription, peer, ids, ids[0], execution, released)

    def fetch_next(self, job: Job, execution: int) -> None:
        """The first previous id has no more: the next one, or where the results of the present id begin."""
        ids, _, released = job.subscription.previous[job.peer]
        if len(ids) > 1:
            self.fetch_previous(job.subscription, job.peer, ids[1:], execution, released=True)
        else:
            self._fetch_for(job.subscription, job.peer, ids, job.subscription.id, execution, released)

    def _fetch_for(
        self,
        subscription: BESubscription,
        peer: Peer,
        ids: tuple[int, ...],
        source: int,
        execution: int,
        released: bool,
    ) -> None:
        self._last_id += 1
        subscription.previous[peer] = PreviousIds(ids, self._last_id, released)
        self.queue.append(Job(self._last_id, subscription, source, execution, peer=peer))

    def fetch_previous_again(self, subscription: BESubscription, peer: Peer, execution: int) -> None:
        """As it was asked before, from the first id on."""
        previous = subscription.previous[peer]
        self.fetch_previous(subscription, peer, previous.ids, execution, released=previous.released)

    def retry(self) -> None:
        """What was asked too early, from the rest of the previous id on: it may have got something meanwhile."""
        early, self.early = self.early, []
        for job in early:
            if self.current(job):
                self.fetch_previous_again(job.subscription, job.peer, job.execution)

    def start(self) -> list[Fetch]:
        """The fetches that fit into the window."""
        found = []
        while self.queue and len(self.jobs) < self.most:
            job = self.queue.popleft()
            subscription = job.subscription
            if job.peer is None:
                if not subscription.waiting:
                    subscription.fetching = False
                    continue
                job.execution = min(subscription.waiting.values())
            elif not self.current(job):
                continue
            job.delivered = subscription.delivered
            self.jobs[job.id] = job
            channel = subscription.channel
            # A client may claim any id as its previous one.
            same_as = None if job.source == subscription.id else subscription.id
            position = channel.position(job.execution)
            found.append(Fetch(job.id, channel.name, job.source, position, job.find_begin, same_as))
        return found

    def current(self, job: Job) -> bool:
        """Whether a job for one peer is still what this peer waits for."""
        previous = job.subscription.previous.get(job.peer)
        return previous is not None and previous.job == job.id

    def fetched(self, id: int, lines: list[Line], more: bool) -> list[tuple[tuple[Peer, ...], list[Line]]]:
        """The lines for each group of peers with the same position, if the fetch covers it. Results not delivered yet
        are left to come live."""
        job = self.jobs.pop(id)
        subscription = job.subscription
        delivered = subscription.delivered
        known = [line for line in lines if line.execution <= delivered]
        last = known[-1].execution if known else job.execution
        if len(known) < len(lines):
            covered = delivered
        elif more:
            covered = last
        else:  # it covers at least what was delivered when it was asked for
            covered = max(last, job.delivered)
        groups: dict[int, list[Peer]] = {}
        for peer, execution in subscription.waiting.items():
            if execution >= job.execution:
                groups.setdefault(execution, []).append(peer)
        shares = []
        for execution, peers in groups.items():
            shares.append((tuple(peers), [line for line in known if line.execution > execution]))
            for peer in peers:
                subscription.waiting[peer] = max(execution, covered)
        return shares

    def expired_before(self, id: int, first: int) -> list[tuple[Peer, int]]:
        """(peer, its position) of all that wait for something before ``first``; they go on from there."""
        job = self.jobs.pop(id)
        missing = []
        for peer, execution in job.subscription.waiting.items():
            if execution < first - 1:
                missing.append((peer, execution))
                job.subscription.waiting[peer] = first - 1
        return missing

    def again(self, subscription: BESubscription) -> None:
        """After a fetch was dealt with: the next one for those that still wait."""
        subscription.fetching = False
        if subscription.waiting:
            self._enqueue(subscription)

    def _enqueue(self, subscription: BESubscription) -> None:
        subscription.fetching = True
        self._last_id += 1
        self.queue.append(Job(self._last_id, subscription, subscription.id, 0))
