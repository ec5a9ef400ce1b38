"""A user over REST: an application that polls for results and acknowledges them."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, field

from tocsin.broker.transport import rest_calls as rest
from tocsin.client.core.access_token import AccessToken
from tocsin.client.notification import Gap, Notification
from tocsin.effects import Effects, Pause
from tocsin.errors import Forbidden, NotFound, TocsinError, Unauthorized, Unreachable, UserError
from tocsin.simulation.identity.account import Account
from tocsin.simulation.ledger import Interest
from tocsin.simulation.network.network import Network
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done, Process, Request
from tocsin.simulation.nodes.coordinator import Refusal
from tocsin.simulation.nodes.rest_server import Asked, ListSubscriptions
from tocsin.wire import messages as wire
from tocsin.wire.position import Position
from tocsin.wire.reports import BrokerRequest, Placement

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.coordinator import CoordinatorNode

#: Seconds for an answer beside those of a long poll, and between two rounds of polls.
TIMEOUT, ROUND = 8.0, 0.3
#: Failures in a row after which it asks for another broker.
FAILURES = 2


class _Place(Struct, frozen=True):
    """Answered by Placement."""


class _Answer(Struct):
    subscription: int = 0
    after: int = 0
    epoch: int = 0
    results: list[wire.Notify] = field(default_factory=list)
    gaps: list[wire.Gap] = field(default_factory=list)
    migrate: wire.Migrate | None = None
    subscriptions: list[wire.DurableSubscription] = field(default_factory=list)


_answer = msgspec.json.Decoder(_Answer)
_placement = msgspec.json.Decoder(Placement)


class RestUser(Node):
    """``interests`` as those of a client. It acknowledges what it has consumed in ``acks`` of its polls."""

    def __init__(
        self, name: str, network: Network, rng: Random, brokers: dict[str, BrokerNode], coordinator: CoordinatorNode
    ) -> None:
        super().__init__(name, network)
        self.rng, self.brokers, self.coordinator = rng, brokers, coordinator
        self.account: Account
        self.interests: dict[int, Interest] = {}
        self.acked: dict[int, int] = {}  # by handle: an acknowledgement that was answered
        self.caught_up: dict[int, float] = {}  # by handle: when it asked for results and there were none
        self.polls = self.migrations = 0
        self.every = ROUND
        self._broker: BrokerNode | None = None
        self._failed: list[str] = []

    def boot(self) -> None:
        super().boot()
        self.account.boot(self.interests.values())
        self._access = AccessToken(None)
        self._broker, self._failed = None, []
        Process(self, self._run(), self._perform)

    @property
    def at(self) -> str:
        """The broker that serves it."""
        return "" if self._broker is None else self._broker.name

    @property
    def ready(self) -> bool:
        return self.up and self._broker is not None and self._access.value is not None

    # -- the application

    def _run(self) -> Effects[None]:
        failures = 0
        while True:
            try:
                yield from self._round()
                failures = 0
            except Unauthorized:
                if self.trace:
                    self.trace.say(self.name, "its token is refused")
                self._access.refused()
                yield Pause(self.rng.uniform(0.1, 1.0))
            except TocsinError as error:
                if self.trace:
                    self.trace.say(self.name, f"its request failed: {error.message}")
                failures += 1
                if failures >= FAILURES and self._broker is not None:
                    self._failed = [*self._failed, self._broker.name][-2:]
                    self._broker, failures = None, 0
                yield Pause(self.rng.uniform(0.2, 1.0))
            yield Pause(self.every)

    def _round(self) -> Effects[None]:
        if self._access.value is None or self._access.due(self.clock.now):
            yield from self._log_in()
        if self._broker is None:
            found: Placement = yield _Place()
            self._broker, self._failed = self.brokers[found.url], []
        for interest in list(self.interests.values()):
            if not interest.wanted:
                yield from self._unsubscribe(interest)
            elif interest.ended:
                yield from self._subscribe(interest)
            else:
                yield from self._poll(interest)

    def _log_in(self) -> Effects[None]:
        try:
            found = yield from self.account.tokens()
        except UserError:  # the person enters the password that counts, or registers again
            yield Pause(self.rng.uniform(1.0, 3.0))
            self.account.boot(self.interests.values())
            raise
        self._access.renew(found.token, found.seconds, self.clock.now, fresh=True)

    def _subscribe(self, interest: Interest) -> Effects[None]:
        self.account.requested.add((interest.channel, interest.kind))
        try:
            found: _Answer = yield rest.SubscribeRequest(interest.channel, [interest.kind])
        except (NotFound, Forbidden):
            return  # until the channel is there again, or the grant
        interest.id, interest.position = found.subscription, Position(found.epoch, found.after)
        self.account.confirmed(interest, found.subscription)
        interest.confirm(self.clock.now, found.subscription, found.after)
        if self.trace:
            self.trace.say(self.name, f"{interest.channel}({interest.kind}) is confirmed, after {found.after}")

    def _unsubscribe(self, interest: Interest) -> Effects[None]:
        if not interest.ended and interest.id is not None:
            with suppress(NotFound):
                yield rest.UnsubscribeRequest(interest.id)
            interest.end()

    def _poll(self, interest: Interest) -> Effects[None]:
        if interest.id is None:
            yield from self._find(interest)
            return
        own: int | None = None if interest.position is None else interest.position.execution
        if self.account.forgetful and own is not None:
            interest.again, own = own, None  # from where the store says
        wait, limit = self.rng.choice((0.0, 0.0, 1.0, 3.0)), self.rng.choice((1, 3, 100))
        began = self.clock.now
        try:
            epoch = 0 if interest.position is None else interest.position.epoch
            found: _Answer = yield rest.ResultsQuery(interest.id, own, epoch, limit, wait)
        except (NotFound, Forbidden):
            yield from self._find(interest)
            return
        self.polls += 1
        if not found.results:
            self.caught_up[interest.handle] = began
        self._consume(interest, found)
        if self.rng.random() < 0.7:
            yield from self._acknowledge(interest)
        if found.migrate is not None:
            if self.trace:
                self.trace.say(self.name, f"migrates to {found.migrate.broker}")
            self._broker = self.brokers[found.migrate.url]
            self.migrations += 1

    def _consume(self, interest: Interest, found: _Answer) -> None:
        before = interest.position or Position(found.epoch, interest.again)
        for gap in found.gaps:
            item = Gap(interest.channel, gap.subscription, Position(0, gap.after), Position(0, gap.next), gap.reason)
            interest.miss(self.clock.now, item, interest.id)
        for each in found.results:
            interest.receive(Notification(each.channel, each.subscription, each.execution, each.results))
        interest.id, interest.position = found.subscription, max(before, Position(found.epoch, found.after))

    def _acknowledge(self, interest: Interest) -> Effects[None]:
        assert interest.id is not None and interest.position is not None
        epoch, execution = interest.position
        try:
            yield rest.Acknowledgement(interest.id, execution, epoch)
        except NotFound:
            return  # the next poll says what has happened
        self.acked[interest.handle] = execution

    def _find(self, interest: Interest) -> Effects[None]:
        """Its id is not known, or not any more."""
        listed: _Answer = yield ListSubscriptions()
        self.account.listed(listed.subscriptions)
        found = self.account.find(interest, listed.subscriptions)
        if found is None or found.subscription == interest.id:  # refused, although it is there
            interest.end()
        else:
            interest.id = found.subscription

    # -- the network

    def _perform(self, effect: Any) -> Request:
        if isinstance(effect, _Place):
            return self._place
        if isinstance(effect, Asked):
            return self._ask(effect)
        return self.account.perform(effect)

    def _place(self, done: Done) -> None:
        subscriber = f"rest-{self.name}-{self.rng.randrange(1_000_000)}".ljust(wire.LEAST_SUBSCRIBER, "-")
        body = msgspec.json.encode(BrokerRequest(subscriber, avoid=self._failed))

        def answered(value: bytes | None, error: Exception | None) -> None:
            done(None if value is None else _placement.decode(value), _trouble(error))

        self.network.request(self, self.coordinator, self.coordinator.place, body, TIMEOUT)(answered)

    def _ask(self, asked: Asked) -> Request:
        broker, token = self._broker, self._access.value
        assert broker is not None and token is not None
        wait = asked.wait if isinstance(asked, rest.ResultsQuery) else 0.0

        def serve(body: tuple[str, Asked], done: Done) -> None:
            broker.rest.serve(body, done)

        question = self.network.request(self, broker, serve, (token, asked), TIMEOUT + wait)

        def send(done: Done) -> None:
            question(lambda value, error: done(None if value is None else _answer.decode(value), _trouble(error)))

        return send


def _trouble(error: Exception | None) -> Exception | None:
    if isinstance(error, Refusal):
        return error.why
    return error if error is None or isinstance(error, TocsinError) else Unreachable("no answer")
