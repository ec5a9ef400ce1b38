"""A migration of one subscriber from one broker to another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.model.arrays import Ints


class Migration(NamedTuple):
    """The action of this load model.

    ``gain``: how much it lowers the strategy's objective, in units of load. ``mandatory``: even if it adds load.
    """

    subscriber: int
    source: int
    target: int
    gain: float = 0.0
    mandatory: bool = False
    reason: str = ""

    @property
    def kind(self) -> ActionKind:
        return ActionKind.MIGRATE


def collapsed(at: Ints, played: Iterable[Migration]) -> list[Migration]:
    """Each subscriber once, from its present broker (``at``) to its last target, in the order of the last migrations.

    An algorithm may migrate a subscriber twice or back; no subscriber should reconnect twice for one plan.
    """
    last: dict[int, Migration] = {}
    for migration in played:
        last.pop(migration.subscriber, None)
        last[migration.subscriber] = migration
    return [migration._replace(source=int(at[u])) for u, migration in last.items() if migration.target != at[u]]
