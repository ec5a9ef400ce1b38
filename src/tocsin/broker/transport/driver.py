"""Drives the broker's state machine: events in, instructions carried out. All messages of a tick go out together."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from random import Random
from typing import TYPE_CHECKING, Any, get_args

from tocsin.broker.core import instructions as do
from tocsin.broker.core.balancing.peer_balancer import Means
from tocsin.broker.core.events import Authenticated, Event, Notified, Peer, Stopping, Tick
from tocsin.broker.core.state import BrokerState
from tocsin.broker.transport.frame_writer import FrameWriter
from tocsin.config import BrokerConfig
from tocsin.wire.tickets import TicketVerifier

if TYPE_CHECKING:
    from tocsin.broker.upstream.user_exchange import Found, UserExchange

log = logging.getLogger(__name__)

#: Seconds for which a failed check of a token makes the broker not ready.
PROBLEM_SECONDS = 10.0


class Driver:
    """One state machine on one loop.

    Its peers have ``send(messages, frames)`` and ``close``, and ``fd``, which is -1 where messages have to be sent.
    """

    def __init__(
        self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, tickets: TicketVerifier | None = None
    ) -> None:
        self.config = config
        self.loop = loop
        verifier = tickets or TicketVerifier(config.name, time.time, secrets.token_bytes(32))
        means = Means(
            lambda subscriber, seconds: verifier.issue(subscriber, seconds, secrets.token_urlsafe(12)),
            Random(),
            secrets.token_urlsafe(9),
        )
        self.state = BrokerState(config, verifier.refuses, means)
        self.writer = FrameWriter()
        self._sends: list[do.Send] = []
        self._store_problem = ("", 0.0)
        self._ticking: asyncio.TimerHandle | None = None
        self._carry_out: dict[type[Any], Callable[[Any], object]] = {
            do.Send: self._send,
            do.Close: self._close,
            do.Failed: lambda it: log.error("a notification could not be delivered", exc_info=it.error),
        }

    def start(
        self,
        carry_out: Callable[[do.Upstream], None],
        users: UserExchange,
        to_peers: Callable[[do.ToPeers], None] | None = None,
    ) -> None:
        """``carry_out`` is for commands to the data cluster, ``to_peers`` for other brokers; answers come back as
        events."""

        def authenticate(it: do.Authenticate) -> None:
            users.authenticate(it.token, lambda found: self.handle(self._authenticated(it.peer, found)))

        stored: dict[type[Any], Callable[[Any], object]] = {
            do.Authenticate: authenticate,
            do.Acknowledge: users.acknowledge,
            **dict.fromkeys((do.Remember, do.ChangeId, do.Forget), users.store),
        }
        self._carry_out |= stored | dict.fromkeys(get_args(do.Upstream), carry_out)
        if to_peers is not None:
            self._carry_out |= dict.fromkeys(get_args(do.ToPeers), to_peers)
        self.state.be_subscriptions.restoring_users = True
        self._tick()

    def _authenticated(self, peer: Peer, found: Found) -> Authenticated:
        self._store_problem = (str(found.problem) if found.failed else "", self.loop.time())
        return found.event(peer, self.at)

    def at(self, wall_clock: float) -> float:
        """The time of the loop at which a token that expires then is refused."""
        return self.loop.time() + wall_clock + self.config.identity.clock_skew - time.time()

    def now(self) -> float:
        return self.loop.time()

    @property
    def store_problem(self) -> str:
        """Why tokens could not be checked a short time ago."""
        problem, at = self._store_problem
        return problem if self.loop.time() < at + PROBLEM_SECONDS else ""

    def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self.handle(Stopping())
        self.flush()

    def handle(self, event: Event) -> None:
        carry_out = self._carry_out
        for instruction in self.state.handle(event, self.loop.time()):
            carry_out[type(instruction)](instruction)

    def on_notify(self, notifications: Sequence[Notified]) -> None:
        """What they cause goes out together, and at once."""
        found = self.state.on_notify(notifications, self.loop.time())
        if len(found) == 1 and type(found[0]) is do.Send and not self._sends:
            self.writer.write(found[0].peers, found[0].messages)
            return
        for instruction in found:
            if type(instruction) is do.Send:
                self._sends.append(instruction)
            else:
                self._carry_out[type(instruction)](instruction)
        self.flush()

    def _tick(self) -> None:
        self.handle(Tick())
        self._ticking = self.loop.call_later(1.0, self._tick)

    def _close(self, it: do.Close) -> None:
        self.flush()  # what was sent before comes before the end
        peer: Any = it.peer
        peer.close(it.close, it.reason)

    def _send(self, it: do.Send) -> None:
        if not self._sends:
            self.loop.call_soon(self.flush)
        self._sends.append(it)

    def flush(self) -> None:
        """One write a connection."""
        sends, self._sends = self._sends, []
        if len(sends) == 1:
            self.writer.write(sends[0].peers, sends[0].messages)
        elif sends:
            self.writer.write_together(sends)
