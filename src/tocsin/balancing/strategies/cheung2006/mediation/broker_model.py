"""What an edge's machine sees of its broker. Subscriptions have numbers that the broker gives out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from tocsin.balancing.strategies.cheung2006.detection.indices import Indices
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering


class BrokerModel(Protocol):
    def indices(self) -> Indices:
        """As sampled when publications are enqueued."""

    def resources(self) -> Resources: ...

    def css(self) -> tuple[str, ...]:
        """The covering subscription set, as conditions."""

    def subscribe_locally(self, css: Sequence[str]) -> Sequence[int]:
        """Subscriptions that take part in matching and are never forwarded; their numbers."""

    def subscribers(self) -> Mapping[int, Sequence[str]]:
        """Of each client subscription here those that are not migrating already."""

    def covering(self) -> Covering: ...

    def queue_delay(self) -> float:
        """Seconds until what is in the input queue now has been delivered."""
