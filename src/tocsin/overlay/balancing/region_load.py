"""The load of a peer by its regions: zones, ranges, virtual servers. A unit is a member of the ring."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tocsin.balancing.host.actions import AnyAction, Unit
from tocsin.overlay.keyspace.can.zones import ZoneOrder
from tocsin.overlay.keyspace.chord.chord import BITS, hashed
from tocsin.overlay.keyspace.member import Member
from tocsin.overlay.keyspace.model.contact import Point
from tocsin.overlay.keyspace.model.load import Load
from tocsin.overlay.keyspace.model.order import KeyOrder
from tocsin.overlay.keyspace.peer import Peer

ITEMS, SUBSCRIPTIONS, EVENTS, ROUTED = CRITERIA = ("items", "subscriptions", "events", "routed")
#: Those that are counted as they happen, and measured for a second.
RATES = (EVENTS, ROUTED)
#: Seconds over which rates are measured.
WINDOW = 10.0


class RegionLoad:
    """What the peer stores is its load now; what it does is a mean of the last WINDOW seconds or more."""

    criteria: Sequence[str] = CRITERIA

    def __init__(self, peer: Peer, ring: str) -> None:
        self.peer, self.ring = peer, ring
        self._since, self._counted = 0.0, Load()
        self._rates = dict.fromkeys(RATES, 0.0)

    def tick(self, now: float) -> None:
        seconds = now - self._since
        if seconds >= WINDOW:
            load = self.peer.load(self.ring)
            for each in RATES:
                # Counters of members that have left are gone with them.
                self._rates[each] = max(0, getattr(load, each) - getattr(self._counted, each)) / seconds
            self._since, self._counted = now, load

    @property
    def order(self) -> KeyOrder:
        return self.peer.membership.overlays[self.ring].order

    def point(self, key: int) -> Point:
        """The key of a number of BITS bits; in a CAN, whose keys have several coordinates, one by hash."""
        if not isinstance(self.order, ZoneOrder):
            return (key,)
        space = self.order.space
        return tuple(hashed(str(key), each) * space.size >> BITS for each in range(space.dimensions))

    @property
    def members(self) -> list[Member]:
        return self.peer.members_of(self.ring)

    @property
    def idle(self) -> bool:
        """Neither a region of its own nor a replica of another's."""
        return not self.peer.members and not self.peer.membership.mirrors

    @property
    def hosts(self) -> list[str]:
        """Of those next to this peer and of its shortcuts. A peer without members knows only where it can enter."""
        contacts = [contact for each in self.members for contact in (*each.ring.contacts(), *each.links.contacts())]
        names = [each.host for each in contacts] if self.members else self.peer.context.bootstrap
        return [each for each in dict.fromkeys(names) if each != self.peer.host]

    @property
    def around(self) -> list[str]:
        """The hosts just before and just after its regions."""
        found = [each.ring.predecessor for each in self.members] + [
            each.ring.successors[0] for each in self.members if each.ring.successors
        ]
        return [each for each in dict.fromkeys(it.host for it in found if it) if each != self.peer.host]

    # What a host asks.

    def measure(self, criterion: str) -> float:
        return self._rates[criterion] if criterion in RATES else float(getattr(self.peer.load(self.ring), criterion))

    def capacity(self, criterion: str) -> float:
        return math.inf

    def units(self, criterion: str) -> Sequence[tuple[Unit, float]]:
        found = [(each.me.id, float(getattr(each.load(), criterion))) for each in self.members]
        return sorted(found, key=lambda each: (-each[1], each[0]))

    def holds(self, unit: Unit) -> bool:
        return any(each.me.id == unit for each in self.members)

    def what_if(self) -> RegionTrial:
        return RegionTrial(self)

    def heaviest(self) -> Member | None:
        """The member with the most to share: stored things first, then what it serves."""
        weigh = lambda each: (each.load().items + each.load().subscriptions, each.load().events, each.me.id)  # noqa: E731
        return max(self.members, key=weigh, default=None)


class RegionTrial:
    """As if actions had been executed."""

    def __init__(self, model: RegionLoad) -> None:
        self._model = model
        self._left: set[Unit] = set()
        self._more = 0.0

    def apply(self, action: AnyAction) -> None:
        if action.source != self._model.peer.host:
            self._more += action.load
        elif action.units:
            self._left.update(unit for unit in action.units if self._model.holds(unit))
        else:
            self._more -= action.load

    def measure(self, criterion: str) -> float:
        units = dict(self._model.units(criterion))
        left = sum(units[unit] for unit in self._left if unit in units)
        return max(0.0, self._model.measure(criterion) - left + self._more)
