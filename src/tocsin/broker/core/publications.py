"""Records from subscribers, gathered into one post a feed while the one before is being committed."""

from __future__ import annotations

from msgspec import Raw, Struct, field

from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.access import Access
from tocsin.broker.core.context import Context, Out
from tocsin.broker.core.events import Peer, Problem
from tocsin.broker.core.model.session import Session
from tocsin.wire.messages import Error, Message, Publish, Published, Refused

#: Records in one post: the data cluster gives at most a thousand reasons for refusing some.
MOST_RECORDS = 1_000
#: Bytes in one post: the data cluster takes at most 64 MiB.
MOST_BYTES = 16 * 1024 * 1024
#: What a record costs beside its bytes, so that tiny ones cannot fill the memory.
EACH = 100
#: Feeds that are kept of a session as those that it publishes to.
MOST_FEEDS = 64


class _Entry(Struct, frozen=True):
    peer: Peer
    id: int
    count: int
    size: int


class _Feed(Struct, eq=False):
    name: str
    busy: bool = False
    entries: list[_Entry] = field(default_factory=list)  # of the post in flight
    waiting: list[tuple[_Entry, list[Raw]]] = field(default_factory=list)


class Publications:
    """``waiting_bytes`` counts the records that were received and have no answer yet."""

    def __init__(self, context: Context, access: Access) -> None:
        self.context = context
        self.access = access
        self.waiting_bytes = 0
        self._feeds: dict[str, _Feed] = {}

    def publish(self, session: Session, request: Publish, out: Out) -> None:
        problem = self.access.refuses(session, "publish", request.feed) if self.access.known else None
        if problem is not None:
            self.context.refuse(session, request.id, problem, out)
            return
        size = sum(len(memoryview(record)) + EACH for record in request.records)
        if self.waiting_bytes + size > self.context.limits.publish_bytes:
            hint = "wait for the answers before sending more"
            message = "more records wait for the data cluster than this broker holds"
            self.context.refuse(session, request.id, Problem("busy", message, hint), out)
            return
        self.waiting_bytes += size
        feed = self._feeds.get(request.feed)
        if feed is None:
            feed = self._feeds[request.feed] = _Feed(request.feed)
        # A copy: a piece of the frame would keep the whole frame.
        records = [record.copy() for record in request.records]
        feed.waiting.append((_Entry(session.peer, request.id, len(records), size), records))
        if not feed.busy and self.access.known:
            out.append(self._next(feed))

    def granted(self, out: Out) -> None:
        """The grants are known now: what waited for them is sent or refused."""
        for feed in list(self._feeds.values()):
            allowed: list[tuple[_Entry, list[Raw]]] = []
            for entry, records in feed.waiting:
                session = self.context.sessions.get(entry.peer)
                problem = self.access.refuses(session, "publish", feed.name) if session is not None else None
                if session is not None and problem is None:
                    allowed.append((entry, records))
                    continue
                self.waiting_bytes -= entry.size
                if session is not None and problem is not None:
                    self.context.refuse(session, entry.id, problem, out)
            feed.waiting = allowed
            if allowed:
                out.append(self._next(feed))
            else:
                del self._feeds[feed.name]

    def published(self, event: ev.Published, out: Out) -> None:
        feed = self._feeds[event.feed]
        by_place = sorted(event.refused)
        answers: list[tuple[Peer, Message]] = []
        at = first = 0
        for entry in feed.entries:
            mine = []
            while first < len(by_place) and by_place[first][0] < at + entry.count:
                place, code, reason = by_place[first]
                mine.append(Refused(place - at, code, reason))
                first += 1
            answers.append((entry.peer, Published(entry.id, entry.count - len(mine), mine)))
            if len(mine) < entry.count:
                self._publishes(entry.peer, feed.name.lower())
            at += entry.count
        self.context.ledger.counters.published += at - len(event.refused)
        self._answered(feed, answers, out)

    def _publishes(self, peer: Peer, feed: str) -> None:
        """A record of the peer was taken, so that the feed exists."""
        session = self.context.sessions.get(peer)
        if session is not None and feed not in session.publishes and len(session.publishes) < MOST_FEEDS:
            session.publishes |= {feed}

    def failed(self, event: ev.PublishFailed, out: Out) -> None:
        feed, problem = self._feeds[event.feed], event.problem
        answers: list[tuple[Peer, Message]] = [
            (entry.peer, Error(entry.id, problem.code, problem.message, problem.hint)) for entry in feed.entries
        ]
        self._answered(feed, answers, out)

    def _answered(self, feed: _Feed, answers: list[tuple[Peer, Message]], out: Out) -> None:
        """The answers, and the next post of the feed."""
        for peer, message in answers:
            session = self.context.sessions.get(peer)
            if session is not None:
                self.context.send(session, message, out)
        self.waiting_bytes -= sum(entry.size for entry in feed.entries)
        feed.entries = []
        feed.busy = False
        if feed.waiting:
            out.append(self._next(feed))
        else:
            del self._feeds[feed.name]

    def _next(self, feed: _Feed) -> do.Publish:
        records: list[Raw] = []
        size = taken = 0
        for entry, some in feed.waiting:
            if records and (len(records) + len(some) > MOST_RECORDS or size + entry.size > MOST_BYTES):
                break
            records += some
            size += entry.size
            taken += 1
        feed.entries = [entry for entry, _ in feed.waiting[:taken]]
        del feed.waiting[:taken]
        feed.busy = True
        return do.Publish(feed.name, records)
