"""A cluster head: exchanges the load of its cluster, and opens sessions with other clusters (section 3.4.3).

In a session the edges of both clusters learn of each other by local PIE, and balance as if they were one cluster. It
ends when every edge's balanced set has all others, when a head says so, or when the partner is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tocsin.balancing.strategies.cheung2006.detection.global_detector import GlobalDetector
from tocsin.balancing.strategies.cheung2006.detection.indices import mean
from tocsin.balancing.strategies.cheung2006.detection.pie import Entries, Pie, Publisher
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.mediation import events as ev
from tocsin.balancing.strategies.cheung2006.mediation import messages as ms
from tocsin.balancing.strategies.cheung2006.mediation import outputs as out
from tocsin.balancing.strategies.cheung2006.mediation.sessions import REPLY
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


class Head:
    """``partner``: the head of the cluster that this one balances with. ``silent``: a sabotage, which does not pass
    on what other clusters publish."""

    def __init__(
        self,
        broker: str,
        cluster: str,
        edges: Iterable[str],
        parameters: Parameters,
        rng: Random,
        now: float = 0.0,
        epoch: str = "0",
        *,
        silent: bool = False,
    ) -> None:
        self.broker, self.cluster, self.edges = broker, cluster, list(edges)
        self.parameters, self.silent = parameters, silent
        self.detector = GlobalDetector(parameters, rng)
        self.known = Entries(parameters.global_pie_period)
        self.partner: str | None = None
        self.session: str | None = None
        #: The latest PIE of its own edges and of the partner's. They stay: an overloaded edge repeats nothing.
        self._own: dict[str, Pie] = {}
        self._theirs: dict[str, Pie] = {}
        self._asking: tuple[str, list[str], float] | None = None
        self._partner_cluster = ""
        self._requests = 0
        self._pie = Publisher(parameters, parameters.global_pie_period)
        self._pie_at = now + rng.random() * parameters.global_pie_period
        self._epoch, self._count = epoch, 0
        self.detector.sleep(now)

    @property
    def status(self) -> Status:
        return self.detector.state.status

    def next_due(self) -> float:
        deadline = self._asking[2] if self._asking is not None else float("inf")
        return min(self._pie_at, self.detector.due_at, deadline)

    def handle(self, event: ev.Event, now: float) -> list[out.Output]:
        self.known.expire(now)
        match event:
            case ev.Tick():
                return self._tick(now)
            case ev.Received(sender, message):
                return self._received(sender, message, now)
            case ev.PeerLost(peer):
                return self._lost(peer, now)
            case ev.Arrived():
                return []

    def _tick(self, now: float) -> list[out.Output]:
        done: list[out.Output] = []
        if self._asking is not None and now >= self._asking[2]:
            done += self._ask(self._asking[1][1:], now)
        if now >= self._pie_at:
            self._pie_at += self.parameters.global_pie_period
            done += self._publish(now)
        if now >= self.detector.due_at:
            done += self._detect(now)
        return done

    def _publish(self, now: float) -> list[out.Output]:
        if not self._own:
            return []
        self.detector.refresh(self._own.values(), now)
        indices = mean([pie.indices for pie in self._own.values()])
        pie = Pie(self.broker, self.cluster, self.status, indices, whole=True)
        return [out.Publish(pie)] if self._pie.publishes(pie, now) else []

    def _detect(self, now: float, without: str = "") -> list[out.Output]:
        self.detector.refresh(self._own.values(), now)
        heads = self.detector.detect(list(self._own.values()), self.known, now, without)
        return self._ask(heads, now) if heads and self._asking is None else []

    def _ask(self, heads: list[str], now: float) -> list[out.Output]:
        self._asking = None
        if not heads or self.partner is not None:
            return []
        self._count += 1
        number = f"{self.broker}/{self._epoch}/{self._count}"
        self._asking = (number, heads, now + REPLY)
        return [out.Send(heads[0], ms.Request(number))]

    def _received(self, sender: str, message: ms.Message, now: float) -> list[out.Output]:
        match message:
            case Pie():
                return self._informed(sender, message, now)
            case ms.Request(number):
                return self._requested(sender, number, now)
            case ms.Reply(number, status):
                return self._replied(sender, number, status, now)
            case ms.Done(number):
                return self._close(now) if (sender, number) == (self.partner, self.session) else []
            case ms.GlobalRequest():
                return self._asked(sender, now)
            case _:
                return []

    def _informed(self, sender: str, pie: Pie, now: float) -> list[out.Output]:
        if pie.broker == self.broker:
            return []
        if pie.broker in self.edges:
            self._own[pie.broker] = pie
            self.detector.refresh(self._own.values(), now)
            return self._ended(now)
        if not pie.whole:
            # Of an edge elsewhere, which only concerns a session of both clusters.
            if not self._partner_cluster or pie.cluster != self._partner_cluster:
                return []
            self._theirs[pie.broker] = pie
            return self._ended(now)
        # Of another cluster. One that is not available is no barrier: it passes them on.
        self.known.register(pie, now)
        passed: list[out.Output] = []
        if self.status is Status.UNAVAILABLE and not self.silent:
            passed.append(out.Forward(pie, sender))
        if pie.status is Status.OK and self.status is not Status.BUSY and self._asking is None:
            return [*passed, *self._detect(now)]
        return passed

    # Sessions.

    def _asked(self, sender: str, now: float) -> list[out.Output]:
        """An overloaded edge found no partner: at the third time in a session, another cluster is tried."""
        if sender not in self.edges:
            return []
        if self.partner is None:
            return self._detect(now)
        self._requests += 1
        if self._requests < self.parameters.global_requests:
            return []
        previous = self.partner
        return [*self._finish(now), *self._detect(now, without=previous)]

    def _requested(self, sender: str, number: str, now: float) -> list[out.Output]:
        if not number.startswith(f"{sender}/"):
            return []
        self.detector.refresh(self._own.values(), now)
        if self.status is not Status.OK:
            return [out.Send(sender, ms.Reply(number, self.status))]
        known = [pie for pie in self.known if pie.broker == sender]
        if not known:
            # A cluster whose name is not known yet cannot be subscribed to.
            return [out.Send(sender, ms.Reply(number, Status.BUSY))]
        return [out.Send(sender, ms.Reply(number, Status.OK)), *self._open(sender, known[0].cluster, number, now)]

    def _replied(self, sender: str, number: str, status: Status, now: float) -> list[out.Output]:
        asking = self._asking
        if asking is None or (asking[0], asking[1][0]) != (number, sender) or self.partner is not None:
            # Reserved for a session that this head has given up.
            return [out.Send(sender, ms.Done(number))] if status is Status.OK and number != self.session else []
        self._asking = None
        known = [pie for pie in self.known if pie.broker == sender]
        if status is Status.OK and known:
            return self._open(sender, known[0].cluster, number, now)
        return self._ask(asking[1][1:], now)

    def _open(self, partner: str, cluster: str, number: str, now: float) -> list[out.Output]:
        self.partner, self.session, self._partner_cluster = partner, number, cluster
        self._theirs, self._requests = {}, 0
        self.detector.state.change(Status.BUSY, now)
        orders = [out.Send(edge, ms.Join(number, cluster)) for edge in self.edges]
        return [out.Watch(cluster, True), *orders]

    def _ended(self, now: float) -> list[out.Output]:
        """When all balanced sets have all edges of both clusters."""
        if self.partner is None or not self._theirs or len(self._own) < len(self.edges):
            return []
        pies = {**self._own, **self._theirs}
        # An edge of the other cluster may be known only from the sets of others so far.
        everyone = {*pies, *(each for pie in pies.values() for each in pie.balanced)}
        if any(each not in pies or everyone - {each} - set(pies[each].balanced) for each in everyone):
            return []
        return self._finish(now)

    def _finish(self, now: float) -> list[out.Output]:
        assert self.partner is not None and self.session is not None
        return [out.Send(self.partner, ms.Done(self.session)), *self._close(now)]

    def _close(self, now: float) -> list[out.Output]:
        cluster, number = self._partner_cluster, self.session or ""
        self.partner = self.session = None
        self._partner_cluster, self._theirs, self._requests = "", {}, 0
        self.detector.state.change(Status.OK, now)
        self.detector.refresh(self._own.values(), now)
        orders = [out.Send(edge, ms.Leave(number, cluster)) for edge in self.edges]
        return [out.Watch(cluster, False), *orders]

    def _lost(self, peer: str, now: float) -> list[out.Output]:
        self.known.forget(peer)
        self._own.pop(peer, None)
        self._theirs.pop(peer, None)
        if peer in self.edges:
            self.edges.remove(peer)
        if self._asking is not None and self._asking[1][0] == peer:
            return self._ask(self._asking[1][1:], now)
        return self._close(now) if peer == self.partner else []
