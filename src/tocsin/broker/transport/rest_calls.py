"""The papers' calls of a user over REST, as effects on the state machine and the store of users. Pure.

asyncio performs them in production, and the simulator under its own clock.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from tocsin.broker.core import instructions as do
from tocsin.broker.transport.rest_request import Head, Host, RestRequest, decode
from tocsin.effects import Effects
from tocsin.errors import Malformed, NotFound, SystemFailure
from tocsin.identity.tokens import Claims
from tocsin.wire import messages as wire
from tocsin.wire.feed_name import ALL, channel_of
from tocsin.wire.position import Position, other_epoch
from tocsin.wire.remote_errors import remote_error

#: Longest long poll.
LONGEST = 300.0

Durable = list[wire.DurableSubscription]


class SubscribeRequest(Struct, forbid_unknown_fields=True):
    """To a channel with arguments, or to the publications of a feed that meet a condition."""

    channel: wire.Name | None = None
    args: wire.Arguments = msgspec.field(default_factory=list)
    after: wire.Execution | None = None
    feed: wire.Name | None = None
    where: Annotated[str, Meta(description="in SQL or in PADRES' notation; without it, all publications")] | None = None

    def message(self) -> wire.Subscribe:
        if (self.channel is None) == (self.feed is None):
            raise Malformed("name a channel or a feed, and not both")
        if self.feed is None:
            assert self.channel is not None
            if self.where is not None:
                raise Malformed("where is a condition on the publications of a feed: name the feed")
            return wire.Subscribe(1, self.channel, self.args, self.after)
        if self.args:
            raise Malformed("a feed takes no arguments: write a condition as where")
        return wire.Subscribe(1, channel_of(self.feed), [self.where or ALL], self.after)


class UnsubscribeRequest(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId


class Acknowledgement(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId
    execution: wire.Execution
    epoch: wire.Epoch = 0


class Publication(Struct, forbid_unknown_fields=True):
    feed: wire.Name
    records: Annotated[list[Raw], Meta(min_length=1, max_length=wire.MOST_RECORDS)]


class ResultsQuery(Struct, forbid_unknown_fields=True):
    subscription: wire.SubscriptionId
    after: wire.Execution | None = None
    epoch: wire.Epoch = 0
    limit: Annotated[int, Meta(ge=1, le=1_000)] = 100
    wait: Annotated[float, Meta(ge=0, le=LONGEST)] = 0.0


class VerifyToken(Struct, frozen=True):
    """Answered by (Claims, what is durable for the session), which is restored. Unauthorized is raised only if it is
    not valid."""

    token: str


class UntilWritten(Struct, frozen=True):
    """Waits until what was to be stored is durable. Unreachable is raised if that takes too long."""


class RestCalls:
    """``store`` keeps an acknowledgement."""

    def __init__(self, host: Host, store: Callable[[do.Acknowledge], None]) -> None:
        self.host, self.store = host, store

    def session(self, token: str) -> Effects[tuple[Claims, Durable]]:
        """Who asks. This broker serves the durable subscriptions from now on: another one that did so releases them."""
        return (yield VerifyToken(token))  # type: ignore[no-any-return]

    def subscribe(self, user: Claims, asked: SubscribeRequest) -> Effects[dict[str, Any]]:
        with RestRequest(self.host, user) as peer:
            peer.request(asked.message())
            done: wire.Subscribed = yield from peer.answer(1)
        found = {"subscription": done.subscription, "channel": done.channel, "after": done.after, "epoch": done.epoch}
        return found | ({"warnings": done.warnings} if done.warnings else {})

    def unsubscribe(self, user: Claims, durable: Durable, asked: UnsubscribeRequest) -> Effects[dict[str, Any]]:
        subscription = mine(durable, asked.subscription).subscription
        with RestRequest(self.host, user) as peer:
            peer.request(wire.Unsubscribe(1, subscription))
            yield from peer.answer(1)
        yield UntilWritten()
        return {"subscription": subscription}

    def results(self, user: Claims, durable: Durable, asked: ResultsQuery) -> Effects[dict[str, Any]]:
        poll = Poll(mine(durable, asked.subscription), asked)
        with RestRequest(self.host, user) as peer:
            peer.request(poll.request)
            end = self.host.now() + asked.wait
            while not poll.complete:
                # Until it is live, what it missed is on its way, however long the data cluster takes.
                found = yield from peer.next(end if poll.live else None)
                if found is None:
                    break
                poll.take(*found)
        return poll.answer()

    def acknowledge(self, user: Claims, durable: Durable, asked: Acknowledgement) -> Effects[dict[str, Any]]:
        id = mine(durable, asked.subscription).subscription
        self.store(do.Acknowledge(user.sid, {id: Position(asked.epoch, asked.execution)}))
        with suppress(SystemFailure):  # while the store is away, it waits here
            yield UntilWritten()
        return {"subscription": id, "execution": asked.execution}

    def publish(self, user: Claims, asked: Publication) -> Effects[dict[str, Any]]:
        """Answered when the records are durable."""
        with RestRequest(self.host, user) as peer:
            peer.request(wire.Publish(1, asked.feed, asked.records))
            done: wire.Published = yield from peer.answer(1)
        return {"accepted": done.accepted, "refused": done.refused}


class Poll:
    """One request for results: what it has of them."""

    def __init__(self, durable: wire.DurableSubscription, asked: ResultsQuery) -> None:
        self.subscription, self.limit, self.waits = durable.subscription, asked.limit, bool(asked.wait)
        self.after, self.epoch = durable.after, durable.epoch
        if asked.after is not None:
            self.after, self.epoch = asked.after, asked.epoch
        position = (self.after, durable.subscription, self.epoch or None)
        self.request = wire.Subscribe(1, durable.channel, durable.args, *position)
        self.live = False
        self._results: list[Raw] = []
        self._gaps: list[wire.Gap] = []
        self._migrate: wire.Migrate | None = None

    @property
    def complete(self) -> bool:
        enough = self._results or self._migrate or not self.waits
        return len(self._results) >= self.limit or (self.live and bool(enough))

    def take(self, head: Head, text: bytes) -> None:
        if head.type == "notify" and head.execution > self.after:
            self._results.append(Raw(text))
            self.after = head.execution
        elif head.type == "gap":
            self._gaps.append(decode(text))
            self.after = max(self.after, head.next - 1)
        elif head.type == "subscribed":
            if other_epoch(self.epoch, head.epoch):  # the channel was created again, and counts from the beginning
                self._gaps.append(wire.Gap(head.subscription, 0, head.after + 1, "dropped"))
                self.after = head.after
            self.epoch = head.epoch
        elif head.type == "error":
            decode(text)
        elif head.type == "ended":
            ended: wire.Ended = decode(text)
            raise remote_error(ended.code, ended.message)
        elif head.type == "migrate":
            self._migrate = decode(text)
        elif head.type == "live":
            self.live = True

    def answer(self) -> dict[str, Any]:
        position = {"after": self.after, "epoch": self.epoch}
        found = {"subscription": self.subscription, **position, "results": self._results, "gaps": self._gaps}
        return found if self._migrate is None else found | {"migrate": self._migrate}


def mine(durable: Durable, subscription: int) -> wire.DurableSubscription:
    """By its id, or by a previous id as long as results under that are not acknowledged."""
    found = next((each for each in durable if subscription in (each.subscription, *each.previous_ids)), None)
    if found is None:
        raise NotFound("subscription", str(subscription), hint="GET /listsubscriptions lists them")
    return found
