"""A simulated broker with a processor and a bandwidth: matching takes time, and so does sending.

Matching a publication takes time in proportion to the subscriptions, as in the thesis' simulator; control messages
overtake publications that wait for the bandwidth. Memory is not simulated.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from tocsin.overlay.content import events as ev
from tocsin.overlay.content.instructions import Deliver, Instruction
from tocsin.overlay.content.messages import Frame, Message, Publication
from tocsin.overlay.content.router import Router
from tocsin.simulation.content.node import BrokerNode
from tocsin.simulation.network.network import Network

#: Seconds for one subscription on a processor of one MHz (worked out from the thesis' figures 5.9 and 5.11).
MATCHING = 0.017
#: Bytes of a message beside its values.
ENVELOPE = 64


class CapacityBroker(BrokerNode):
    """``cpu`` in MHz, ``bandwidth`` in Mbit/s. ``matched`` publications took ``busy`` seconds."""

    def __init__(
        self,
        name: str,
        network: Network,
        others: dict[str, BrokerNode],
        make: Callable[[str, int], Router],
        rng: Random,
        *,
        cpu: float,
        bandwidth: float,
    ) -> None:
        super().__init__(name, network, others, make, rng)
        self._cpu, self._bytes_per_second = cpu, bandwidth * 1e6 / 8
        self.matched = self.forwarded = 0
        self.busy = 0.0
        self._free = 0.0

    def event(self, event: ev.Event) -> None:
        message = event.message if isinstance(event, ev.Received) else None
        received = isinstance(message, Frame) and isinstance(message.body, Publication)
        if received or isinstance(event, ev.Publish):
            subscriptions = sum(len(each.subscriptions) for each in self.router.routing.spaces.values())
            seconds = MATCHING * subscriptions / self._cpu
            self.matched += 1
            self.busy += seconds
            self.busy_until = max(self.busy_until, self.clock.now) + seconds
        super().event(event)

    def _send(self, target: str, message: Message) -> None:
        if isinstance(message, Frame) and isinstance(message.body, Publication):
            self.forwarded += 1
            self.clock.at(self._sent_at(message.body), super()._send, target, message)
        else:
            super()._send(target, message)

    def _sent_at(self, publication: Publication) -> float:
        """Publications leave one after the other."""
        size = ENVELOPE + len(msgspec.json.encode(dict(publication.values)))
        self._free = max(self._free, self.clock.now, self.busy_until) + size / self._bytes_per_second
        return self._free

    def delivered_at(self, instruction: Instruction) -> float:
        """When a client has what is delivered to it."""
        return self._sent_at(instruction.publication) if isinstance(instruction, Deliver) else self.clock.now
