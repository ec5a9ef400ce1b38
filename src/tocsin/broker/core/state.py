"""The broker as a pure state machine: ``handle(event, now) -> [instruction]``. No sockets, no clock, no chance.

FE subscriptions (a subscriber's) with the same channel and arguments share one BE subscription (the data cluster's).
What the data cluster has committed is the truth: live delivery is a short cut, and whoever missed something, for
whatever reason, gets it from there by its number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tocsin.broker.core import events as ev
from tocsin.broker.core.events import Peer
from tocsin.broker.core.instructions import Commit, Instruction, Send
from tocsin.broker.core.load import BESubscriptionLoad, Report
from tocsin.broker.core.load_reports import Moves
from tocsin.broker.core.session import LIVE, Session
from tocsin.config import BrokerConfig
from tocsin.wire import close_codes
from tocsin.wire import messages as wire
from tocsin.wire.frames import frame
from tocsin.wire.messages import Message

#: Seconds between two ticks after which the broker must have slept; they come every second.
LATE = 2.5


class BrokerState(Moves):
    """``refuses_ticket`` says what is wrong with a subscriber's ticket; without a coordinator, each of them is."""

    def __init__(
        self,
        config: BrokerConfig,
        refuses_ticket: Callable[[str, str], str | None] = lambda ticket, subscriber: "there is no coordinator",
    ) -> None:
        super().__init__(config, refuses_ticket)
        self._handlers: dict[type[Any], Callable[[Any], None]] = {
            ev.Opened: self._opened,
            ev.Assumed: self._assumed,
            ev.Closed: self._closed,
            ev.Received: self._received,
            ev.Unreadable: self._unreadable,
            ev.Congested: self._congested,
            ev.Drained: self._drained,
            ev.Authenticated: self._authenticated,
            ev.Restored: self._restored,
            ev.UserEnded: self._user_ended,
            ev.Elsewhere: self._elsewhere,
            ev.Told: self._told,
            ev.Pulled: self._pulled,
            ev.Wanted: self._wanted,
            ev.Unwanted: self._unwanted,
            ev.Inherited: self._inherited,
            ev.Fetched: self._fetched,
            ev.FetchGap: self._fetch_gap,
            ev.FetchEarly: self._fetch_early,
            ev.Dropped: self._dropped,
            ev.Returned: self._returned,
            ev.Published: self._published,
            ev.PublishFailed: self._publish_failed,
            ev.Ordered: self._ordered,
            ev.Tick: self._tick,
            ev.Stopping: self._stopping,
        }
        self._requests: dict[type[Any], Callable[[Session, Any], None]] = {
            wire.Hello: self._hello,
            wire.Subscribe: self._subscribe,
            wire.Unsubscribe: self._unsubscribe,
            wire.Publish: self._publish,
            wire.Ack: self._ack,
            wire.MigrationFailed: self._stay,
            wire.Ping: self._ping,
            wire.Pong: lambda front, message: None,
        }

    def handle(self, event: ev.Event, now: float) -> list[Instruction]:
        """What has to be done about it. The same events at the same times give the same instructions."""
        self._enter()
        self._now = max(self._now, now)  # a clock that jumps back does not bring anything back
        self._handlers[type(event)](event)
        if self.catchup.queue:
            self._out += self.catchup.start()
        self._enter()
        out, self._out = self._out, []
        return out

    def hear(self, tells: Sequence[ev.Told], now: float) -> list[Instruction]:
        """As ``handle`` does, of several at once. Nothing is as frequent, so what it can put off is put off."""
        if now > self._now:
            self._now = now
        for tell in tells:
            self._told(tell)
        if self.catchup.queue:
            self._out += self.catchup.start()
        out, self._out = self._out, []
        return out

    def _publish(self, front: Session, message: wire.Publish) -> None:
        found = self.publishing.take(front.peer, message)
        if isinstance(found, Commit):
            self._out.append(found)
        elif found is not None:
            self.counters.refusals += 1
            self._send(front, found)

    def _published(self, event: ev.Published) -> None:
        answers, taken = self.publishing.published(event.feed, event.refused)
        self.counters.published += taken
        self._answer(event.feed, answers)

    def _publish_failed(self, event: ev.PublishFailed) -> None:
        self._answer(event.feed, self.publishing.failed(event.feed, event.problem))

    def _answer(self, feed: str, answers: list[tuple[Peer, Message]]) -> None:
        for peer, message in answers:
            front = self.fronts.get(peer)
            if front is not None:
                self._send(front, message)
        following = self.publishing.following(feed)
        if following is not None:
            self._out.append(following)

    def _tick(self, event: ev.Tick) -> None:
        if self._ticked is not None and self._now - self._ticked > LATE:
            # Whoever slept cannot say that the others were silent: what they said waits to be read.
            self._awake = self._now
        self._ticked = self._now
        for peer, deadline in list(self._greeting.items()):
            if deadline > self._now or self._awake == self._now:
                break
            self._close(peer, close_codes.HELLO_TIMEOUT, "no hello")
        self._release()
        self.catchup.retry()
        if self.config.heartbeat > 0:
            self._beat_hearts()

    def _beat_hearts(self) -> None:
        """A part of the connections at each tick, so that the whole never speaks at once."""
        self._beat = (self._beat + 1) % len(self._beats)
        fronts = self._beats[self._beat]
        beat = self.config.heartbeat
        silent = self._now - 3 * beat
        for front in [front for front in fronts.values() if max(front.heard, self._awake - 2 * beat) < silent]:
            self._close(front.peer, close_codes.SILENT, "nothing was heard for too long")
        greeted = [front for front in fronts.values() if front.greeted]
        positions = {channel.name: channel.position for channel in self.channels.values() if channel.position}
        for message, peers in (
            (wire.Ping(positions), tuple(front.peer for front in greeted if not front.behind)),
            (wire.Ping(), tuple(front.peer for front in greeted if front.behind)),
        ):
            if peers:
                data = frame(wire.encode(message))
                self.counters.bytes_out += len(data) * len(peers)
                self._out.append(Send(peers, data))

    def _stopping(self, event: ev.Stopping) -> None:
        for peer in list(self.fronts):
            self._close(peer, close_codes.GOING_AWAY, "the broker stops")

    def furthest_behind(self) -> int:
        """How many executions the slowest subscriber has still to get; counts those of other subscriptions too."""
        lags = [
            self.backs[number].through - after
            for front in self.fronts.values()
            if front.behind
            for number, after in front.subscriptions.items()
            if after != LIVE
        ]
        return max(lags, default=0)

    def report(self, now: float) -> Report:
        """Queue depth is the executions told and not delivered; lag is in subscribers."""
        counters = self.counters
        return Report(
            self.config.name,
            len(self.fronts),
            sum(front.congested for front in self.fronts.values()),
            sum(len(back.waiting) for back in self.backs.values()),
            sum(len(channel.told) for channel in self.channels.values()),
            len(self.catchup.jobs) + len(self.catchup.queue),
            counters.bytes_in,
            counters.bytes_out,
            counters.deliveries,
            counters.notifications,
            [
                BESubscriptionLoad(
                    back.id,
                    back.channel.name,
                    len(back.live) + len(back.waiting),
                    back.lam.per_second(now),
                    back.lam.bytes_per_second(now),
                )
                for back in self.backs.values()
            ],
        )
