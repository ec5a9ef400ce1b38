"""A link as one side has it: an ordered stream without losses or duplicates, over messages that have both.

A pair of sessions, one of each side, names the stream. Numbers begin at 1 in every pair; what is not acknowledged is
sent again, and in a new pair all publications that were not acknowledged in the last one.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from tocsin.overlay.content.context import Context
from tocsin.overlay.content.instructions import Discarded
from tocsin.overlay.content.link.outbox import Outbox
from tocsin.overlay.content.messages import Body, Frame, Missed, Publication, Session


class InFlight(Struct):
    body: Body
    sent: float


class Link:
    """``wanted``: this side connects. ``joined``: it is one of the overlay's links. ``confirmed``: the neighbour knows
    our session. ``problem``: why it was refused last. ``established``: messages flow."""

    def __init__(self, name: str, context: Context, *, wanted: bool) -> None:
        self.name, self._context = name, context
        self.wanted = wanted
        self.session = context.session()
        self.peer: Session | None = None
        self.epoch = 0  # of the neighbour, known since the first hello
        self.confirmed = self.joined = False
        self.stamp = 0
        self.problem = ""
        self.retry_at = 0.0
        self.last_received = context.now
        self.outbox = Outbox(context.settings.most_waiting)
        self._number = 0
        self._window: dict[int, InFlight] = {}
        self._expected = 1
        self._early: dict[int, Body] = {}
        self._last_sent = 0.0
        self._owes_ack = False
        self._discarding = False

    @property
    def established(self) -> bool:
        return self.joined and self.confirmed and self.peer is not None

    @property
    def silent(self) -> bool:
        return self._context.now - self.last_received > self._context.settings.silent_after

    @property
    def waiting(self) -> int:
        """Messages that the neighbour has not acknowledged."""
        return len(self.outbox) + len(self._window)

    # -- sessions

    def meet(self, peer: Session) -> None:
        """The neighbour has a new session: all that was on its way begins again."""
        self.peer = peer
        self.confirmed = False
        self._restart()

    def renew(self) -> None:
        """The neighbour does not have this link: a new session."""
        self.session = self._context.session()
        self.peer = None
        self.confirmed = False
        self._restart()

    def _restart(self) -> None:
        self.outbox.restart(each.body for each in self._window.values())
        self._window.clear()
        self._early.clear()
        self._number, self._expected = 0, 1
        self._owes_ack = False

    # -- sending

    def offer(self, body: Body) -> None:
        """Control messages for a link that is down are left out: what differs is sent once it is up."""
        if not self.established and not isinstance(body, Publication):
            return
        if not self.outbox.put(body) and isinstance(body, Publication):
            self._context.out.append(Discarded(self.name, body.id))
            self._discarding = True
        self.pump()

    def pump(self) -> None:
        while self.established and len(self._window) < self._context.settings.window:
            body = self.outbox.take()
            if body is None:
                return
            if self._discarding and len(self.outbox) < self._context.settings.most_waiting // 2:
                self._discarding = False
                self.outbox.put(Missed("overflow"))
            self._number += 1
            self._window[self._number] = InFlight(body, self._context.now)
            self._send(self._number, body)

    def _send(self, number: int = 0, body: Body | None = None) -> None:
        if self.peer is not None:
            self._owes_ack = False
            self._last_sent = self._context.now
            frame = Frame(self.session, self.peer, self._expected - 1, number, body)
            self._context.send(self.name, frame)

    def flush(self) -> None:
        """At the end of an event: what was received is acknowledged, unless another frame did it."""
        if self._owes_ack:
            self._send()

    def tick(self) -> None:
        settings, now = self._context.settings, self._context.now
        if not self.established:
            return
        due = [number for number, each in self._window.items() if now - each.sent >= settings.resend_after]
        # One message is enough to find out whether a silent neighbour is back.
        for number in due[:1] if self.silent else due:
            self._window[number].sent = now
            self._send(number, self._window[number].body)
        if now - self._last_sent >= settings.heartbeat_every:
            self._send()

    # -- receiving

    def fits(self, frame: Frame) -> bool:
        """Whether a frame belongs to this pair of sessions."""
        return frame.session == self.peer and frame.peer == self.session

    def receive(self, frame: Frame) -> Iterator[Body]:
        """The messages that are next in order."""
        self.last_received = self._context.now
        for number in [each for each in self._window if each <= frame.acknowledged]:
            del self._window[number]
        if frame.body is not None:
            self._owes_ack = True
            if self._expected <= frame.number < self._expected + self._context.settings.window:
                self._early[frame.number] = frame.body
        pair = (self.session, self.peer)
        while self._expected in self._early and pair == (self.session, self.peer):
            body = self._early.pop(self._expected)
            self._expected += 1
            yield body
        self.pump()
