"""Records from subscribers, gathered into one post a feed while the one before is being committed."""

from __future__ import annotations

from msgspec import Raw, Struct, field

from tocsin.broker.core.events import Peer, Problem
from tocsin.broker.core.instructions import Commit
from tocsin.wire.messages import Error, Message, Publish, Published, Refused

#: Records in one post: the data cluster gives at most a thousand reasons for refusing some.
MOST_RECORDS = 1_000
#: Bytes in one post: the data cluster takes at most 64 MiB.
MOST_BYTES = 16 * 1024 * 1024
#: What a record costs beside its bytes, so that tiny ones cannot fill the memory.
EACH = 100


class _Entry(Struct, frozen=True):
    peer: Peer
    id: int
    count: int
    size: int


class _Feed(Struct, eq=False):
    name: str
    busy: bool = False
    entries: list[_Entry] = field(default_factory=list)  # of the post under way
    waiting: list[tuple[_Entry, list[Raw]]] = field(default_factory=list)


class Publishing:
    """``waiting_bytes`` counts what was taken from subscribers and has no answer yet."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.waiting_bytes = 0
        self.records = 0
        self._feeds: dict[str, _Feed] = {}

    def take(self, peer: Peer, request: Publish) -> Commit | Error | None:
        size = sum(len(memoryview(record)) + EACH for record in request.records)
        if self.waiting_bytes + size > self.most_bytes:
            hint = "wait for the answers before sending more"
            return Error(request.id, "busy", "more records wait for the data cluster than this broker holds", hint)
        self.waiting_bytes += size
        feed = self._feeds.get(request.feed)
        if feed is None:
            feed = self._feeds[request.feed] = _Feed(request.feed)
        # A copy: a piece of the frame would keep the whole frame.
        records = [record.copy() for record in request.records]
        feed.waiting.append((_Entry(peer, request.id, len(records), size), records))
        return None if feed.busy else self._next(feed)

    def published(self, name: str, refused: list[tuple[int, str, str]]) -> tuple[list[tuple[Peer, Message]], int]:
        """The answers, and how many records were taken."""
        feed = self._feeds[name]
        answers: list[tuple[Peer, Message]] = []
        by_place = sorted(refused)
        at = first = 0
        for entry in feed.entries:
            mine = []
            while first < len(by_place) and by_place[first][0] < at + entry.count:
                place, code, reason = by_place[first]
                mine.append(Refused(place - at, code, reason))
                first += 1
            answers.append((entry.peer, Published(entry.id, entry.count - len(mine), mine)))
            at += entry.count
        self.records += at - len(refused)
        self._done(feed)
        return answers, at - len(refused)

    def failed(self, name: str, problem: Problem) -> list[tuple[Peer, Message]]:
        feed = self._feeds[name]
        answers: list[tuple[Peer, Message]] = [
            (entry.peer, Error(entry.id, problem.code, problem.message, problem.hint)) for entry in feed.entries
        ]
        self._done(feed)
        return answers

    def following(self, name: str) -> Commit | None:
        """The next post of a feed whose last one has been answered."""
        feed = self._feeds[name]
        if feed.waiting:
            return self._next(feed)
        del self._feeds[name]
        return None

    def _next(self, feed: _Feed) -> Commit:
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
        return Commit(feed.name, records)

    def _done(self, feed: _Feed) -> None:
        self.waiting_bytes -= sum(entry.size for entry in feed.entries)
        feed.entries = []
        feed.busy = False
