"""One peer's view for tests of components: its units, and what it knows of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tocsin.balancing.host.information_registry import InformationRegistry
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.scope import Scope


class Servers:
    """Virtual servers with their loads."""

    criteria = ("load",)

    def __init__(self, **loads: float) -> None:
        self.loads = loads

    def measure(self, criterion: str) -> float:
        return sum(self.loads.values())

    def capacity(self, criterion: str) -> float:
        return float("inf")

    def units(self, criterion: str) -> Sequence[tuple[str, float]]:
        return sorted(self.loads.items(), key=lambda each: (-each[1], each[0]))

    def holds(self, unit: str) -> bool:
        return unit in self.loads

    def what_if(self) -> Any:
        raise NotImplementedError


def about(peer: str, load: float, **more: Any) -> LoadInformation:
    return LoadInformation(peer, "load", load, **more)


def scope(
    peer: str = "me",
    servers: Mapping[str, float] | None = None,
    known: Sequence[LoadInformation] = (),
    neighbours: Sequence[str] = ("p", "q", "r"),
    **more: Any,
) -> Scope:
    registry = InformationRegistry()
    for each in known:
        registry.register(each, 0.0)
    return Scope(peer, 0.0, Servers(**servers or {}), registry, neighbours, Random(1), **more)
