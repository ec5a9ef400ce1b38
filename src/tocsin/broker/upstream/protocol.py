"""The road to the data cluster, step by step: what is asked in which order, and what is done about each answer.

Whatever is lost there is asked again; only what the data cluster refuses is a problem.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from random import Random
from typing import Any

from msgspec import Raw, Struct

from tocsin.broker.core import instructions as do
from tocsin.broker.core.be_subscription import Channel
from tocsin.broker.core.events import (
    Dropped,
    Event,
    FetchEarly,
    Fetched,
    FetchGap,
    Inherited,
    Line,
    Problem,
    Published,
    PublishFailed,
    Pulled,
    Returned,
    Unwanted,
    Wanted,
)
from tocsin.broker.upstream.effects import Lost, Pause, Refused, Steps, insist
from tocsin.wire.backoff import backoff

MIN_BACKOFF, MAX_BACKOFF = 0.1, 5.0
#: Seconds between two looks at what exists there.
LOOK = 5.0
#: Subscriptions in one answer to what is inherited.
PAGE = 1_000


class Register(Struct, frozen=True):
    """Answered by whether the data cluster had given this broker up."""


class Look(Struct, frozen=True):
    """Answered by the channels there are."""


class Seen(Struct, frozen=True):
    name: str
    position: int
    epoch: int


class Inherit(Struct, frozen=True):
    """Answered by at most PAGE of this broker's (subscription, args) behind a number."""

    channel: str
    after: int


class Subscribe(Struct, frozen=True):
    """Answered by numbers, position and epoch."""

    channel: str
    args: list[Any]


class Unsubscribe(Struct, frozen=True):
    channel: str
    subscriptions: list[int]


class Begin(Struct, frozen=True):
    """Answered by the execution behind which a subscription begins; None while that is not known."""

    channel: str
    subscription: int


class Pull(Struct, frozen=True):
    """``take`` gets the lines as they come. One that breaks off begins again from its start."""

    channel: str
    execution: int
    take: Callable[[list[Line]], None]


class Fetch(Struct, frozen=True):
    """Answered by lines, and whether there are more."""

    channel: str
    subscription: int
    after: int


class Post(Struct, frozen=True):
    """Answered by (place, code, reason) of the records that were refused. It counts once for its ``key``."""

    feed: str
    records: list[Raw]
    key: str


class UntilRegistered(Struct, frozen=True):
    """Waits until it is known what is inherited."""


class UpstreamProtocol:
    """``channels`` are the state machine's. ``settle`` hears whether it is known that nothing was lost before what is
    told now, and ``ready`` that everything inherited is known."""

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

    def carry_out(self, it: do.Want | do.Unwant | do.Pull | do.Fetch | do.Commit) -> Steps[None]:
        match it:
            case do.Want():
                return self._want(it)
            case do.Unwant():
                return self._unwant(it)
            case do.Pull():
                return self._pull(it)
            case do.Fetch():
                return self._fetch(it)
            case do.Commit():
                return self._commit(it)

    def _insist(self, request: Any) -> Steps[Any]:
        return insist(request, MIN_BACKOFF, MAX_BACKOFF, self.rng)

    # -- what exists there

    def look(self) -> Steps[None]:
        first = True
        while True:
            # What is told from here on waits until it is known whether something before it was lost.
            self.settle(False)
            returned = yield from self._register()
            if not first and not returned:
                self.settle(True)
            # Before looking: what is subscribed to meanwhile may be newer than what is seen.
            mine = {name: channel.epoch for name, channel in self.channels().items() if channel.backs}
            found: list[Seen] = yield from self._insist(Look())
            if first:
                for each in found:
                    yield from self._inherit(each)
                self.ready()
            known = {each.name.lower(): each.epoch for each in found}
            for name, epoch in mine.items():
                if name not in known or (epoch and known[name] != epoch):
                    self.handle(Dropped(name, epoch))
            if returned:  # the first time too: something may have been subscribed to before it was registered
                self.handle(Returned({each.name: each.position for each in found}))
            self.settle(True)
            first = False
            yield Pause(LOOK)

    def _register(self) -> Steps[bool]:
        """Whether the data cluster had given this broker up, or may have: it says so once, and answers get lost."""
        tries = 0
        while True:
            tries += 1
            try:
                returned: bool = yield Register()
            except Lost:
                yield Pause(backoff(tries, MIN_BACKOFF, MAX_BACKOFF, self.rng))
                continue
            return returned or tries > 1

    def _inherit(self, channel: Seen) -> Steps[None]:
        after = 0
        while True:
            try:
                found = yield from self._insist(Inherit(channel.name, after))
            except Refused:
                return
            self.handle(Inherited(channel.name, found, channel.position, channel.epoch))
            if len(found) < PAGE:
                return
            after = found[-1][0]

    # -- subscriptions

    def _want(self, it: do.Want) -> Steps[None]:
        found = yield from self._subscribe(it.channel, it.args)
        self.handle(Wanted(it.channel, *found))

    def _subscribe(self, channel: str, args: list[Any]) -> Steps[tuple[list[int | Problem], int, int]]:
        """Numbers or problems, the position, and the epoch."""
        try:
            found: tuple[list[int | Problem], int, int] = yield from self._insist(Subscribe(channel, args))
            return found
        except Refused as error:
            if error.no("broker"):
                yield from self._insist(Register())
                return (yield from self._subscribe(channel, args))
            if error.no("channel") or len(args) == 1:
                return [error.problem] * len(args), 0, 0
        # One of them is wrong, and nobody else is to suffer for it.
        half = len(args) // 2
        left, first, epoch = yield from self._subscribe(channel, args[:half])
        right, second, later = yield from self._subscribe(channel, args[half:])
        # Made anew in between: the older one's are told to be gone when the newer one is heard of.
        return left + right, max(first, second), min(epoch or later, later or epoch)

    def _unwant(self, it: do.Unwant) -> Steps[None]:
        yield UntilRegistered()  # nothing is let go that may be on the list of what is inherited
        yield from self._unsubscribe(it.channel, it.subscriptions)
        self.handle(Unwanted(it.channel))

    def _unsubscribe(self, channel: str, numbers: list[int]) -> Steps[None]:
        try:
            yield from self._insist(Unsubscribe(channel, numbers))
        except Refused as error:
            if error.no("subscription") and len(numbers) > 1:
                half = len(numbers) // 2
                yield from self._unsubscribe(channel, numbers[:half])
                yield from self._unsubscribe(channel, numbers[half:])

    # -- results

    def _pull(self, it: do.Pull) -> Steps[None]:
        channel, execution, epoch = it.channel, it.execution, it.epoch

        def take(lines: list[Line]) -> None:
            self.handle(Pulled(channel, execution, lines, last=False, epoch=epoch))

        try:
            yield from self._insist(Pull(channel, execution, take))
        except Refused as error:
            # Expired or dropped: who missed it will be told so when it asks.
            if error.no("channel"):
                self.handle(Dropped(channel, epoch))
            else:
                self.handle(Returned({channel: execution}, epoch))
        self.handle(Pulled(channel, execution, [], epoch=epoch))

    def _fetch(self, it: do.Fetch) -> Steps[None]:
        begin = 0
        if it.begin:
            with suppress(Refused):  # nobody has it any more, or nobody ever again
                begin = yield from self._insist(Begin(it.channel, it.subscription))
            if begin is None:
                self.handle(FetchEarly(it.job))
                return
        try:
            lines, more = yield from self._insist(Fetch(it.channel, it.subscription, it.after))
        except Refused as error:
            if error.no("execution") and "first" in error.error:
                self.handle(FetchGap(it.job, int(error.error["first"])))
            else:
                self.handle(Fetched(it.job, []))
                if error.no("channel"):
                    self.handle(Dropped(it.channel))
            return
        self.handle(Fetched(it.job, lines, more, begin))

    # -- publishing

    def _commit(self, it: do.Commit) -> Steps[None]:
        try:
            refused = yield from self._insist(Post(it.feed, it.records, f"{self.rng.getrandbits(128):032x}"))
        except Refused as error:
            self.handle(PublishFailed(it.feed, error.problem))
        else:
            self.handle(Published(it.feed, refused))
