"""Each connection receives each of its messages once and in order, framed, even if its socket accepts only a part."""

from __future__ import annotations

import socket
import weakref
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seeds import examples
from tocsin.broker.core.instructions import Send
from tocsin.broker.core.model.be_subscription import Audience
from tocsin.broker.transport.frame_writer import FrameWriter
from tocsin.wire.frames import frame


def framed(*messages: bytes) -> bytes:
    return b"".join(map(frame, messages))


class Peer:
    """A connection with a real socket, which keeps what the socket does not accept."""

    def __init__(self, writer: FrameWriter) -> None:
        self.writer = writer
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.fd = self.near.fileno()
        self.kept = b""
        self.got = b""

    def send(self, messages: tuple[bytes, ...], frames: bytes) -> None:
        self.write(frames)

    def write(self, data: bytes) -> None:
        self.kept += data
        if self.fd >= 0:
            self.fd = -1
            self.writer.changes += 1

    def read(self) -> bytes:
        """Everything that was written to the socket, and then what was kept."""
        try:
            while data := self.far.recv(1 << 20):
                self.got += data
        except BlockingIOError:
            pass
        return self.got + self.kept

    def fill(self) -> None:
        try:
            while True:
                self.near.send(b"-" * 4096)
        except BlockingIOError:
            pass

    def end(self) -> None:
        self.fd = -1
        self.writer.changes += 1
        self.near.close()
        self.far.close()


@pytest.fixture
def writer() -> FrameWriter:
    return FrameWriter()


@pytest.fixture
def peers(writer: FrameWriter) -> Iterator[Callable[[int], Audience]]:
    made: list[Peer] = []

    def make(count: int) -> Audience:
        made.extend(Peer(writer) for _ in range(count))
        return Audience(made[-count:])

    yield make
    for peer in made:
        peer.end()


def test_every_peer_of_an_audience_receives_the_same_frames(writer, peers):
    audience = peers(5)
    for data in (b"one", b"two"):
        writer.write(audience, (data,))
    assert [peer.read() for peer in audience] == [framed(b"one", b"two")] * 5
    assert not any(peer.kept for peer in audience)


@pytest.mark.parametrize("full", [0, 2, 4])
def test_a_full_socket_does_not_delay_the_other_peers(writer, peers, full):
    audience = peers(5)
    audience[full].fill()
    writer.write(audience, (b"one",))
    writer.write(audience, (b"two",))
    assert audience[full].kept == framed(b"one", b"two")
    assert [peer.read() for peer in audience if peer is not audience[full]] == [framed(b"one", b"two")] * 4


def test_a_peer_keeps_the_rest_of_a_partial_write(writer, peers):
    audience = peers(3)
    data = bytes(range(256)) * 40_000
    writer.write(audience, (data,))
    assert all(peer.kept for peer in audience)
    assert all(peer.read() == framed(data) for peer in audience)


def test_a_closed_peer_does_not_affect_the_others(writer, peers):
    audience = peers(4)
    writer.write(audience, (b"one",))
    audience[1].far.close()
    writer.write(audience, (b"two",))
    assert audience[1].kept == framed(b"two")
    assert [peer.read() for peer in (audience[0], *audience[2:])] == [framed(b"one", b"two")] * 3


def test_a_reused_file_descriptor_is_not_written_to(writer, peers):
    audience = peers(3)
    writer.write(audience, (b"one",))
    descriptor = audience[1].fd
    audience[1].end()
    stranger = peers(1)[0]
    assert descriptor in (stranger.near.fileno(), stranger.far.fileno())
    writer.write(audience, (b"two",))
    assert stranger.read() == b"" and audience[1].kept == framed(b"two")


def test_a_peer_without_a_socket_writes_by_itself(writer, peers):
    audience = peers(3)
    audience[1].fd = -1
    writer.write(audience, (b"one",))
    writer.write_together([Send(audience, (b"two",)), Send(Audience(audience[:2]), (b"three",))])
    assert [peer.read() for peer in audience] == [
        framed(b"one", b"two", b"three"),
        framed(b"one", b"two", b"three"),
        framed(b"one", b"two"),
    ]


def test_an_unused_audience_is_freed_at_once(writer, peers):
    audience = peers(3)
    writer.write(audience, (b"one",))
    left = weakref.ref(audience.way.fds)
    del audience
    assert left() is None


def test_a_burst_to_one_audience_is_one_write_per_peer(writer, peers):
    audience = peers(2)
    writer.write_together([Send(audience, (b"%d" % number,)) for number in range(10)])
    assert [peer.far.recv(100) for peer in audience] == [framed(*[b"%d" % number for number in range(10)])] * 2


def test_a_peer_in_several_audiences_receives_one_write(writer, peers):
    audience = peers(4)
    several = (audience, Audience(audience[1:]), tuple(audience[2:]))
    writer.write_together([Send(peers, (text,)) for peers, text in zip(several, (b"a", b"b", b"c"), strict=True)])
    assert [peer.far.recv(100) for peer in audience] == [
        framed(b"a"),
        framed(b"a", b"b"),
        framed(b"a", b"b", b"c"),
        framed(b"a", b"b", b"c"),
    ]


def test_peers_without_a_socket_in_several_audiences_send_once(writer, peers, monkeypatch):
    audience = peers(3)
    sent: list[tuple[int, tuple[bytes, ...], bytes]] = []
    for number, peer in enumerate(audience):
        peer.fd = -1
        monkeypatch.setattr(peer, "send", lambda texts, frames, number=number: sent.append((number, texts, frames)))
    several = (audience, Audience(audience[1:]), tuple(audience[2:]))
    writer.write_together([Send(peers, (text,)) for peers, text in zip(several, (b"a", b"b", b"c"), strict=True)])
    expected = [(b"a",), (b"a", b"b"), (b"a", b"b", b"c")]
    assert sent == [(number, texts, framed(*texts)) for number, texts in enumerate(expected)]


@given(data=st.data())
@settings(
    max_examples=examples(50),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_peer_receives_its_frames_in_order(writer, peers, data):
    everyone = peers(6)
    expected = dict.fromkeys(everyone, b"")
    several = st.lists(st.sampled_from(everyone), min_size=1, unique=True)
    audiences = [Audience(data.draw(several)) for _ in range(3)]
    for number in range(data.draw(st.integers(1, 12))):
        chosen = data.draw(st.lists(st.sampled_from(audiences), min_size=1, max_size=4))
        messages = [
            b"%d.%d;" % (number, place) * data.draw(st.sampled_from([1, 60_000])) for place in range(len(chosen))
        ]
        if len(chosen) == 1:
            writer.write(chosen[0], (messages[0],))
        else:
            writer.write_together([Send(peers, (text,)) for peers, text in zip(chosen, messages, strict=True)])
        for audience, text in zip(chosen, messages, strict=True):
            for peer in audience:
                expected[peer] += framed(text)
    assert {peer: peer.read() == expected[peer] for peer in everyone} == dict.fromkeys(everyone, True)
