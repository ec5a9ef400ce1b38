"""Live feeds: publications that no dataset keeps. They enter the overlay here, and leave it to subscribers here.

To the broker's state machine a live feed is a channel like those of the data cluster: its commands for it are carried
out here. An execution is one publication, or a gap, and its number is a time: numbers of all brokers grow alike.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Protocol

import msgspec
from msgspec import Raw, Struct

from tocsin.broker.core import events as core
from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Event, Line, Notified, Problem
from tocsin.broker.core.model.matcher import where
from tocsin.content import Advertisement, Attributes, Condition, record_reader
from tocsin.errors import Malformed, TocsinError
from tocsin.overlay.content import events as ev
from tocsin.overlay.content import instructions as routed
from tocsin.overlay.content.roles import SERVES
from tocsin.overlay.content.router import Router
from tocsin.overlay.content.routing.space import space_name
from tocsin.wire.feed_name import ALL, channel_of, feed_of
from tocsin.wire.position import Position

log = logging.getLogger(__name__)

#: The clients of the router that stand for this broker: they stay where they are.
READER, WRITER = "subscriptions of this broker", "publishers of this broker"
#: Of all live feeds: a number is a time, so that it never begins again.
EPOCH = 1
#: Ids of their subscriptions: no data cluster counts that far.
FIRST_ID = 1 << 52
FAILED = Problem("internal", "something failed in the broker", "its log has the details")


class LiveFeed(Struct, frozen=True, eq=False):
    """``space`` names it with its attributes: a feed with other ones is another feed."""

    name: str
    advertisement: Advertisement
    space: str
    read: Callable[[bytes], dict[str, Any]]

    @property
    def attributes(self) -> Attributes:
        return self.advertisement.attributes


def live_feed(name: str, advertisement: Advertisement) -> LiveFeed:
    attributes = advertisement.attributes
    return LiveFeed(name, advertisement, space_name(name, attributes), record_reader(attributes))


def advertised(feeds: Mapping[str, str]) -> list[LiveFeed]:
    """Of the configuration: an advertisement in PADRES' notation by feed. Raises ParseError and others."""
    return [live_feed(name, Advertisement.of_padres(text)) for name, text in feeds.items()]


def live_feeds(described: Iterable[Mapping[str, Any]]) -> list[LiveFeed]:
    """Of the data cluster's description of all feeds: those that are live."""
    found = [each for each in described if each["type"] == "live"]
    columns = [msgspec.convert(each["columns"], tuple[core.FeedColumn, ...]) for each in found]
    return [
        live_feed(each["name"], Advertisement(Condition.of_sql(ALL, Attributes.of_columns(mine))))
        for each, mine in zip(found, columns, strict=True)
    ]


class Shell(Protocol):
    """What runs this: ``later`` handles an event of the broker after the one that is being handled."""

    def later(self, event: Event) -> None: ...
    def notify(self, notifications: list[Notified]) -> None: ...
    def route(self, event: ev.Event) -> None: ...
    def delivered(self, subscription: int) -> int:
        """The last execution that a BE subscription was delivered."""

    def clock(self) -> float: ...


class LiveFeeds:
    """``known``: by name in lower case."""

    def __init__(self, router: Router, shell: Shell) -> None:
        self._router, self._shell = router, shell
        self.known: dict[str, LiveFeed] = {}
        self._subscribed: dict[int, str] = {}  # BE subscription: its feed
        self._number = 0
        self._refused: TocsinError | None = None
        self.published = 0
        shell.route(ev.Attach(READER, "subscriber", control=True))
        shell.route(ev.Attach(WRITER, "publisher", control=True))

    # -- which there are

    def define(self, feeds: Iterable[LiveFeed]) -> None:
        """All live feeds there are now. Subscriptions to others, and to those with other attributes, end."""
        found = {feed.name.lower(): feed for feed in feeds}
        for key, feed in list(self.known.items()):
            if key not in found or found[key].space != feed.space:
                self._forget(key, feed)
        for key, feed in found.items():
            self.known.setdefault(key, feed)
        self.advertise()

    def _forget(self, key: str, feed: LiveFeed) -> None:
        del self.known[key]
        if feed.space in self._router.clients.find(WRITER).announced:
            self._shell.route(ev.Withdraw(WRITER, feed.space))
        for id in [id for id, name in self._subscribed.items() if name == key]:
            self._withdraw(id)
        self._shell.later(core.Dropped(channel_of(feed.name)))

    def advertise(self, *, publishing: bool = False) -> None:
        """Where publishers are served, or publish all the same: subscriptions come there before the first publication
        does."""
        announced = self._router.clients.find(WRITER).announced
        if publishing or self._router.role in SERVES["publisher"]:
            for feed in self.known.values():
                if feed.space not in announced:
                    self._shell.route(ev.AdvertiseFeed(WRITER, feed.space, feed.name, feed.advertisement))

    def find(self, channel: str) -> LiveFeed | None:
        feed = feed_of(channel)
        return None if feed is None else self.known.get(feed.lower())

    # -- commands of the state machine

    def carry_out(self, command: do.Upstream) -> bool:
        """False: it is for the data cluster."""
        if isinstance(command, do.Publish):
            feed = self.known.get(command.feed.lower())
            if feed is not None:
                self._publish(feed, command)
            return feed is not None
        feed = self.find(command.channel)
        if feed is None:
            return False
        match command:
            case do.Subscribe():
                warnings: dict[int, tuple[str, ...]] = {}
                outcomes = [self._subscribe(feed, args, warnings) for args in command.args]
                now = Position(EPOCH, self._next())
                self._shell.later(core.Subscribed(command.channel, outcomes, now, warnings=warnings))
            case do.Unsubscribe():
                for id in command.subscriptions:
                    self._withdraw(id)
                self._shell.later(core.Unsubscribed(command.channel))
            case do.Fetch():
                # Nothing is kept: what was missed is a gap up to what was delivered last.
                first = self._shell.delivered(command.subscription) + 1
                self._shell.later(core.FetchGap(command.job, Position(EPOCH, first)))
        return True

    def _subscribe(self, feed: LiveFeed, args: core.Args, warnings: dict[int, tuple[str, ...]]) -> int | Problem:
        try:
            condition = Condition.parse(where(args), feed.attributes)
            id = subscription_id(feed, condition)
            if condition.warnings:
                warnings[id] = condition.warnings
            self._enter_subscription(feed, id, condition)
        except TocsinError as error:
            return Problem(error.code, error.message, error.hint)
        except Exception:  # no other request may wait for an answer that never comes
            log.exception("a subscription to the live feed %s failed", feed.name)
            return FAILED
        return id

    def _enter_subscription(self, feed: LiveFeed, id: int, condition: Condition) -> None:
        if id in self._subscribed:
            return
        self._subscribed[id] = feed.name.lower()
        try:
            self._shell.route(ev.SubscribeFeed(READER, str(id), feed.name, condition))
        except Exception:
            del self._subscribed[id]
            raise

    def _withdraw(self, id: int) -> None:
        if self._subscribed.pop(id, None) is not None:
            self._shell.route(ev.Withdraw(READER, str(id)))

    def _publish(self, feed: LiveFeed, command: do.Publish) -> None:
        """Validated here and never again; its JSON is what subscribers get."""
        refused = []
        try:
            self.advertise(publishing=True)
            for place, record in enumerate(command.records):
                error = self._enter(feed, bytes(record))
                if error is not None:
                    refused.append((place, error.code, error.message))
        except Exception:
            log.exception("a publication to the live feed %s failed", feed.name)
            self._shell.later(core.PublishFailed(command.feed, FAILED))
        else:
            self._shell.later(core.Published(command.feed, refused))

    def _enter(self, feed: LiveFeed, data: bytes) -> TocsinError | None:
        try:
            values = feed.read(data)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            return Malformed(f"not a JSON object: {error}")
        self._refused = None
        self._shell.route(ev.Publish(WRITER, feed.space, values, data))
        return self._refused

    # -- instructions of the router

    def routed(self, it: routed.Instruction) -> None:
        """Those for the clients that stand for this broker."""
        match it:
            case routed.Deliver():
                results = Raw(b"[" + it.publication.data + b"]")
                self._deliver(it.subscriptions, 1, results, source=msgspec.json.encode(it.publication.id))
            case routed.Gap():
                self._deliver(it.subscriptions, 0, Raw(b"[]"), gap=it.reason)
            case routed.Refused():
                self._refused = it.error
            case routed.Published():
                self.published += 1

    def _deliver(self, ids: tuple[str, ...], rows: int, results: Raw, *, gap: str = "", source: bytes = b"") -> None:
        """One notification for each feed; all ids are of one feed, except those of a gap."""
        by_feed: dict[str, list[int]] = {}
        for id in map(int, ids):
            if id in self._subscribed:
                by_feed.setdefault(self._subscribed[id], []).append(id)
        number = self._next()
        found = [
            Notified(
                channel_of(self.known[key].name),
                number,
                [Line(id, number, rows, results, gap, source=source) for id in mine],
                EPOCH,
            )
            for key, mine in by_feed.items()
        ]
        if found:
            self._shell.notify(found)

    def _next(self) -> int:
        """Microseconds since 1970, and higher than all before."""
        self._number = max(self._number + 1, int(self._shell.clock() * 1e6))
        return self._number


def subscription_id(feed: LiveFeed, condition: Condition) -> int:
    """The same at every broker, as those of the data cluster are: the coordinator sees what subscribers share."""
    text = f"{feed.space}\0{condition.to_sql()}".encode()
    return FIRST_ID | int.from_bytes(blake2b(text, digest_size=6).digest(), "big")
