"""Ways to come by load information without a network; the ones with a network are elsewhere and look the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tocsin.balancing.components import LoadInformation
from tocsin.balancing.criteria import Criterion
from tocsin.balancing.load import Load
from tocsin.balancing.registry import Registry


class Modelled:
    """The coordinator's: asks nobody, because its load model knows every broker that serves and stays."""

    def __init__(self, load: Load, criteria: Sequence[Criterion], name: Callable[[int], str] = str) -> None:
        self.load, self.criteria, self.name = load, criteria, name

    def exchange_load_information(
        self, recipients: Sequence[str], information: LoadInformation | None, now: float
    ) -> Iterable[LoadInformation]:
        live = self.load.live.nonzero()[0]
        for criterion in self.criteria:
            measured = criterion.measure(self.load)
            for j in live:
                peer, capacity = self.name(int(j)), float(self.load.capacity[j])
                yield LoadInformation(peer, criterion.name, float(measured[j]), now, capacity)


class Direct:
    """Peers in one process: a push goes into their registries, a pull brings what each says about itself."""

    def __init__(self, peers: dict[str, tuple[Registry, Callable[[float], LoadInformation]]]) -> None:
        self.peers = peers

    def exchange_load_information(
        self, recipients: Sequence[str], information: LoadInformation | None, now: float
    ) -> Iterable[LoadInformation]:
        answers = []
        for peer in recipients:
            registry, tell = self.peers[peer]
            if information is not None:
                registry.register(information)
            answers.append(tell(now))
        return answers
