"""Where a newcomer goes."""

from __future__ import annotations

from collections import Counter

from tocsin.balancing.placement import Newcomer, Place
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.events import Note, Refuse, Reply
from tocsin.coordinator.core.membership import Membership
from tocsin.errors import Busy
from tocsin.wire.reports import Placement

#: Seconds for which a newcomer's ticket is good.
TICKET = 60.0


class Placing(Membership):
    def _place(self, event: ev.Place) -> None:
        wish = event.request
        where = (wish.lat, wish.lon) if wish.lat is not None and wish.lon is not None else None
        newcomer, places = Newcomer(where, wish.distances), self._places()
        avoid = {*wish.avoid, *(each.name for each in self.members.values() if self._missed(each))}
        chosen = self.placement.place(newcomer, [each for each in places if each.broker not in avoid], self.rng)
        if chosen is None:
            # What did not answer just now may answer again, and there is no other.
            chosen = self.placement.place(newcomer, places, self.rng)
        if chosen is None:
            hint = "start a broker" if not self.members else "all brokers are gone, full or draining"
            self._out.append(Refuse(event.call, Busy("no broker can take anybody", hint=hint)))
            return
        member = self.members[chosen]
        member.promised += 1
        ticket = self._ticket(wish.subscriber, member, TICKET)
        self._out.append(Note("placed", self.config.placement, wish.subscriber, target=member.name))
        self._out.append(Reply(event.call, Placement(member.name, member.row.url, ticket)))

    def _places(self) -> list[Place]:
        """Those on their way to a broker count as if they were there."""
        load, count = self.load.loads.F, self.load.count
        arriving = Counter(each.target.number for each in self.transfers.values())
        return [
            Place(
                each.name,
                float(load[each.number]),
                each.row.capacity,
                int(count[each.number]) + each.promised + arriving[each.number],
                each.row.most,
                each.state == "up",
                (each.row.lat, each.row.lon) if each.row.lat is not None and each.row.lon is not None else None,
            )
            for each in self.members.values()
        ]
