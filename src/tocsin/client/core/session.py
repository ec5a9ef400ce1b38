"""What the client and one broker have said to each other about subscriptions, on one connection. Pure.

While a client moves it has two of these. Each is a stream without holes that begins no later than the cursor, so
notifications may be taken from both: whichever comes first counts, and the number tells what is here already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

from tocsin.client.core.subscription_state import SubscriptionState
from tocsin.errors import UserError
from tocsin.wire import messages as wire
from tocsin.wire.remote_errors import remote_error

if TYPE_CHECKING:
    from tocsin.client.core.subscriptions import Subscriptions


class Role(Enum):
    """Of a connection."""

    CURRENT = "current"
    JOINING = "joining"  # the client is about to move to it
    LEAVING = "leaving"  # the client has moved away and waits for the last answers


class Phase(Enum):
    """Of a BE subscription on this connection."""

    BEHIND = "behind"
    LAGGING = "lagging"
    LIVE = "live"


class Asking(Struct, eq=False):
    """``former`` is the number that the cursor belongs to."""

    entries: list[SubscriptionState]
    after: int | None
    former: int | None


class Leaving(Struct, eq=False):
    """``entry`` is there if what is on its way is still wanted."""

    number: int
    handles: list[int]
    entry: SubscriptionState | None = None


class Session:
    """``trouble`` says why a connection cannot take over: with the one before it everything is as it was."""

    def __init__(
        self, all: Subscriptions, say: Callable[[wire.Message], None], ids: Iterator[int], role: Role = Role.CURRENT
    ) -> None:
        self.role = role
        self.broker: str | None = None
        self.phases: dict[int, Phase] = {}
        self.requests: dict[int, Asking | Leaving] = {}
        self.numbers: dict[int, list[SubscriptionState]] = {}
        self.places: dict[int, int] = {}  # handle: number
        self.retry_at: float | None = None
        self.trouble = ""
        self._all, self._say, self._ids = all, say, ids
        self._again: list[SubscriptionState] = []
        self._formers: dict[int, int | None] = {}  # number: the one whose results came before its own
        self._acked: dict[int, int] = {}

    # -- what the client wants -----------------------------------------------------------------------------------------

    def want(self, entry: SubscriptionState) -> None:
        """A new one of the application."""
        if entry.cursor is None:
            for peer in self._all.entries.values():
                if peer.key == entry.key and peer.handle in self.places and not peer.leaving:
                    self._join(entry, peer)
                    return
            for request in self.requests.values():
                if isinstance(request, Asking) and request.after is None and request.entries[0].key == entry.key:
                    request.entries.append(entry)
                    return
        self._ask([entry])

    def _join(self, entry: SubscriptionState, peer: SubscriptionState) -> None:
        """The broker has it for this client already: nothing needs to be said, and it begins with what comes next."""
        assert peer.cursor is not None
        entry.channel = peer.channel
        entry.begin(max(peer.cursor, self._all.positions.get(peer.channel, 0)), peer.epoch)
        entry.known, entry.home = peer.known, peer.home
        self._attach(entry, self.places[peer.handle])

    def resume(self) -> None:
        """Says to a new connection what the old one knew: goodbyes first, then every subscription with its cursor."""
        if self.role is Role.CURRENT:
            for number in list(self._all.farewells):
                self.part(number)
        here = set(self.places)
        here.update(entry.handle for request in self.requests.values() for entry in _asked(request))
        here.update(entry.handle for entry in self._again)
        self._ask_all(
            entry
            for entry in self._all.entries.values()
            if entry.handle not in here and not entry.leaving and (entry.confirmed or self.role is Role.CURRENT)
        )

    def unsubscribe(self, number: int, handles: list[int], entry: SubscriptionState | None = None) -> None:
        id = next(self._ids)
        self.requests[id] = Leaving(number, handles, entry)
        self._say(wire.Unsubscribe(id, number))

    def part(self, number: int) -> None:
        """A goodbye, unless the number is wanted again."""
        handles = self._all.farewells.pop(number, []) if self.role is Role.CURRENT else []
        if any(entry.known == number for entry in self._all.entries.values()):
            self._all.left(handles)
        else:
            self.unsubscribe(number, handles)

    def drop(self, entry: SubscriptionState) -> None:
        """It is wanted no more. Who is told, the current connection knows; one that is being joined is told here."""
        number = self._detach(entry)
        if number is not None and number not in self.numbers and self.role is Role.JOINING:
            self.part(number)

    def timer(self, now: float) -> None:
        if self.retry_at is not None and now >= self.retry_at:
            self.retry_at = None
            again, self._again = self._again, []
            self._ask_all(entry for entry in again if entry.handle in self._all.entries)

    def current(self) -> None:
        """From now on this is the connection."""
        self.role = Role.CURRENT
        for handle, number in self.places.items():
            entry = self._all.entries[handle]
            entry.number = number
            if self.phases.get(number) is Phase.LIVE:
                entry.known, entry.home = number, self.broker

    # -- what the broker says ------------------------------------------------------------------------------------------

    def subscribed(self, message: wire.Subscribed) -> None:
        request = self.requests.pop(message.id, None)
        if not isinstance(request, Asking):
            return
        self._all.backoff.reset()
        number = message.subscription
        # An equal one that is behind may still get results of its former number, and then a new one does too.
        former = self._formers.get(number)
        if request.after is not None:
            self._formers[number] = request.former
        before = self.phases.get(number, Phase.LIVE)
        late: list[SubscriptionState] = []
        for entry in request.entries:
            if entry.handle not in self._all.entries or entry.leaving:
                continue
            entry.channel = message.channel
            if entry.cursor is None:
                entry.begin(message.after, message.epoch)
                homes = [peer.home for peer in self.numbers.get(number, ()) if peer.known == former]
                entry.known, entry.home = (former, homes[0]) if former is not None and homes else (number, self.broker)
            elif request.after is None and entry.cursor < message.after:
                late.append(entry)  # it has begun on another connection, before this one
                continue
            elif entry.epoch and message.epoch and entry.epoch != message.epoch:
                if self.role is not Role.CURRENT:
                    self.trouble = f"the channel {message.channel} is another one there"
                    continue
                self._all.begin_anew(entry, message)
                entry.home = self.broker
            elif self._anew(entry, number, message.after, request.after):
                entry.begin(message.after, message.epoch)
            entry.epoch = entry.epoch or message.epoch
            self._attach(entry, number)
        if number in self.numbers:
            # A new one begins now; an equal one that was there before stays where it is.
            self.phases[number] = before if request.after is None else Phase.BEHIND
        elif not late:
            self.part(number)
        if number in self.numbers and before is not Phase.LIVE and request.after is not None:
            # The broker went on from here: an equal one that was further behind asks for its own part again.
            late += [entry for entry in self.numbers[number] if (entry.cursor or 0) < message.after]
            for entry in late:
                self._detach(entry)
        self._ask_all(late)

    def _anew(self, entry: SubscriptionState, number: int, begin: int, after: int | None) -> bool:
        """The channel was made anew and counts from the beginning. Another broker may only be slower than the last."""
        changed = not entry.epoch and entry.known not in (None, number) and begin < (after or 0)
        return changed and self.role is Role.CURRENT and entry.home in (None, self.broker)

    def unsubscribed(self, id: int) -> None:
        """Also after an error: what the broker does not have is gone too."""
        request = self.requests.pop(id, None)
        if not isinstance(request, Leaving):
            return
        if request.entry is not None:
            self._all.end(request.entry)
        self._all.left(request.handles)
        # Another one turned out to have the same number, and went with it.
        others = list(self.numbers.get(request.number, ()))
        for entry in others:
            self._detach(entry)
        self.phases.pop(request.number, None)
        if self.role is not Role.LEAVING:
            self._ask_all(others)

    def refused(self, message: wire.Error, now: float) -> bool:
        """A broker that can't at the moment is asked again, for what it once had confirmed."""
        assert message.id is not None
        request = self.requests.get(message.id)
        if isinstance(request, Leaving):
            self.unsubscribed(message.id)
        elif request is not None:
            del self.requests[message.id]
            if self.role is Role.JOINING:
                self.trouble = message.message
            else:
                self._refused(request, message, now)
        return request is not None

    def _refused(self, request: Asking, message: wire.Error, now: float) -> None:
        error = remote_error(message.code, message.message, message.hint)
        for entry in [entry for entry in request.entries if entry.handle in self._all.entries]:
            if entry.confirmed and self.role is Role.LEAVING:
                continue  # the current connection has it
            if isinstance(error, UserError) or not entry.confirmed:
                self._all.end(entry, error)
            else:
                self._again.append(entry)
        if self._again and self.retry_at is None:
            self.retry_at = now + self._all.backoff.next()

    def ended(self, message: wire.Ended) -> None:
        if self.role is Role.JOINING:
            self.trouble = message.message
        elif self.role is Role.CURRENT:
            for entry in list(self.numbers.get(message.subscription, ())):
                self._all.positions.pop(entry.channel, None)  # another one of the name counts from the beginning
                self._all.end(entry, remote_error(message.code, message.message))

    def notify(self, message: wire.Notify) -> None:
        self._all.position(message.channel, message.execution)
        for entry in self.numbers.get(message.subscription, ()):
            self._all.take(entry, message)

    def gap(self, message: wire.Gap) -> None:
        """What is missing on one connection may still come on the other."""
        entries = self.numbers.get(message.subscription, [])
        if self.role is Role.CURRENT:
            self._formers.pop(message.subscription, None)
            for entry in entries:
                entry.known, entry.home = message.subscription, self.broker
                self._all.skip(entry, message)
        elif entries and all(self._expired(entry, message) for entry in entries):
            for entry in entries:
                self._all.skip(entry, message)
        elif any((entry.cursor or 0) < message.next - 1 and not self._held(entry, message) for entry in entries):
            self.trouble = f"executions {message.after + 1} to {message.next - 1} are not there: {message.reason}"
            for entry in list(entries):
                if message.reason == "retention":
                    entry.missed = message.next - 1
                self._detach(entry)

    def _held(self, entry: SubscriptionState, message: wire.Gap) -> bool:
        """Nobody released it: the other broker has held it all the time, and so all of its results were there."""
        here = self._all.current
        number = None if here is None else here.places.get(entry.handle)
        held = number is not None and number == entry.known == self._formers.get(message.subscription)
        return held and message.reason == "released" and self.role is Role.JOINING

    def _expired(self, entry: SubscriptionState, message: wire.Gap) -> bool:
        """It stayed for this before, and nothing of it has come where it is, although it is up to date there: it has
        not been told how far that is for longer than results are kept, and would be refused each time."""
        here = self._all.current
        number = None if here is None else here.places.get(entry.handle)
        live = here is not None and number is not None and here.phases.get(number) is Phase.LIVE
        waited = (entry.cursor or 0) < entry.missed
        return live and waited and message.reason == "retention" and self.role is Role.JOINING

    def live(self, message: wire.Live) -> None:
        self.phases[message.subscription] = Phase.LIVE
        self._formers.pop(message.subscription, None)
        for entry in self.numbers.get(message.subscription, ()):
            if self.role is Role.CURRENT:
                entry.known, entry.home = message.subscription, self.broker
            self._all.reach(entry, message.execution)
            self._all.position(entry.channel, message.execution)

    def lagging(self, message: wire.Lagging) -> None:
        self.phases[message.subscription] = Phase.LAGGING

    def ping(self, message: wire.Ping) -> None:
        """Those that are live have everything up to where the channel is."""
        if self.role is Role.CURRENT:
            self._all.positions.update(message.positions)
        for number, entries in self.numbers.items():
            if self.phases.get(number) is Phase.LIVE:
                for entry in entries:
                    self._all.reach(entry, message.positions.get(entry.channel, 0))

    # -- what can be asked ---------------------------------------------------------------------------------------------

    def complete(self, live: bool) -> bool:
        """Whether everything that was ever confirmed is here, and ``live``."""
        if self.requests or self._again or self.trouble:
            return False
        wanted = [e.handle for e in self._all.entries.values() if e.confirmed and not e.leaving]
        if any(handle not in self.places for handle in wanted):
            return False
        return not live or all(self.phases.get(self.places[handle]) is Phase.LIVE for handle in wanted)

    def has(self, entry: SubscriptionState) -> bool:
        asked = any(entry in _asked(request) for request in self.requests.values())
        return asked or entry.handle in self.places or entry in self._again

    def acks(self) -> dict[int, int]:
        """What the application has dealt with since the last time this was asked."""
        found = {}
        for number, entries in self.numbers.items():
            dealt = [entry.dealt for entry in entries if entry.dealt is not None]
            if dealt and min(dealt) > self._acked.get(number, 0):
                found[number] = self._acked[number] = min(dealt)
        return found

    # -- parts ---------------------------------------------------------------------------------------------------------

    def add(self, entry: SubscriptionState) -> None:
        """Something that was confirmed on another connection."""
        if not self.has(entry):
            self._ask([entry])

    def _ask_all(self, entries: Iterable[SubscriptionState]) -> None:
        groups: dict[object, list[SubscriptionState]] = {}
        for entry in entries:
            new = entry.cursor is None
            groups.setdefault((new, entry.key) if entry.known is None else entry.known, []).append(entry)
        for group in groups.values():
            self._ask(group)

    def _ask(self, entries: list[SubscriptionState]) -> None:
        """One request for all of them, from where the last one of them is."""
        id = next(self._ids)
        cursors = [entry.cursor for entry in entries if entry.cursor is not None]
        after = min(cursors) if cursors else None
        first = entries[0]
        former = None if after is None else first.known
        self.requests[id] = Asking(list(entries), after, former)
        epoch = None if after is None else first.epoch or None
        self._say(wire.Subscribe(id, first.channel, first.args, after, former, epoch))

    def _attach(self, entry: SubscriptionState, number: int) -> None:
        self._detach(entry)
        self.places[entry.handle] = number
        self.numbers.setdefault(number, []).append(entry)
        if self.role is Role.CURRENT:
            entry.number = number
        self._all.confirm(entry, self)

    def _detach(self, entry: SubscriptionState) -> int | None:
        """The number it had here."""
        number = self.places.pop(entry.handle, None)
        if number is None:
            return None
        others = self.numbers[number]
        others.remove(entry)
        if not others:
            del self.numbers[number]
            self.phases.pop(number, None)
        if self.role is Role.CURRENT:
            entry.number = None
        return number


def _asked(request: Asking | Leaving) -> list[SubscriptionState]:
    return request.entries if isinstance(request, Asking) else []
