"""Publications without an answer. Pure; part of the client's state machine."""

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

#: Bytes of a message without its records and the feed's name, which takes up to six for each character.
ENVELOPE = 100


class Publication(Struct, eq=False):
    """Sent in parts: ``done`` records have been answered, ``sent`` more wait for their answer."""

    request: int
    feed: str
    records: list[bytes]
    retry: bool
    done: int = 0
    sent: int = 0
    accepted: int = 0
    refused: list[wire.Refused] = field(default_factory=list)

    def part(self, limit: int) -> list[bytes]:
        """The next records that go into one frame; none if a single one is too large."""
        room = limit - ENVELOPE - 6 * len(self.feed)
        part: list[bytes] = []
        for record in self.records[self.done : self.done + wire.MOST_RECORDS]:
            room -= len(record) + 1
            if room < 0:
                break
            part.append(record)
        return part


class Publications:
    """Each connection keeps the publications that were sent on it; here are those that wait for a connection."""

    def __init__(self, do: Callable[[ev.Instruction], None], ids: Iterator[int]) -> None:
        self._do, self._ids = do, ids
        self._waiting: list[Publication] = []

    def publish(self, event: ev.PublishRequested, connection: ConnectionState | None) -> None:
        """``connection`` is None while there is no connection."""
        found = Publication(event.request, event.feed, event.records, event.retry)
        if not found.records:
            self._do(ev.Resolve(found.request, Receipt(0, [])))
        else:
            self._send_part(found, connection)

    def start(self, connection: ConnectionState) -> None:
        """Sends what has waited for a connection."""
        waiting, self._waiting = self._waiting, []
        for found in waiting:
            self._send_part(found, connection)

    def _send_part(self, found: Publication, connection: ConnectionState | None) -> None:
        if connection is None:
            self._waiting.append(found)
            return
        part = found.part(connection.frame_bytes)
        if not part:
            error = LimitExceeded(
                f"record {found.done + 1} is larger than the broker accepts ({connection.frame_bytes:,} bytes)",
                limit="frame_bytes",
                index=found.done,
                accepted=found.accepted,
            )
            self._do(ev.Reject(found.request, error))
            return
        found.sent = len(part)
        id = next(self._ids)
        connection.publications[id] = found
        connection.send(wire.Publish(id, found.feed, [Raw(record) for record in part]))

    def cancel(self, request: int, connections: list[ConnectionState]) -> None:
        self._waiting = [found for found in self._waiting if found.request != request]
        for found in [found for connection in connections for found in connection.publications.values()]:
            if found.request == request:
                found.retry = False
                del found.records[found.done + found.sent :]

    def published(
        self, message: wire.Published, connection: ConnectionState, following: ConnectionState | None
    ) -> None:
        """``following`` is the connection for the next part."""
        found = connection.publications.pop(message.id, None)
        if found is None:
            return
        found.accepted += message.accepted
        for each in message.refused:
            found.refused.append(wire.Refused(each.index + found.done, each.code, each.reason))
        found.done += found.sent
        found.sent = 0
        if found.done < len(found.records):
            self._send_part(found, following)
        else:
            self._do(ev.Resolve(found.request, Receipt(found.accepted, found.refused)))

    def refused(self, message: wire.Error, connection: ConnectionState) -> bool:
        assert message.id is not None
        found = connection.publications.pop(message.id, None)
        if found is not None:
            error = remote_error(message.code, message.message, message.hint)
            error.fields["accepted"] = found.accepted
            self._do(ev.Reject(found.request, error))
        return found is not None

    def lost(self, connection: ConnectionState) -> None:
        """No answer will come: what may be sent twice waits for the next connection, the rest is uncertain."""
        lost, connection.publications = connection.publications, {}
        again = []
        for found in lost.values():
            if found.retry:
                found.sent = 0
                again.append(found)
                continue
            error = Uncertain(
                f"the connection broke before the broker answered: {found.sent} records for {found.feed!r} "
                "may or may not have been stored",
                hint="publish them again with retry=True if storing them twice does no harm",
                accepted=found.accepted,
            )
            self._do(ev.Reject(found.request, error))
        self._waiting = again + self._waiting

    def stop(self, error: TocsinError) -> None:
        waiting, self._waiting = self._waiting, []
        for found in waiting:
            self._do(ev.Reject(found.request, error))
