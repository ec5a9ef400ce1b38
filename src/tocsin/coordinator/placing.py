"""Where a newcomer goes."""

from __future__ import annotations

from collections import Counter

from tocsin.balancing.load import Status
from tocsin.balancing.placement import Candidate
from tocsin.coordinator import events as ev
from tocsin.coordinator.events import Note, Refuse, Reply
from tocsin.coordinator.membership import Membership
from tocsin.errors import Busy
from tocsin.wire.reports import Placement

#: Seconds for which a newcomer's ticket is good.
TICKET = 60.0


class Placing(Membership):
    def _place(self, event: ev.Place) -> None:
        wish = event.request
        candidates = self._candidates(wish.distances)
        where = (wish.lat, wish.lon) if wish.lat is not None and wish.lon is not None else None
        tried = [each for each in candidates if self._by_number[each.number].name not in wish.avoid]
        chosen = self.placement.choose(tried, where)
        if chosen is None:
            # What did not answer just now may answer again, and there is no other.
            chosen = self.placement.choose(candidates, where)
        if chosen is None:
            hint = "start a broker" if not self.members else "all brokers are gone, full or draining"
            self._out.append(Refuse(event.call, Busy("no broker can take anybody", hint=hint)))
            return
        member = self._by_number[chosen]
        member.promised += 1
        ticket = self._ticket(wish.subscriber, member, TICKET)
        self._out.append(Note("placed", self.config.placement, wish.subscriber, target=member.name))
        self._out.append(Reply(event.call, Placement(member.name, member.row.url, ticket)))

    def _candidates(self, distances: dict[str, float]) -> list[Candidate]:
        """Those on their way to a broker count as if they were there."""
        relative, count = self.load.loads.relative, self.load.count
        arriving = Counter(each.target.number for each in self.transfers.values())
        return [
            Candidate(
                each.number,
                float(relative[each.number]),
                int(count[each.number]) + each.promised + arriving[each.number],
                each.row.most,
                each.row.capacity,
                Status(int(self.load.status[each.number])),
                (each.row.lat, each.row.lon) if each.row.lat is not None and each.row.lon is not None else None,
                distances.get(each.name),
            )
            for each in self.members.values()
            if each.alive
        ]
