"""Messages to sockets: framed once, and written by file descriptor, without a step of Python for each connection.

After some writes little is left in the processor's caches: a message to few is cheap by what is not touched for it.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from itertools import groupby, repeat
from typing import Any

from tocsin.broker.core.instructions import Send
from tocsin.broker.core.model.be_subscription import Audience
from tocsin.wire.frames import frame

#: Where more than this share of the frames is the only one for its connection, gathering costs more than it saves.
APART = 0.9


class Way:
    """To an audience, which it does not hold: a reference cycle would stay for long. ``fds`` are the sockets of the
    peers that have one; ``others`` have data waiting, or no socket at all."""

    __slots__ = ("_some", "changes", "fds", "others")

    def __init__(self, peers: Sequence[Any], changes: int) -> None:
        self.changes = changes
        self.fds = array("i", [peer.fd for peer in peers])
        self.others: Sequence[Any] = ()
        self._some: Sequence[Any] | None = None
        if self.fds and min(self.fds) < 0:
            self._some = [peer for peer in peers if peer.fd >= 0]
            self.fds = array("i", [peer.fd for peer in self._some])
            self.others = [peer for peer in peers if peer.fd < 0]

    def direct(self, peers: Sequence[Any]) -> Sequence[Any]:
        """Whose the sockets are."""
        return peers if self._some is None else self._some


class FrameWriter:
    """``changes`` counts how often the socket of any connection changed. A way is known until then and no longer: a
    number may soon be that of another connection."""

    def __init__(self) -> None:
        self.changes = 0

    def way(self, peers: Sequence[Any]) -> Way:
        if type(peers) is not Audience:
            return Way(peers, self.changes)
        way: Way | None = peers.way
        if way is None or way.changes != self.changes:
            way = peers.way = Way(peers, self.changes)
        return way

    def write(self, peers: Sequence[Any], messages: tuple[bytes, ...]) -> None:
        """The same to all of them."""
        data = frame(messages[0]) if len(messages) == 1 else b"".join(map(frame, messages))
        if len(peers) == 1:
            self.one_by_one(peers, messages, data)
            return
        way = self.way(peers)
        written: list[int] = []
        try:
            written.extend(map(os.write, way.fds, repeat(data)))
        except OSError:  # what was written before it is in the list
            self._finish(way.direct(peers), written, messages, data)
        else:
            if written.count(len(data)) != len(written):
                self._finish(way.direct(peers), written, messages, data)
        for peer in way.others:
            peer.send(messages, data)

    def _finish(self, peers: Sequence[Any], written: Sequence[int], messages: tuple[bytes, ...], data: bytes) -> None:
        """The rest for those that took a part, and all for those after one that took nothing."""
        for peer, count in zip(peers, written, strict=False):
            if count != len(data):
                peer.write(data[count:])
        self.one_by_one(peers[len(written) :], messages, data)

    @staticmethod
    def one_by_one(peers: Iterable[Any], messages: tuple[bytes, ...], data: bytes) -> None:
        """One that takes no more, or has no socket, sends by itself."""
        write, size = os.write, len(data)
        for peer in peers:
            try:
                written = write(peer.fd, data)
            except OSError:
                peer.send(messages, data)
            else:
                if written != size:
                    peer.write(data[written:])

    def write_together(self, sends: Sequence[Send]) -> None:
        """One write a connection. A write costs far more than everything else here."""
        first: Sequence[Any] = sends[0].peers
        if all(send.peers is first for send in sends):
            # A burst to one audience: even joining is done once.
            self.write(first, tuple(message for send in sends for message in send.messages))
            return
        sends = [_joined(list(run)) for _, run in groupby(sends, key=lambda send: id(send.peers))]
        ways = [self.way(send.peers) for send in sends]
        if len(set().union(*[way.fds for way in ways])) > sum([len(way.fds) for way in ways]) * APART:
            for send in sends:
                self.write(send.peers, send.messages)
            return
        framed = [b"".join(map(frame, send.messages)) for send in sends]
        gathered: dict[int, list[bytes]] = {}
        for way, data in zip(ways, framed, strict=True):
            for fd in way.fds:
                found = gathered.get(fd)
                if found is None:
                    gathered[fd] = [data]
                else:
                    found.append(data)
        write = os.write
        owners: dict[int, Any] = {}
        for fd, frames in gathered.items():
            data = frames[0] if len(frames) == 1 else b"".join(frames)
            try:
                written = write(fd, data)
            except OSError:
                written = 0
            if written != len(data):
                owners = owners or {
                    fd: peer
                    for way, send in zip(ways, sends, strict=True)
                    for fd, peer in zip(way.fds, way.direct(send.peers), strict=True)
                }
                owners[fd].write(data[written:])
        self._send_together(ways, sends, framed)

    @staticmethod
    def _send_together(ways: Sequence[Way], sends: Sequence[Send], framed: Sequence[bytes]) -> None:
        """To those without a socket of their own, such as connections with TLS: one record for all messages."""
        gathered: dict[Any, list[tuple[tuple[bytes, ...], bytes]]] = {}
        for way, send, data in zip(ways, sends, framed, strict=True):
            for peer in way.others:
                gathered.setdefault(peer, []).append((send.messages, data))
        for peer, found in gathered.items():
            messages = tuple(message for some, _ in found for message in some)
            peer.send(messages, b"".join([data for _, data in found]))


def _joined(sends: Sequence[Send]) -> Send:
    """Those that go one after the other to the same audience."""
    if len(sends) == 1:
        return sends[0]
    return Send(sends[0].peers, tuple([message for send in sends for message in send.messages]))
