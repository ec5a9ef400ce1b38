"""An edge broker that balances with others: ``handle(event, now) -> [output]``, made of the strategy's components.

It is a host of its own kind: its request comes before anything is selected, because what to move depends on what the
reply says and on what PRESS samples then. So a session opens without actions, unlike those of ``balancing.host``.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from tocsin.balancing.strategies.cheung2006.composition import Composition
from tocsin.balancing.strategies.cheung2006.detection.imbalance import balanced_with
from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.detection.overload import Partner
from tocsin.balancing.strategies.cheung2006.detection.pie import Entries, Pie
from tocsin.balancing.strategies.cheung2006.detection.status import Status
from tocsin.balancing.strategies.cheung2006.estimation.press import Press
from tocsin.balancing.strategies.cheung2006.mediation import events as ev
from tocsin.balancing.strategies.cheung2006.mediation import messages as ms
from tocsin.balancing.strategies.cheung2006.mediation import outputs as out
from tocsin.balancing.strategies.cheung2006.mediation.broker_model import BrokerModel
from tocsin.balancing.strategies.cheung2006.mediation.sessions import (
    REPLY,
    Accepting,
    Migrating,
    Requesting,
    Sampling,
    Session,
)
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair, chosen
from tocsin.balancing.strategies.cheung2006.parameters import Parameters


class Edge:
    """``epoch``: unique to this start, so that session ids never repeat. The driver calls ``record`` between ticks."""

    def __init__(
        self,
        broker: str,
        cluster: str,
        head: str,
        model: BrokerModel,
        composition: Composition,
        parameters: Parameters,
        rng: Random,
        now: float = 0.0,
        epoch: str = "0",
    ) -> None:
        self.broker, self.cluster, self.head, self.model = broker, cluster, head, model
        self.composition, self.parameters = composition, parameters
        self.detector = composition.detector.detector(parameters, rng)
        self.known = Entries(parameters.local_pie_period)
        self.session: Session | None = None
        self._pie = composition.exchanger.publisher(parameters, parameters.local_pie_period)
        self._pie_at = now + rng.random() * parameters.local_pie_period
        self._epoch, self._count = epoch, 0
        self._rng = rng
        self._before = Status.OK
        self.detector.sleep(now)

    @property
    def status(self) -> Status:
        return self.detector.state.status

    @property
    def press(self) -> Press | None:
        """While it samples, the driver reports what comes in and what it matches."""
        return self.session.press if isinstance(self.session, Sampling) else None

    def next_due(self) -> float:
        deadline = self.session.deadline if self.session is not None else float("inf")
        return min(self._pie_at, self.detector.due_at, deadline)

    def record(self, indices: Indices, now: float) -> None:
        """A sample of the indices, for stability."""
        self.detector.stability.record(indices, now)

    def handle(self, event: ev.Event, now: float) -> list[out.Output]:
        self.known.expire(now)
        match event:
            case ev.Tick():
                return self._tick(now)
            case ev.Received(sender, message):
                return self._received(sender, message, now)
            case ev.Arrived(subscriber, session, total):
                return self._arrived(subscriber, session, total, now)
            case ev.PeerLost(peer):
                return self._lost(peer, now)

    def _tick(self, now: float) -> list[out.Output]:
        done: list[out.Output] = []
        session = self.session
        if isinstance(session, Sampling) and (session.press.complete or now >= session.press.until):
            done += self._offload(session, now)
        elif session is not None and now >= session.deadline:
            done += self._late(session, now)
        if now >= self._pie_at:
            self._pie_at += self.parameters.local_pie_period
            done += self._publish(now)
        if now >= self.detector.due_at:
            done += self._detect(now)
        return done

    # Load information.

    def _publish(self, now: float) -> list[out.Output]:
        indices = self.model.indices()
        pie = Pie(self.broker, self.cluster, self.status, indices, balanced_with(indices, self.known, self.parameters))
        return [out.Publish(pie)] if self._pie.publishes(pie, now) else []

    def _detect(self, now: float) -> list[out.Output]:
        found = self.detector.detect(self.model.indices(), self.known, now)
        if self.session is not None:
            return []
        partners = [each for each in found.partners if each.action in self.composition.algorithms]
        if not partners:
            return [self._ask_head()] if found.overloaded else []
        return self._request(partners, found.overloaded, now)

    # Requests.

    def _ask_head(self) -> out.Output:
        return out.Send(self.head, ms.GlobalRequest(self._number()))

    def _number(self) -> str:
        self._count += 1
        return f"{self.broker}/{self._epoch}/{self._count}"

    def _request(self, partners: list[Partner], overloaded: bool, now: float) -> list[out.Output]:
        session = Requesting(self._number(), partners, overloaded, now + REPLY)
        self.session = session
        return [out.Send(session.partner, ms.Request(session.session))]

    def _next_partner(self, session: Requesting, now: float) -> list[out.Output]:
        """All have declined: an overloaded broker asks its head."""
        refused = session.partner
        remaining = [each for each in session.partners if each.broker != refused]
        self.session = None
        if remaining:
            return self._request(remaining, session.overloaded, now)
        return [self._ask_head()] if session.overloaded else []

    def _received(self, sender: str, message: ms.Message, now: float) -> list[out.Output]:
        session = self.session
        match message:
            case Pie():
                return self._informed(message, now)
            case ms.Request(number):
                return self._requested(sender, number, now)
            case ms.Reply(number, status):
                if isinstance(session, Requesting) and (session.session, session.partner) == (number, sender):
                    if status is Status.OK and message.resources is not None:
                        return self._accepted(session, message, now)
                    return self._next_partner(session, now)
                # Reserved for a session that this broker has given up.
                return [out.Send(sender, ms.Done(number))] if status is Status.OK else []
            case ms.Done(number, arrived):
                return self._done(sender, number, arrived, now)
            case ms.Join(_, cluster):
                return [out.Watch(cluster, True)] if sender == self.head else []
            case ms.Leave(_, cluster):
                if sender != self.head or cluster == self.cluster:
                    return []
                self.known.forget_cluster(cluster)
                return [out.Watch(cluster, False)]
            case ms.GlobalRequest():
                return []

    def _informed(self, pie: Pie, now: float) -> list[out.Output]:
        if pie.broker == self.broker or pie.whole:
            return []
        self.known.register(pie, now)
        # A broker that is available wakes the detector.
        if pie.status is Status.OK and self.session is None and self.status is not Status.BUSY:
            return self._detect(now)
        return []

    def _requested(self, sender: str, number: str, now: float) -> list[out.Output]:
        if not number.startswith(f"{sender}/"):
            return []
        if self.status is not Status.OK:
            return [out.Send(sender, ms.Reply(number, self.status))]
        self._begin(now)
        wait = self.parameters.press_timeout + 2 * self.parameters.migration_timeout
        self.session = Accepting(number, sender, now + wait)
        return [out.Send(sender, ms.Reply(number, Status.OK, self.model.css(), self.model.resources()))]

    def _accepted(self, session: Requesting, reply: ms.Reply, now: float) -> list[out.Output]:
        assert reply.resources is not None
        self._begin(now)
        accepting = tuple(self.model.subscribe_locally(reply.css))
        partner = session.partners[0]
        press = Press(accepting, self.parameters.press_samples, self.parameters.press_timeout, now)
        self.session = Sampling(
            session.session, partner.broker, partner.action, session.overloaded, reply.resources, accepting, press
        )
        return []

    # Offload and migration.

    def _offload(self, session: Sampling, now: float) -> list[out.Output]:
        subscribers = self.model.subscribers()
        pair = self.composition.what_if(
            session.press.profile(now),
            self._rng,
            self.model.resources(),
            session.theirs,
            self.model.covering(),
            {number: len(each) for number, each in subscribers.items()},
            session.accepting,
            self.parameters,
        )
        self.composition.select(session.action, pair, session.overloaded)
        moved = [name for number, count in pair.selection for name in list(subscribers[number])[:count]]
        record = out.Selected(
            session.session,
            session.partner,
            session.action,
            session.overloaded,
            chosen(pair.selection),
            expected(pair, ours=True),
            expected(pair, ours=False),
        )
        if not moved:
            return [record, out.Send(session.partner, ms.Done(session.session)), *self._end(now, moved=False)]
        wait = len(moved) * self.parameters.migration_timeout + REPLY
        self.session = Migrating(session.session, session.partner, now + wait)
        return [record, *(out.Order(name, session.partner, session.session, len(moved)) for name in moved)]

    def _arrived(self, subscriber: str, number: str, total: int, now: float) -> list[out.Output]:
        session = self.session
        if not isinstance(session, Accepting) or session.session != number or total < 1:
            return []
        if session.total is None:
            session.total, session.deadline = total, now + total * self.parameters.migration_timeout
        if subscriber not in session.arrived:
            session.arrived.append(subscriber)
        return self._finish(session, now) if len(session.arrived) >= session.total else []

    def _finish(self, session: Accepting, now: float) -> list[out.Output]:
        arrived = tuple(session.arrived)
        return [out.Send(session.partner, ms.Done(session.session, arrived)), *self._end(now, moved=bool(arrived))]

    def _done(self, sender: str, number: str, arrived: Iterable[str], now: float) -> list[out.Output]:
        session = self.session
        if session is None or isinstance(session, Requesting) or (session.session, session.partner) != (number, sender):
            return []
        leaving = tuple(arrived) if isinstance(session, Migrating) else ()
        release = [out.Release(leaving, self.model.queue_delay())] if leaving else []
        moved = isinstance(session, Migrating) or (isinstance(session, Accepting) and bool(session.arrived))
        return [*release, *self._end(now, moved=moved)]

    # Beginnings and ends.

    def _begin(self, now: float) -> None:
        self._before = self.status
        self.detector.state.change(Status.BUSY, now)

    def _end(self, now: float, *, moved: bool = True) -> list[out.Output]:
        """Only who has given or taken subscribers has to wait for stable load."""
        self.session = None
        if self.status is Status.BUSY:
            unchanged = Status.UNAVAILABLE if self._before is Status.UNAVAILABLE else Status.OK
            self.detector.state.change(Status.STABILIZING if moved else unchanged, now)
        return []

    def _late(self, session: Session, now: float) -> list[out.Output]:
        match session:
            case Requesting():
                return self._next_partner(session, now)
            case Accepting():
                return self._finish(session, now)
            case _:
                return [out.Send(session.partner, ms.Done(session.session)), *self._end(now)]

    def _lost(self, peer: str, now: float) -> list[out.Output]:
        """Migrating subscribers are still subscribed here: nothing is lost with the partner."""
        self.known.forget(peer)
        session = self.session
        if session is None or session.partner != peer:
            return []
        return self._next_partner(session, now) if isinstance(session, Requesting) else self._end(now)


def expected(pair: Pair, *, ours: bool) -> Indices:
    side = pair.ours if ours else pair.theirs
    return Indices(side.input_ratio, side.output_ratio, side.matching_delay, side.cpu_ratio, side.memory_ratio)
