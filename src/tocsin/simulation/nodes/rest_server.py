"""A broker's REST interface: production's calls, over simulated requests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from tocsin.broker.transport import rest_calls as rest
from tocsin.broker.transport.rest_request import UntilMessage
from tocsin.effects import Effects
from tocsin.simulation.network.process import Done, Process, Request, first

if TYPE_CHECKING:
    from tocsin.simulation.identity.witness import Witness
    from tocsin.simulation.nodes.broker import BrokerNode
    from tocsin.simulation.nodes.users import Users


class ListSubscriptions(Struct, frozen=True):
    pass


Asked = rest.SubscribeRequest | rest.UnsubscribeRequest | rest.ResultsQuery | rest.Acknowledgement | ListSubscriptions


class RestServer:
    def __init__(self, node: BrokerNode, witness: Witness, users: Users) -> None:
        self.node, self.witness, self.users = node, witness, users
        self.calls = rest.RestCalls(node, users.exchange.acknowledge)

    def serve(self, body: tuple[str, Asked], done: Done) -> None:
        """The answer is JSON."""

        def ended(value: Any, error: Exception | None) -> None:
            done(None if error is not None else msgspec.json.encode(value), error)

        Process(self.node, self._call(*body), self._perform, ended)

    def _call(self, token: str, asked: Asked) -> Effects[Any]:
        calls = self.calls
        user, durable = yield from calls.session(token)
        self.witness.token = token  # of the request that is opened next
        match asked:
            case rest.SubscribeRequest():
                return (yield from calls.subscribe(user, asked))
            case rest.UnsubscribeRequest():
                return (yield from calls.unsubscribe(user, durable, asked))
            case rest.ResultsQuery():
                return (yield from calls.results(user, durable, asked))
            case rest.Acknowledgement():
                return (yield from calls.acknowledge(user, durable, asked))
        return {"subscriptions": durable}

    def _perform(self, effect: Any) -> Request:
        if isinstance(effect, rest.VerifyToken):
            return lambda done: self.users.verify(effect.token, done)
        if isinstance(effect, rest.UntilWritten):
            return self.users.written
        assert isinstance(effect, UntilMessage)
        return lambda done: self._until_message(effect, done)

    def _until_message(self, effect: UntilMessage, done: Done) -> None:
        end = first(done)
        # Later: what causes the message is not over yet.
        effect.request.wake = lambda: self.node.later(0.0, end, True, None)
        if effect.until is not None:
            self.node.later(max(0.0, effect.until - self.node.clock.now), end, False, None)
