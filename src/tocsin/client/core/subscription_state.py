"""What a client keeps of one subscription of the application."""

from __future__ import annotations

import msgspec

from tocsin.client.core.events import Args, WantSubscribe
from tocsin.client.notification import Missed, Notification
from tocsin.wire.messages import Gap, Notify

_encoder = msgspec.json.Encoder(order="deterministic")


class SubscriptionState:
    """``cursor`` is the last execution it has; None until a broker has said where it begins.

    ``number`` is that of the BE subscription on the current connection, None while it waits for an answer. ``known`` is
    the number that the cursor belongs to, and ``home`` the broker that gave it: a resume names it, and it changes only
    once all of the old one is here. ``missed``: up to there a broker that it did not move to had nothing any more.
    """

    def __init__(self, want: WantSubscribe) -> None:
        self.handle = want.handle
        self.channel = want.channel
        self.args: Args = want.args
        self.key = (want.channel.lower(), _encoder.encode(want.args))
        self.max_pending = want.max_pending
        self.cursor = want.after
        self.known = want.number
        self.home: str | None = None
        self.epoch = want.epoch
        self.number: int | None = None
        self.confirmed = False
        self.leaving = False
        self.pending = 0
        self.gaps = 0
        self.missed = 0
        self._consumed = want.after

    @property
    def dealt(self) -> int | None:
        """Everything up to here has been dealt with by the application."""
        return self.cursor if self.pending == 0 else self._consumed

    def begin(self, after: int, epoch: int = 0) -> None:
        self.cursor = self._consumed = after
        self.missed = 0
        self.epoch = epoch

    def begin_anew(self, number: int, after: int, epoch: int) -> Missed:
        """The channel was dropped, and another one has its name: it counts from the beginning."""
        missed = Missed(self.channel, number, self.cursor or 0, after + 1, "dropped")
        self.begin(after, epoch)
        self.known = number
        self.gaps += 1
        return missed

    def take(self, message: Notify) -> Notification | None:
        """None: it has this already."""
        if self.cursor is not None and message.execution <= self.cursor:
            return None
        self._consumed = self.dealt
        self.cursor = message.execution
        self.pending += 1
        return Notification(message.channel, message.subscription, message.execution, message.results)

    def skip(self, gap: Gap) -> Missed | None:
        """None: what is missing there, it had before."""
        if self.cursor is not None and gap.next - 1 <= self.cursor:
            return None
        after = gap.after if self.cursor is None else max(gap.after, self.cursor)
        self.reach(gap.next - 1)
        self.gaps += 1
        return Missed(self.channel, gap.subscription, after, gap.next, gap.reason)

    def reach(self, execution: int) -> bool:
        """It has everything up to there. True if that is news."""
        if self.cursor is not None and execution <= self.cursor:
            return False
        self._consumed = self.dealt
        self.cursor = execution
        return True

    def consume(self, execution: int) -> None:
        if self.pending:
            self.pending -= 1
            self._consumed = execution
