"""A broker's exchange with the store of users: the production protocol over the simulated network."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.broker.core import instructions as do
from tocsin.broker.upstream.effects import Lost, Refused
from tocsin.broker.upstream.user_exchange import Found, SendExchange, UntilWoken, UserExchange
from tocsin.errors import Unreachable, UserError
from tocsin.identity.messages import Exchange, Exchanged
from tocsin.identity.tokens import Verifier
from tocsin.simulation.identity.witness import Witness
from tocsin.simulation.network.process import Done, Process, Request, first, watched
from tocsin.simulation.nodes.identity import Answer, Identity

if TYPE_CHECKING:
    from tocsin.simulation.nodes.broker import BrokerNode

#: Seconds for an exchange, and until what a request has changed must be durable.
TIMEOUT, WRITTEN = 4.0, 10.0

_exchanged = msgspec.json.Decoder(Exchanged)


class Users:
    def __init__(self, node: BrokerNode, witness: Witness, identity: Identity, rng: Random) -> None:
        self.node, self.witness, self.identity = node, witness, identity
        self.exchange: UserExchange = UserExchange(
            node.state.users,
            Verifier(node.wall_clock, node.config.identity.clock_skew),
            node.handle,
            node.wall_clock,
            self._wake,
            rng,
        )
        self._woken = False
        self._waiting: Done | None = None
        self._failed = False  # an exchange, since the broker was last compared with the store

    def start(self) -> None:
        self.node.state.be_subscriptions.restoring_users = True
        Process(self.node, watched(self.exchange.run(), self._learn), self._perform)

    def stop(self) -> None:
        """Tries once and does not wait for the answer."""
        self._send(self.exchange.flush())(lambda value, error: None)

    def carry_out(self, it: do.Authenticate | do.Stored) -> None:
        if isinstance(it, do.Authenticate):
            peer = it.peer
            self.exchange.authenticate(it.token, lambda found: self.node.handle(found.event(peer, self.node.at)))
        elif isinstance(it, do.Acknowledge):
            self.exchange.acknowledge(it)
        else:
            self.exchange.store(it)

    def verify(self, token: str, done: Done) -> None:
        def found(it: Found) -> None:
            done(None if it.claims is None else (it.claims, it.durable), it.problem)

        self.exchange.restore(token, found)

    def written(self, done: Done) -> None:
        end = first(done)
        self.exchange.written(lambda: end(None, None))
        self.node.later(WRITTEN, end, None, Unreachable("the store of users does not answer"))

    # -- effects

    def _learn(self, effect: Any, value: Any) -> Any:
        """The witness of the broker learns what the broker learns, at the same moment."""
        if isinstance(value, Answer):
            self.witness.revoked = value.revoked
            return _exchanged.decode(value.body)
        return value

    def _perform(self, effect: Any) -> Request:
        if isinstance(effect, UntilWoken):
            if self._failed:
                self._failed = False
                self.witness.compare(self.exchange.stored(), self.identity.records)
            return lambda done: self._until_woken(effect.seconds, done)
        assert isinstance(effect, SendExchange)
        self._woken = False
        return self._send(effect.exchange)

    def _send(self, exchange: Exchange) -> Request:
        node = self.node
        heartbeat, coordinator = node.reporter.heartbeat, self.identity.node
        if not heartbeat.registered:
            self._failed = True
            return lambda done: node.later(0.0, done, None, Lost("not registered"))
        body = (node.name, heartbeat.token, msgspec.json.encode(exchange))
        question = node.network.request(node, coordinator, self.identity.exchange, body, TIMEOUT)

        def asked(done: Done) -> None:
            question(lambda value, error: answered(value, _trouble(error), done))

        def answered(value: Any, error: Exception | None, done: Done) -> None:
            self._failed |= error is not None
            done(value, error)

        return asked

    def _until_woken(self, seconds: float, done: Done) -> None:
        if self._woken:
            done(None, None)
            return
        self._waiting = done
        self.node.later(seconds, self._resume, done)

    def _wake(self) -> None:
        self._woken = True
        if self._waiting is not None:
            self.node.later(0.0, self._resume, self._waiting)

    def _resume(self, done: Done) -> None:
        if self._waiting is done:
            self._waiting = None
            done(None, None)


def _trouble(error: Exception | None) -> Exception | None:
    """As the client over HTTP has it."""
    if isinstance(error, UserError):
        return Refused(error.to_dict(), error.status)
    return None if error is None else Lost(str(error))
