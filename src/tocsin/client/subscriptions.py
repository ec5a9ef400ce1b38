"""All subscriptions of a client: asked for, resumed, fed and left. Pure; part of the client's state machine.

Subscriptions with the same channel and arguments share one on the wire, and each of them gets every notification.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from msgspec import Struct

from tocsin.client import events as ev
from tocsin.client.backoff import Backoff
from tocsin.client.entry import Entry
from tocsin.errors import TocsinError, UserError
from tocsin.wire import messages as wire
from tocsin.wire.remote import told


class Phase(Enum):
    """Of a BE subscription on the present connection."""

    BEHIND = "behind"
    LAGGING = "lagging"
    LIVE = "live"


class Asking(Struct, eq=False):
    entries: list[Entry]
    after: int | None


class Leaving(Struct, eq=False):
    """``entry`` is there if what is on its way is still wanted."""

    number: int
    handles: list[int]
    entry: Entry | None = None


class Subscriptions:
    def __init__(
        self,
        do: Callable[[ev.Instruction], None],
        say: Callable[[wire.Message], None],
        ids: Iterator[int],
        backoff: Backoff,
    ) -> None:
        self.entries: dict[int, Entry] = {}
        self.phases: dict[int, Phase] = {}
        self.requests: dict[int, Asking | Leaving] = {}
        self.duplicates = 0
        self.gaps = 0
        self.full: set[int] = set()  # handles with as much as the application can take
        self.changed = False  # since the last ack
        self.retry_at: float | None = None
        self._do, self._say, self._ids, self._backoff = do, say, ids, backoff
        self._numbers: dict[int, list[Entry]] = {}
        self._positions: dict[str, int] = {}
        self._farewells: dict[int, list[int]] = {}  # to be said on the next connection, with those who wait for it
        self._again: list[Entry] = []
        self._acked: dict[int, int] = {}

    # -- what the application wants ------------------------------------------------------------------------------------

    def want(self, event: ev.WantSubscribe, online: bool) -> None:
        entry = self.entries[event.handle] = Entry(event)
        if not online:
            return
        if entry.cursor is None:
            for peer in self.entries.values():
                if peer.key == entry.key and peer.number is not None and not peer.leaving:
                    self._join(entry, peer)
                    return
            for request in self.requests.values():
                if isinstance(request, Asking) and request.after is None and request.entries[0].key == entry.key:
                    request.entries.append(entry)
                    return
        self._ask([entry])

    def _join(self, entry: Entry, peer: Entry) -> None:
        """The broker has it for this client already: nothing needs to be said, and it begins with what comes next."""
        assert peer.number is not None and peer.cursor is not None
        entry.channel = peer.channel
        entry.begin(max(peer.cursor, self._positions.get(peer.channel, 0)))
        entry.known = peer.known
        self._attach(entry, peer.number)

    def leave(self, event: ev.WantUnsubscribe, online: bool, kept: bool) -> None:
        """``kept``: the broker keeps subscriptions without a connection, so that it has to be told in any case."""
        entry = self.entries.get(event.handle)
        if entry is None or entry.leaving:
            self._do(ev.Left(event.handle))
            return
        number = entry.number
        if number is None or len(self._numbers[number]) > 1:
            self._end(entry)
            if kept and entry.known is not None and number is None:
                self._farewells.setdefault(entry.known, []).append(entry.handle)
                if online:  # its own subscribe is on its way: the goodbye goes behind it
                    self._part(entry.known)
            else:
                self._do(ev.Left(entry.handle))
            return
        id = next(self._ids)
        self.requests[id] = Leaving(number, [entry.handle], entry if event.drain else None)
        self._say(wire.Unsubscribe(id, number))
        if event.drain:
            entry.leaving = True
        else:
            self._end(entry)

    def consumed(self, event: ev.Consumed) -> None:
        entry = self.entries.get(event.handle)
        if entry is not None:
            entry.consume(event.execution)
            self.changed = True
            if entry.pending <= entry.max_pending // 2:
                self.full.discard(entry.handle)

    # -- connections ---------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Says to a new connection what the old one knew: goodbyes first, then every subscription with its cursor."""
        for number in list(self._farewells):
            self._part(number)
        self._ask_all(self.entries.values())

    def lost(self, kept: bool) -> None:
        """Everything is to be said again."""
        for request in self.requests.values():
            if not isinstance(request, Leaving):
                continue
            if request.entry is not None:
                self._end(request.entry)
            if kept:
                self._farewells.setdefault(request.number, []).extend(request.handles)
            else:
                self._left(request.handles)
        for entry in self.entries.values():
            entry.number = None
        self.requests.clear()
        self.phases.clear()
        self._numbers.clear()
        self._again.clear()
        self.retry_at = None

    def timer(self, now: float) -> None:
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            again, self._again = self._again, []
            self._ask_all(entry for entry in again if entry.handle in self.entries)

    def stop(self, error: TocsinError | None) -> None:
        self.lost(kept=False)
        for entry in list(self.entries.values()):
            self._end(entry, error)
        for handles in self._farewells.values():
            self._left(handles)
        self._farewells.clear()

    # -- what the broker says ------------------------------------------------------------------------------------------

    def subscribed(self, message: wire.Subscribed) -> None:
        request = self.requests.pop(message.id, None)
        if not isinstance(request, Asking):
            return
        self._backoff.reset()
        number = message.subscription
        waiting = [entry for entry in request.entries if entry.handle in self.entries]
        behind = self.phases.get(number, Phase.LIVE) is not Phase.LIVE
        if request.after is None:
            # A new one begins now; an equal one that was there before stays where it is.
            self.phases.setdefault(number, Phase.LIVE)
        else:
            self.phases[number] = Phase.BEHIND
        for entry in waiting:
            entry.channel = message.channel
            if entry.cursor is None:
                entry.begin(message.after)
                entry.known = number
            elif entry.known not in (None, number) and message.after < (request.after or 0):
                entry.begin(message.after)  # the channel was made anew and counts from the beginning
            self._attach(entry, number)
        if number not in self._numbers:
            self._part(number)
        elif behind and request.after is not None:
            # The broker went on from here: an equal one that was further behind asks for its own part again.
            left = [entry for entry in self._numbers[number] if (entry.cursor or 0) < message.after]
            for entry in left:
                self._detach(entry)
            self._ask_all(left)

    def unsubscribed(self, id: int) -> None:
        """Also after an error: what the broker does not have is gone too."""
        request = self.requests.pop(id, None)
        if not isinstance(request, Leaving):
            return
        if request.entry is not None:
            self._end(request.entry)
        self._left(request.handles)
        # Another one turned out to have the same number, and went with it.
        others = self._numbers.pop(request.number, [])
        for entry in others:
            entry.number = None
        self.phases.pop(request.number, None)
        self._ask_all(others)

    def refused(self, message: wire.Error, now: float) -> bool:
        """A broker that can't at the moment is asked again, for what it once had confirmed."""
        assert message.id is not None
        request = self.requests.get(message.id)
        if isinstance(request, Leaving):
            self.unsubscribed(message.id)
        elif request is not None:
            del self.requests[message.id]
            error = told(message.code, message.message, message.hint)
            for entry in [entry for entry in request.entries if entry.handle in self.entries]:
                if isinstance(error, UserError) or not entry.confirmed:
                    self._end(entry, error)
                else:
                    self._again.append(entry)
            if self._again and self.retry_at is None:
                self.retry_at = now + self._backoff.next()
        return request is not None

    def ended(self, message: wire.Ended) -> None:
        for entry in list(self._numbers.get(message.subscription, ())):
            self._end(entry, told(message.code, message.message))

    def notify(self, message: wire.Notify) -> None:
        self._positions[message.channel] = max(message.execution, self._positions.get(message.channel, 0))
        for entry in self._numbers.get(message.subscription, ()):
            item = entry.take(message)
            if item is None:
                self.duplicates += 1
                continue
            self._do(ev.Deliver(entry.handle, item))
            if entry.pending >= entry.max_pending:
                self.full.add(entry.handle)

    def gap(self, message: wire.Gap) -> None:
        for entry in self._numbers.get(message.subscription, ()):
            if message.reason == "released":  # otherwise more of the former number may follow
                entry.known = message.subscription
            item = entry.skip(message)
            if item is not None:
                self.gaps += 1
                self._do(ev.Deliver(entry.handle, item))

    def live(self, message: wire.Live) -> None:
        self.phases[message.subscription] = Phase.LIVE
        for entry in self._numbers.get(message.subscription, ()):
            entry.known = message.subscription
            self.changed |= entry.reach(message.execution)
            self._positions[entry.channel] = max(message.execution, self._positions.get(entry.channel, 0))

    def lagging(self, message: wire.Lagging) -> None:
        self.phases[message.subscription] = Phase.LAGGING

    def ping(self, message: wire.Ping) -> None:
        """Those that are live have everything up to where the channel is."""
        self._positions.update(message.positions)
        for number, entries in self._numbers.items():
            if self.phases.get(number) is Phase.LIVE:
                for entry in entries:
                    self.changed |= entry.reach(message.positions.get(entry.channel, 0))

    # -- what can be asked ---------------------------------------------------------------------------------------------

    def lag(self, entry: Entry) -> int:
        """Executions of the channel that it may still get and that have happened."""
        if entry.cursor is None or (entry.number is not None and self.phases.get(entry.number) is Phase.LIVE):
            return 0
        return max(0, self._positions.get(entry.channel, 0) - entry.cursor)

    def acks(self) -> dict[int, int]:
        """What the application has dealt with since the last time this was asked."""
        found = {}
        for number, entries in self._numbers.items():
            dealt = [entry.dealt for entry in entries if entry.dealt is not None]
            if dealt and min(dealt) > self._acked.get(number, 0):
                found[number] = self._acked[number] = min(dealt)
        self.changed = False
        return found

    # -- parts ---------------------------------------------------------------------------------------------------------

    def _ask_all(self, entries: Iterable[Entry]) -> None:
        groups: dict[object, list[Entry]] = {}
        for entry in entries:
            new = entry.cursor is None
            groups.setdefault((new, entry.key) if entry.known is None else entry.known, []).append(entry)
        for group in groups.values():
            self._ask(group)

    def _ask(self, entries: list[Entry]) -> None:
        """One request for all of them, from where the last one of them is."""
        id = next(self._ids)
        cursors = [entry.cursor for entry in entries if entry.cursor is not None]
        after = min(cursors) if cursors else None
        first = entries[0]
        self.requests[id] = Asking(list(entries), after)
        self._say(wire.Subscribe(id, first.channel, first.args, after, None if after is None else first.known))

    def _attach(self, entry: Entry, number: int) -> None:
        entry.number = number
        self._numbers.setdefault(number, []).append(entry)
        if not entry.confirmed:
            entry.confirmed = True
            self._do(ev.Confirmed(entry.handle))

    def _part(self, number: int) -> None:
        handles = self._farewells.pop(number, [])
        if any(entry.known == number for entry in self.entries.values()):
            self._left(handles)
            return
        id = next(self._ids)
        self.requests[id] = Leaving(number, handles)
        self._say(wire.Unsubscribe(id, number))

    def _left(self, handles: list[int]) -> None:
        for handle in handles:
            self._do(ev.Left(handle))

    def _end(self, entry: Entry, error: TocsinError | None = None) -> None:
        if self.entries.pop(entry.handle, None) is None:
            return
        self.full.discard(entry.handle)
        self._detach(entry)
        self._do(ev.Ended(entry.handle, error))

    def _detach(self, entry: Entry) -> None:
        if entry.number is None:
            return
        others = self._numbers[entry.number]
        others.remove(entry)
        if not others:
            del self._numbers[entry.number]
            self.phases.pop(entry.number, None)
        entry.number = None
