"""A user's device: how its application gets tokens, and what it knows of its durable subscriptions."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec

from tocsin.client.core.login import Login, SendPassword, SendRefresh, Tokens
from tocsin.effects import Effects
from tocsin.errors import AlreadyExists, TocsinError, Unreachable
from tocsin.identity import messages as it
from tocsin.identity.tokens import session_prefix
from tocsin.simulation.identity.people import Device
from tocsin.simulation.ledger import Interest
from tocsin.simulation.network.node import Node
from tocsin.simulation.network.process import Done, Process, Request
from tocsin.wire.messages import DurableSubscription

if TYPE_CHECKING:
    from tocsin.simulation.nodes.cluster import DataCluster
    from tocsin.simulation.nodes.identity import Identity

TIMEOUT = 10.0
#: Seconds that a confirmation may be on its way, while what it confirms ends.
ON_ITS_WAY = 30.0

_tokens = msgspec.json.Decoder(Tokens)


class Account:
    """``forgetful``: the application keeps nothing over a restart, and continues where the store says. ``typed`` is the
    password that the person has entered."""

    def __init__(
        self, node: Node, device: Device, identity: Identity, cluster: DataCluster, rng: Random, forgetful: bool
    ) -> None:
        self.node, self.device, self.identity, self.cluster = node, device, identity, cluster
        self.rng, self.forgetful = rng, forgetful
        self.typed = ""
        self.requested: set[tuple[str, str]] = set()
        self.complaints: list[tuple[str, str]] = []  # invariant, what

    def boot(self, interests: Iterable[Interest]) -> None:
        self.typed = self.device.person.password
        self._login = Login()
        for interest in interests:
            if not interest.ended and self._ended(interest.spans[-1].confirmed):
                interest.end()
            if self.forgetful:
                interest.forget()

    def _ended(self, since: float) -> bool:
        """Whether the session, and what was durable for it, has ended since then."""
        lost = self.identity.people.lost
        keys = (self.device.session, session_prefix(self.device.person.name))
        return any(lost.get(key, float("-inf")) >= since for key in keys)

    # -- tokens

    def log_in(self, done: Done) -> None:
        """Answered by Tokens."""
        Process(self.node, self.tokens(), self.perform, done)

    def tokens(self) -> Effects[Tokens]:
        person = self.device.person
        if not person.registered:
            with suppress(AlreadyExists):  # on another device, or the answer was lost
                yield it.Register(person.name, person.password)
            person.registered = True
        found = yield from self._login.tokens()
        return found

    def perform(self, effect: Any) -> Request:
        device = self.device
        if isinstance(effect, SendRefresh):
            return self._ask(it.Refresh(effect.refresh))
        if isinstance(effect, SendPassword):
            return self._ask(it.LogIn(device.person.name, self.typed, device.name))
        return self._ask(effect)

    def _ask(self, call: it.AnyCall) -> Request:
        node, identity = self.node, self.identity
        question = node.network.request(node, identity.node, identity.call, msgspec.json.encode(call), TIMEOUT)

        def asked(done: Done) -> None:
            def answered(value: bytes | None, error: Exception | None) -> None:
                if error is not None and not isinstance(error, TocsinError):
                    error = Unreachable("no coordinator answers")
                is_tokens = value is not None and not isinstance(call, it.Register)
                done(_tokens.decode(value) if is_tokens else value, error)  # type: ignore[arg-type]

            question(answered)

        return asked

    # -- what is durable

    def listed(self, durable: Iterable[DurableSubscription]) -> None:
        """The network says that these are its own."""
        for each in durable:
            if (each.channel, _kind(each)) not in self.requested:
                what = f"{self.node.name} sees {each.channel}({_kind(each)}) of another user"
                self.complaints.append(("durable subscriptions are private", what))

    def confirmed(self, interest: Interest, subscription: int) -> None:
        """A broker says that it is durable: then it is stored at this moment."""
        rows = self.identity.records.durable(self.device.session)
        if not any((each.channel, _kind(each)) == (interest.channel, interest.kind) for each in rows):
            self._missing(interest, subscription, self.node.clock.now - ON_ITS_WAY)

    def _missing(self, interest: Interest, subscription: int, since: float) -> None:
        people, channel = self.identity.people, self.cluster.names[subscription][0]
        if self.cluster.present(channel) and not people.may_be_lost(self.device, interest.channel, since):
            what = f"{self.node.name} has no {interest.channel}({interest.kind}), confirmed after {since:.1f}"
            self.complaints.append(("durable subscriptions are stored", what))

    def find(self, interest: Interest, durable: Iterable[DurableSubscription]) -> DurableSubscription | None:
        """The durable subscription of an interest that was confirmed."""
        span, wanted = interest.spans[-1], (interest.channel, interest.kind)
        channel = self.cluster.names[span.subscription][0]
        for each in durable:
            if (each.channel, _kind(each)) == wanted and self.cluster.names[each.subscription][0] is channel:
                return each
        if not span.continued:
            self._missing(interest, span.subscription, span.confirmed)
        return None


def _kind(durable: DurableSubscription) -> str:
    return str(durable.args[0])  # type: ignore[index]
