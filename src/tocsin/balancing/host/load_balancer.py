"""The load balancer component: whom to balance with, which load to move, and how.

``select_target`` may answer with a question: a pull whose report the next iteration gets as ``scope.answer``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tocsin.balancing.host.actions import ActionKind, AnyAction, Peer, Unit
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.messages import Recipient
from tocsin.balancing.host.scope import ModelT, Scope
from tocsin.errors import UserError


@dataclass(frozen=True)
class Ask:
    """Pull from this recipient first; with a ``ttl`` from a random peer some hops further on.

    ``also``: others that are asked at the same time; the iteration goes on when all have answered. ``seconds``: how
    long that may take, after which it goes on with the answers that there are.
    """

    recipient: Recipient
    ttl: int = 0
    also: tuple[Recipient, ...] = ()
    seconds: float | None = None


if TYPE_CHECKING:
    from typing_extensions import TypeVar as Defaulting

    #: Between peers a target is a peer, a load some of its units. Where one host decides for all, a target may be a way
    #: between two peers, and a load what goes that way.
    TargetT = Defaulting("TargetT", default=Peer)
    LoadT = Defaulting("LoadT", default=Sequence[Unit])
    ActionT_co = Defaulting("ActionT_co", covariant=True, default=AnyAction)
else:
    TargetT, LoadT = TypeVar("TargetT"), TypeVar("LoadT")
    ActionT_co = TypeVar("ActionT_co", covariant=True)


class LoadBalancer(Protocol[ModelT, TargetT, LoadT, ActionT_co]):
    """``actions``: those that the host must be able to execute.

    On a what-if of all peers, ``rebalance`` changes the what-if too.
    """

    @property
    def actions(self) -> frozenset[ActionKind]: ...

    def select_target(self, scope: Scope[ModelT], criterion: str, state: LoadState) -> TargetT | Ask | None: ...

    def select_load_to_move(self, scope: Scope[ModelT], criterion: str, state: LoadState, target: TargetT) -> LoadT: ...

    def rebalance(
        self, scope: Scope[ModelT], criterion: str, state: LoadState, target: TargetT, load: LoadT
    ) -> Iterable[ActionT_co]: ...


def check_actions(balancers: Iterable[LoadBalancer[Any, Any, Any, Any]], executes: Collection[ActionKind]) -> None:
    """Refuse balancers whose actions the host cannot execute."""
    needed = {kind for each in balancers for kind in each.actions}
    missing = sorted(kind.value for kind in needed.difference(executes))
    if missing:
        hint = f"this host can: {', '.join(sorted(kind.value for kind in executes)) or 'nothing'}"
        raise UserError(f"the strategy needs a host that can {', '.join(missing)}", hint=hint)


class Learner(Protocol):
    """A balancer that wants to know what was refused and why."""

    def refused(self, action: Any, reason: str, now: float) -> None: ...


@dataclass(frozen=True)
class Deferral:
    """What a balancer holds back for later, for people. ``seconds`` until it is evaluated again, if that is delayed."""

    state: str
    text: str
    actions: int = 0
    seconds: float = 0.0


class Deferring(Protocol):
    """A balancer that holds some of its actions back until it is certain that they pay.

    A plan may be made by a copy of the balancer in another process; so what that copy found comes with the plan.
    """

    def begin(self) -> None:
        """From now on it evaluates again and again, and may wait; before, it acts at once."""

    def concluded(self, found: Any, made: int, now: float) -> None:
        """An evaluation has ended with this in ``scope.found``, and with so many actions."""

    def deferral(self, found: Any, now: float) -> Deferral | None:
        """After an evaluation with this in ``scope.found``; None: as after the last that has ended."""
