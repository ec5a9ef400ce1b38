"""Records on their way to feeds. Pure; part of the client's state machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from msgspec import Raw, Struct, field

from tocsin.client.core import events as ev
from tocsin.client.notification import Receipt
from tocsin.errors import LimitExceeded, TocsinError, Uncertain
from tocsin.wire import messages as wire
from tocsin.wire.remote_errors import remote_error

if TYPE_CHECKING:
    from tocsin.client.core.connection_state import ConnectionState

#: Bytes of a message beside its records and six for each character of the feed's name.
AROUND = 100


class Publication(Struct, eq=False):
    """Sent part by part: ``done`` records have been answered, ``sent`` more are on their way."""

    request: int
    feed: str
    records: list[bytes]
    retry: bool
    done: int = 0
    sent: int = 0
    taken: int = 0
    refused: list[wire.Refused] = field(default_factory=list)

    def part(self, limit: int) -> list[bytes]:
        """The next records that go into one frame; none if a single one is too large."""
        room = limit - AROUND - 6 * len(self.feed)
        part: list[bytes] = []
        for record in self.records[self.done : self.done + wire.MOST_RECORDS]:
            room -= len(record) + 1
            if room < 0:
                break
            part.append(record)
        return part


class Publications:
    """What is on its way is kept with the connection that it went over."""

    def __init__(self, do: Callable[[ev.Instruction], None], ids: Iterator[int]) -> None:
        self._do, self._ids = do, ids
        self._waiting: list[Publication] = []

    def want(self, event: ev.WantPublish, link: ConnectionState | None) -> None:
        """``link``: where it goes, None while there is no connection."""
        found = Publication(event.request, event.feed, event.records, event.retry)
        if not found.records:
            self._do(ev.Resolve(found.request, Receipt(0, [])))
        else:
            self._go_on(found, link)

    def start(self, link: ConnectionState) -> None:
        """A connection is there: what waited goes out."""
        waiting, self._waiting = self._waiting, []
        for found in waiting:
            self._go_on(found, link)

    def _go_on(self, found: Publication, link: ConnectionState | None) -> None:
        if link is None:
            self._waiting.append(found)
            return
        part = found.part(link.frame_bytes)
        if not part:
            error = LimitExceeded(
                f"record {found.done + 1} is larger than the broker takes, {link.frame_bytes:,} bytes",
                limit="frame_bytes",
                index=found.done,
                taken=found.taken,
            )
            self._do(ev.Reject(found.request, error))
            return
        found.sent = len(part)
        id = next(self._ids)
        link.publications[id] = found
        link.say(wire.Publish(id, found.feed, [Raw(record) for record in part]))

    def withdraw(self, request: int, links: list[ConnectionState]) -> None:
        self._waiting = [found for found in self._waiting if found.request != request]
        for found in [found for link in links for found in link.publications.values()]:
            if found.request == request:
                found.retry = False
                del found.records[found.done + found.sent :]

    def published(self, message: wire.Published, link: ConnectionState, following: ConnectionState | None) -> None:
        """``following``: where the next part goes."""
        found = link.publications.pop(message.id, None)
        if found is None:
            return
        found.taken += message.taken
        for each in message.refused:
            found.refused.append(wire.Refused(each.index + found.done, each.code, each.reason))
        found.done += found.sent
        found.sent = 0
        if found.done < len(found.records):
            self._go_on(found, following)
        else:
            self._do(ev.Resolve(found.request, Receipt(found.taken, found.refused)))

    def refused(self, message: wire.Error, link: ConnectionState) -> bool:
        assert message.id is not None
        found = link.publications.pop(message.id, None)
        if found is not None:
            error = remote_error(message.code, message.message, message.hint)
            error.fields["taken"] = found.taken
            self._do(ev.Reject(found.request, error))
        return found is not None

    def lost(self, link: ConnectionState) -> None:
        """No answer will come: what may be sent twice waits for the next connection, of the rest nobody knows."""
        lost, link.publications = link.publications, {}
        again = []
        for found in lost.values():
            if found.retry:
                found.sent = 0
                again.append(found)
                continue
            error = Uncertain(
                f"the connection broke before the broker answered: {found.sent} records for {found.feed!r} "
                "may have been stored or not",
                hint="publish them again with retry=True if storing them twice does no harm",
                taken=found.taken,
            )
            self._do(ev.Reject(found.request, error))
        self._waiting = again + self._waiting

    def stop(self, error: TocsinError) -> None:
        waiting, self._waiting = self._waiting, []
        for found in waiting:
            self._do(ev.Reject(found.request, error))
