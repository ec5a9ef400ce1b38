"""Both brokers of a session as if subscriptions had been offloaded: the what-if that selections work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tocsin.balancing.strategies.cheung2006.estimation.press import Profile
from tocsin.balancing.strategies.cheung2006.estimation.resources import Change, Resources
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering, set_of
from tocsin.balancing.strategies.cheung2006.parameters import Parameters

#: How many subscribers of each subscription leave, in the order of the choices.
Selection = list[tuple[int, int]]


@dataclass
class Pair:
    """``subscribers``: of each client subscription here, how many. ``accepting``: the acceptor's CSS, as a set.

    ``present`` attracts publications here: what has been chosen in part stays, but is no candidate any more.
    """

    ours: Resources
    theirs: Resources
    profile: Profile
    covering: Covering
    subscribers: Mapping[int, int]
    accepting: int
    parameters: Parameters
    selection: Selection = field(default_factory=list)

    def __post_init__(self) -> None:
        self.candidates = {number: count for number, count in self.subscribers.items() if count > 0}
        self.present = set_of(self.subscribers)
        self.accepted_vector = self.profile.accepting
        self._refresh()

    def _refresh(self) -> None:
        once = twice = 0
        for number in self.subscribers:
            if self.present >> number & 1:
                vector = self.profile.vector(number)
                twice |= once & vector
                once |= vector
        self._shared = twice
        self._css: list[int] | None = None

    @property
    def css(self) -> list[int]:
        if self._css is None:
            self._css = self.covering.css(self.present)
        return self._css

    def candidates_of_css(self) -> list[int]:
        return [each for each in self.css if each in self.candidates]

    # What a subscription weighs.

    def rate(self, number: int) -> float:
        return self.profile.rate_of(self.profile.vector(number))

    def output(self, number: int) -> float:
        """Bytes a second to each of its subscribers."""
        return self.rate(number) * self.profile.size

    def extra(self, number: int) -> float:
        """Publications a second that the acceptor does not get yet (equation 4.5)."""
        return self.profile.rate_of(self.profile.vector(number) & ~self.accepted_vector)

    def reducible(self, number: int) -> float:
        """Publications a second that no other subscription here needs: its children and siblings in the poset match
        everything that others do."""
        return self.profile.rate_of(self.profile.vector(number) & ~self._shared)

    def reduced(self, number: int, count: int) -> float:
        """Nothing, as long as one subscriber stays."""
        return self.reducible(number) if count == self.subscribers[number] else 0.0

    def offload(self, number: int, count: int) -> None:
        """Choose ``count`` subscribers: both brokers' loads and the acceptor's CSS change."""
        extra, reduced = self.extra(number), self.reduced(number, count)
        output = self.output(number) * count
        self.selection.append((number, count))
        self.ours = self.ours.after(Change(-count, -reduced, -output))
        self.theirs = self.theirs.after(Change(count, extra, output))
        self.accepting |= 1 << number
        self.accepted_vector |= self.profile.vector(number)
        del self.candidates[number]
        if count == self.subscribers[number]:
            self.present &= ~(1 << number)
            self._refresh()


def chosen(selection: Sequence[tuple[int, int]]) -> int:
    """How many subscribers leave."""
    return sum(count for _, count in selection)
