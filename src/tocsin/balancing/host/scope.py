"""What a component sees of its host in one iteration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tocsin.balancing.host.actions import Peer
from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.load_model import LoadModel

if TYPE_CHECKING:
    from typing_extensions import TypeVar as Defaulting  # defaults are newer than the oldest Python that we support

    #: What a host decides about: its own load, or a what-if of all peers where one host decides for all.
    ModelT = Defaulting("ModelT", default=LoadModel)
else:
    ModelT = TypeVar("ModelT")


@dataclass
class Scope(Generic[ModelT]):
    """``answer``: load information pulled for this iteration. ``subject``: what triggered it, if not the clock.

    ``found``: what balancers find out besides actions, by criterion.
    """

    peer: Peer
    now: float
    model: ModelT
    registry: InformationRegistry
    neighbours: Sequence[Peer]
    rng: Random
    answer: Sequence[LoadInformation] | None = None
    subject: str | None = None
    found: dict[str, Any] = field(default_factory=dict)

    def own(
        self: Scope[LoadModel], criterion: str, *, threshold: float | None = None, units: bool = False
    ) -> LoadInformation:
        """Load information about this peer."""
        loads = tuple(self.model.units(criterion)) if units else ()
        return LoadInformation(self.peer, criterion, self.model.measure(criterion), threshold=threshold, units=loads)
