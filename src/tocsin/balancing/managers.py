"""The two managers: each runs one iteration of its half when it is told to. Nothing here keeps time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic

from tocsin.balancing.components import Detector, Exchanger, LoadInformation, LoadState, Mover, Target, ToMove
from tocsin.balancing.registry import Registry


class LoadInformationManager:
    """``recipients`` says whom to ask this time; ``own`` what to tell them, one information a criterion."""

    def __init__(
        self,
        exchanger: Exchanger,
        registry: Registry,
        recipients: Callable[[float], Sequence[str]] = lambda now: (),
        own: Callable[[float], Iterable[LoadInformation]] = lambda now: (),
    ) -> None:
        self.exchanger, self.registry = exchanger, registry
        self.recipients, self.own = recipients, own

    def perform_load_information_exchange(self, now: float) -> int:
        """Returns how many news there were."""
        whom, news = self.recipients(now), 0
        told: list[LoadInformation | None] = [*self.own(now)]
        for information in told or [None]:
            if information is not None:
                self.registry.register(information)
            for heard in self.exchanger.exchange_load_information(whom, information, now):
                news += self.registry.register(heard)
        return news

    def get_load_report(self, criterion: str, now: float, peers: Iterable[str] | None = None) -> list[LoadInformation]:
        return self.registry.get_load_report(criterion, now, peers)


class LoadBalancingManager(Generic[ToMove, Target]):
    """Looks at each criterion in turn and acts on the first that is out of balance: two cures at once would add up."""

    def __init__(
        self,
        criteria: Sequence[str],
        detector: Detector,
        mover: Mover[ToMove, Target],
        information: LoadInformationManager,
    ) -> None:
        self.criteria, self.detector, self.mover, self.information = criteria, detector, mover, information

    def perform_one_load_balancing_iteration(self, now: float) -> LoadState:
        for criterion in self.criteria:
            state = self.detector.make_decision(criterion, self.information, now)
            if state is not LoadState.NORMAL:
                load_to_move = self.mover.select_load_to_move(self.information, criterion, state, now)
                target = self.mover.select_target(self.information, criterion, state, now)
                self.mover.rebalance(criterion, target, load_to_move, now)
                return state
        return LoadState.NORMAL
