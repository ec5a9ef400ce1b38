"""The upstream protocol: the requests to the data cluster, in which order, and the events that their answers become.

The state machine's commands are the requests. Each is retried until it is answered; only a refusal is a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
from msgspec import Struct

from tocsin.broker.core import events as ev
from tocsin.broker.core.events import Event, FeedColumn, Line, Problem
from tocsin.broker.core.instructions import Command, Fetch, Publish, Pull, Subscribe, Unsubscribe, Upstream
from tocsin.broker.core.model.be_subscription import Channel
from tocsin.broker.upstream.effects import RETRY, Lost, Refused, retry
from tocsin.effects import Effects, Pause
from tocsin.wire.backoff import Backoff
from tocsin.wire.position import START, Position

#: Seconds between two polls of the data cluster's channels.
POLL = 5.0
#: Subscriptions in one answer to ListSubscriptions.
PAGE = 1_000


class Register(Command, frozen=True):
    """Answered by whether the data cluster had declared this broker gone."""


class ListChannels(Command, frozen=True):
    """Answered by a list of ChannelState."""


class ChannelState(Struct, frozen=True):
    name: str
    position: Position
    columns: tuple[FeedColumn, ...] = ()  # of a feed


class SubscribeAnswer(Struct, frozen=True):
    """Answers Subscribe: an id or a problem for each."""

    outcomes: list[int | Problem]
    position: Position = START
    columns: tuple[FeedColumn, ...] = ()


class ListSubscriptions(Command, frozen=True):
    """Answered by at most PAGE of this broker's (subscription, args) with a higher id."""

    channel: str
    after_id: int


class FindBegin(Command, frozen=True):
    """Answered by the execution after which a subscription begins; None while that is not known."""

    channel: str
    subscription: int


class FetchGrants(Command, frozen=True):
    """Answered by the GrantTable: when its version is another one, or after a while."""

    version: str


class UntilRegistered(Struct, frozen=True):
    """Waits until the BE subscriptions of before the start are recovered."""


class UpstreamProtocol:
    """``settle`` is called with whether it is known that no notification was missed, and ``ready`` when the BE
    subscriptions of before are recovered. The client that performs a Pull gives its lines to ``pulled``."""

    def __init__(
        self,
        handle: Callable[[Event], Any],
        channels: Callable[[], Mapping[str, Channel]],
        rng: Random,
        *,
        settle: Callable[[bool], None],
        ready: Callable[[], None],
    ) -> None:
        self.handle, self.channels, self.rng = handle, channels, rng
        self.settle, self.ready = settle, ready
        self._procedures: dict[type[Any], Callable[[Any], Effects[None]]] = {
            Subscribe: self._subscribe,
            Unsubscribe: self._unsubscribe,
            Pull: self._pull,
            Fetch: self._fetch,
            Publish: self._publish,
        }

    def carry_out(self, command: Upstream) -> Effects[None]:
        return self._procedures[type(command)](command)

    def _retry(self, command: Command) -> Effects[Any]:
        return retry(command, self.rng)

    # -- the channels of the data cluster

    def poll(self) -> Effects[None]:
        first = True
        while True:
            # Notifications from here on wait until it is known whether an earlier one was missed.
            self.settle(False)
            returned = yield from self._register()
            if not first and not returned:
                self.settle(True)
            # Before the request: what is subscribed to meanwhile may be newer than its answer.
            mine = {name: channel.epoch for name, channel in self.channels().items() if channel.be_subscriptions}
            found: list[ChannelState] = yield from self._retry(ListChannels())
            if first:
                for each in found:
                    yield from self._recover(each)
                self.ready()
            known = {each.name.lower(): each.position.epoch for each in found}
            for name, epoch in mine.items():
                if name not in known or (epoch and known[name] != epoch):
                    self.handle(ev.Dropped(name, epoch))
            if returned:  # the first time too: something may have been subscribed to before it was registered
                # Of any epoch: a channel whose Subscribe is in flight does not know its epoch yet.
                positions = {each.name: Position(START.epoch, each.position.execution) for each in found}
                self.handle(ev.Missed(positions))
            self.settle(True)
            first = False
            yield Pause(POLL)

    def follow_grants(self) -> Effects[None]:
        yield UntilRegistered()  # before, the data cluster does not know this broker's key
        version = ""
        while True:
            try:
                table = yield from self._retry(FetchGrants(version))
            except Refused:
                yield Pause(POLL)
                continue
            if table.version != version:
                version = table.version
                self.handle(ev.GrantsChanged(table))

    def _register(self) -> Effects[bool]:
        """Whether the data cluster had declared this broker gone, or may have: it says so once, and answers get
        lost."""
        waits, refused = Backoff(self.rng, *RETRY), False
        while True:
            try:
                returned: bool = yield Register()
            except Refused:  # another broker has the name, and gets its notifications until it stops
                refused = True
                yield Pause(POLL)
            except Lost:
                yield Pause(waits.next())
            else:
                return returned or refused or waits.failures > 0

    def _recover(self, channel: ChannelState) -> Effects[None]:
        after_id = 0
        while True:
            try:
                found = yield from self._retry(ListSubscriptions(channel.name, after_id))
            except Refused:
                return
            self.handle(ev.Recovered(channel.name, found, channel.position, channel.columns))
            if len(found) < PAGE:
                return
            after_id = found[-1][0]

    # -- subscriptions

    def _subscribe(self, command: Subscribe) -> Effects[None]:
        found = yield from self._outcomes(command)
        self.handle(ev.Subscribed(command.channel, found.outcomes, found.position, found.columns))

    def _outcomes(self, command: Subscribe) -> Effects[SubscribeAnswer]:
        channel, args = command.channel, command.args
        try:
            found: SubscribeAnswer = yield from self._retry(command)
            return found
        except Refused as error:
            if error.no("broker"):
                yield from self._register()
                return (yield from self._outcomes(command))
            if error.no("channel") or error.no("feed") or len(args) == 1:
                return SubscribeAnswer([error.problem] * len(args))
        # One of them is wrong: the others must not suffer for it.
        half = len(args) // 2
        left = yield from self._outcomes(Subscribe(channel, args[:half]))
        right = yield from self._outcomes(Subscribe(channel, args[half:]))
        first, second = left.position, right.position
        # Created again in between: those of the older epoch end when a notification shows the newer one.
        epoch = min(first.epoch or second.epoch, second.epoch or first.epoch)
        position = Position(epoch, max(first.execution, second.execution))
        return SubscribeAnswer(left.outcomes + right.outcomes, position, left.columns or right.columns)

    def _unsubscribe(self, command: Unsubscribe) -> Effects[None]:
        yield UntilRegistered()  # nothing ends that may be among what is recovered
        yield from self._end(command)
        self.handle(ev.Unsubscribed(command.channel))

    def _end(self, command: Unsubscribe) -> Effects[None]:
        channel, ids = command.channel, command.subscriptions
        try:
            yield from self._retry(command)
        except Refused as error:
            if error.no("subscription") and len(ids) > 1:
                half = len(ids) // 2
                yield from self._end(Unsubscribe(channel, ids[:half]))
                yield from self._end(Unsubscribe(channel, ids[half:]))

    # -- results

    def _pull(self, command: Pull) -> Effects[None]:
        channel, position = command.channel, command.position
        try:
            yield from self._retry(command)
        except Refused as error:
            # Expired or dropped: subscribers that missed it learn so when they fetch.
            if error.no("channel"):
                self.handle(ev.Dropped(channel, position.epoch))
            else:
                self.handle(ev.Missed({channel: position}))
        self.handle(ev.Pulled(channel, position, []))

    def pulled(self, command: Pull, lines: list[Line]) -> None:
        """The lines as they come. A pull that breaks off begins again from its start."""
        self.handle(ev.Pulled(command.channel, command.position, lines, last=False))

    def _fetch(self, command: Fetch) -> Effects[None]:
        epoch, begins_after = command.position.epoch, 0
        if command.find_begin:
            with suppress(Refused):  # it does not exist any more
                begins_after = yield from self._retry(FindBegin(command.channel, command.subscription))
            if begins_after is None:
                self.handle(ev.FetchEarly(command.job))
                return
        try:
            lines, more = yield from self._retry(command)
        except Refused as error:
            if error.no("execution") and "first" in error.error:
                self.handle(ev.FetchGap(command.job, Position(epoch, int(error.error["first"]))))
            else:
                self.handle(ev.Fetched(command.job, []))
                if error.no("channel"):
                    self.handle(ev.Dropped(command.channel))
            return
        self.handle(ev.Fetched(command.job, lines, more, Position(epoch, begins_after)))

    # -- publications

    def _publish(self, command: Publish) -> Effects[None]:
        keyed = msgspec.structs.replace(command, key=f"{self.rng.getrandbits(128):032x}")
        try:
            refused = yield from self._retry(keyed)
        except Refused as error:
            self.handle(ev.PublishFailed(command.feed, error.problem))
        else:
            self.handle(ev.Published(command.feed, refused))
