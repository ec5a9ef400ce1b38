"""Drives the broker's state machine: events in, instructions carried out. All frames of a tick go out together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tocsin.broker.core import instructions as do
from tocsin.broker.core.events import Authenticated, Event, Restored, Stopping, Tick, Told
from tocsin.broker.core.state import BrokerState
from tocsin.broker.transport.frame_writer import FrameWriter
from tocsin.config import BrokerConfig
from tocsin.wire.close_codes import Close
from tocsin.wire.messages import DurableSubscription
from tocsin.wire.tickets import TicketVerifier


class Connection(Protocol):
    """What a peer of the state machine is here; ``fd`` is -1 where frames have to go through ``write``."""

    fd: int

    def write(self, data: bytes) -> None: ...
    def close(self, close: Close, reason: str = "") -> None: ...


class Cluster(Protocol):
    """The road to the data cluster; answers come back as events."""

    def carry_out(self, instruction: do.Want | do.Unwant | do.Pull | do.Fetch | do.Commit) -> None: ...


class Store(Protocol):
    """What is kept for users. Calls come back at once; ``look_up`` later."""

    def look_up(self, token: str, found: Callable[[str | None, list[DurableSubscription]], None]) -> None: ...
    def remember(self, user: str, subscription: int, channel: str, args: Any, after: int) -> None: ...
    def renumber(self, user: str, former: int, subscription: int, until: int, through: int) -> None: ...
    def forget(self, user: str, subscription: int) -> None: ...
    def acknowledge(self, user: str, positions: dict[int, int]) -> None: ...
    def everybody(self) -> list[tuple[str, list[DurableSubscription]]]: ...


class Driver:
    """One state machine on one loop."""

    def __init__(
        self, config: BrokerConfig, loop: asyncio.AbstractEventLoop, wicket: TicketVerifier | None = None
    ) -> None:
        self.config = config
        self.loop = loop
        self.state = BrokerState(config, (wicket or TicketVerifier(config.name, time.time)).refuses)
        self.cluster: Cluster
        self.store: Store
        self.writer = FrameWriter()
        self._sends: list[do.Send] = []
        self._ticking: asyncio.TimerHandle | None = None
        self._carry_out: dict[type[Any], Callable[[Any], None]] = {
            do.Send: self._send,
            do.Close: self._close,
            do.Authenticate: self._authenticate,
            do.Remember: lambda it: self.store.remember(it.user, it.subscription, it.channel, it.args, it.after),
            do.Renumber: lambda it: self.store.renumber(it.user, it.former, it.subscription, it.until, it.through),
            do.Forget: lambda it: self.store.forget(it.user, it.subscription),
            do.Acknowledge: lambda it: self.store.acknowledge(it.user, it.positions),
            **{
                kind: lambda it: self.cluster.carry_out(it)
                for kind in (do.Want, do.Unwant, do.Pull, do.Fetch, do.Commit)
            },
        }

    def start(self, cluster: Cluster, store: Store) -> None:
        self.cluster, self.store = cluster, store
        for user, held in store.everybody():
            self.handle(Restored(user, held))
        self._tick()

    def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
        self.handle(Stopping())
        self.flush()

    def handle(self, event: Event) -> None:
        carry_out = self._carry_out
        for instruction in self.state.handle(event, self.loop.time()):
            carry_out[type(instruction)](instruction)

    def hear(self, tells: Sequence[Told]) -> None:
        """What they cause goes out together, and at once."""
        found = self.state.hear(tells, self.loop.time())
        if len(found) == 1 and type(found[0]) is do.Send and not self._sends:
            self.writer.write(found[0].peers, found[0].frame)
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

    def _authenticate(self, it: do.Authenticate) -> None:
        self.store.look_up(it.token, lambda user, held: self.handle(Authenticated(it.peer, user, held)))

    def _close(self, it: do.Close) -> None:
        self.flush()  # what was said before comes before the end
        peer: Any = it.peer
        peer.close(it.close, it.reason)

    def _send(self, it: do.Send) -> None:
        if not self._sends:
            self.loop.call_soon(self.flush)
        self._sends.append(it)

    def flush(self) -> None:
        """One write a connection, whatever has gathered."""
        sends, self._sends = self._sends, []
        if len(sends) == 1:
            self.writer.write(sends[0].peers, sends[0].frame)
        elif sends:
            self.writer.write_together([(send.peers, send.frame) for send in sends])
