"""What a strategy's actions do in a key space: each becomes commands of the peer, and a result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from tocsin.balancing.host.actions import ActionKind, AnyAction, Migrate, Redirect, Rejoin, Replicate, Split
from tocsin.balancing.host.host import Execute, Executed
from tocsin.overlay.balancing.item_load import ItemLoad
from tocsin.overlay.balancing.region_load import RegionLoad
from tocsin.overlay.keyspace import events as ev
from tocsin.overlay.keyspace import messages as ms
from tocsin.overlay.keyspace.can.zones import ZoneOrder
from tocsin.overlay.keyspace.chord.chord import hashed
from tocsin.overlay.keyspace.model.contact import Contact

#: What the peers of any key space can do. A swap would leave a member without its place in between.
ALWAYS = frozenset({ActionKind.SPLIT, ActionKind.REJOIN})
#: What a peer answers to a command that it has carried out.
SUCCESS = (ms.Taken, ms.Welcome, ms.Stored)
#: Goes on with an answer: the next command, or whether all went well.
Next = Callable[[Any], "ev.Event | bool"]


class Execution:
    """``start`` and ``ended`` give the next command for the peer, or the result for the host."""

    def __init__(self, model: RegionLoad) -> None:
        self.model = model
        self._open: dict[int, tuple[Execute, Next]] = {}
        self._calls = 0

    def __len__(self) -> int:
        return len(self._open)

    def start(self, execute: Execute) -> ev.Event | Executed:
        return self._go_on(execute, next(self._steps(execute.action), False), last)

    def ended(self, call: int, body: Any) -> ev.Event | Executed | None:
        """Calls of this are below 0, those of the application above."""
        found = self._open.pop(call, None)
        if found is None:
            return None
        execute, then = found
        return self._go_on(execute, then(body), then)

    def _go_on(self, execute: Execute, step: ev.Event | bool | tuple[Any, Next], then: Next) -> ev.Event | Executed:
        if isinstance(step, tuple):
            step, then = step
        if isinstance(step, bool):
            return Executed(execute.session, execute.position, step)
        self._calls -= 1
        self._open[self._calls] = execute, then
        return _numbered(step, self._calls)

    def _steps(self, action: AnyAction) -> Iterator[Any]:
        ring, heaviest = self.model.ring, self.model.heaviest()
        if isinstance(action, Migrate):
            yield self._hand_over(action, 0)
        elif isinstance(action, Split) and heaviest is not None:
            yield ev.Invite(heaviest.me.id, action.target, action.cut)
        elif isinstance(action, Replicate) and heaviest is not None:
            yield ev.Invite(heaviest.me.id, action.target, mirror=True)
        elif isinstance(action, Rejoin) and heaviest is not None:
            beside = Contact(0, 0, "", action.source)  # whichever member that host has
            yield ev.Withdraw(heaviest.me.id, then=ev.Enter(ring, beside=beside, rule="median"))
        elif isinstance(action, Redirect) and len(action.units) == 1 and isinstance(self.model, ItemLoad):
            yield self._look(action, action.units[0], 0, self.model)

    def _hand_over(self, action: Migrate, number: int) -> Any:
        """One after the other."""
        if number >= len(action.units):
            return number > 0

        def then(body: Any) -> Any:
            return self._hand_over(action, number + 1) if last(body) else False

        return ev.HandOver(action.units[number], action.target), then

    def _look(self, action: Redirect, key: str, choice: int, model: ItemLoad) -> Any:
        """Which of the item's places is at the target?"""
        if choice >= model.functions:
            return False

        def found(body: Any) -> Any:
            if isinstance(body, ms.Described) and body.me.host == action.target and choice != model.choice(key):
                return ev.Redirect(0, model.ring, key, choice, model.functions), last
            return self._look(action, key, choice + 1, model)

        return ev.Request(0, model.ring, (hashed(key, choice),), ms.Find()), found


def executes(model: RegionLoad) -> frozenset[ActionKind]:
    """Virtual servers migrate, and items with several places are redirected; only zones of a CAN can be replicated."""
    more = {ActionKind.REPLICATE} if isinstance(model.order, ZoneOrder) else set()
    return ALWAYS | more | {ActionKind.REDIRECT if isinstance(model, ItemLoad) else ActionKind.MIGRATE}


def last(body: Any) -> bool:
    return isinstance(body, SUCCESS)


def _numbered(event: Any, call: int) -> ev.Event:
    numbered: ev.Event = replace(event, call=call)
    return numbered
