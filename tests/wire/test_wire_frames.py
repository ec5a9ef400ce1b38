"""The frames of RFC 6455, against its rules and against the ``websockets`` library."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from tocsin.wire.frames import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    FrameDecoder,
    FrameError,
    close_frame,
    frame,
    payloads,
    unmask,
)

LIMIT = 100_000
MASK = b"\x01\x80\xff\x5a"


def masked(
    payload: bytes, opcode: int = TEXT, *, final: bool = True, mask: bytes = MASK, wide: int = 0, bits: int = 0
) -> bytes:
    """A client's frame; ``wide``: bytes of the length, if it is not in its shortest form."""
    size = len(payload)
    first = (0x80 if final else 0) | bits | opcode
    wide = wide or (0 if size < 126 else 2 if size < 65_536 else 8)
    head = {0: bytes((0x80 | min(size, 125),)), 2: b"\xfe", 8: b"\xff"}[wide]
    return bytes((first,)) + head + (size.to_bytes(wide, "big") if wide else b"") + mask + unmask(payload, mask)


def decoded(*pieces: bytes, limit: int = LIMIT) -> list[tuple[int, bytes]]:
    decoder = FrameDecoder(limit)
    return [found for piece in pieces for found in decoder.feed(piece)]


def outcome(*pieces: bytes, limit: int = LIMIT) -> tuple[list[tuple[int, bytes]], int | None]:
    """The decoded messages, and the close code of the error at their end."""
    decoder, found = FrameDecoder(limit), []
    try:
        for piece in pieces:
            for each in decoder.feed(piece):
                found.append(each)  # noqa: PERF402 - messages before an error count
    except FrameError as error:
        return found, error.close.code
    return found, None


def refused(*pieces: bytes, limit: int = LIMIT) -> int:
    with pytest.raises(FrameError) as caught:
        decoded(*pieces, limit=limit)
    return caught.value.close.code


# -- lengths -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 3, 4, 5, 125, 126, 127, 65_535, 65_536, 70_001])
def test_every_form_of_a_length_is_read(size):
    payload = bytes(range(256)) * (size // 256 + 1)
    assert decoded(masked(payload[:size])) == [(TEXT, payload[:size])]


@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_every_form_of_a_length_is_written(size):
    made = frame(b"x" * size)
    assert len(made) - size == (2 if size < 126 else 4 if size < 65_536 else 10)
    assert payloads(made) == [(TEXT, b"x" * size)]


@pytest.mark.parametrize("wide", [2, 8])
def test_a_length_in_a_longer_form_than_needed_is_accepted(wide):
    assert decoded(masked(b"hello", wide=wide)) == [(TEXT, b"hello")]


def test_consecutive_frames_are_separated():
    made = frame(b"one") + frame(b"", PONG) + frame(b"x" * 300)
    assert payloads(made) == [(TEXT, b"one"), (PONG, b""), (TEXT, b"x" * 300)]


# -- masks -------------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=300), st.binary(min_size=4, max_size=4))
def test_any_mask_is_removed(payload, mask):
    assert decoded(masked(payload, mask=mask)) == [(TEXT, payload)]


@given(st.binary(max_size=50), st.binary(min_size=4, max_size=4))
def test_a_mask_is_its_own_inverse(data, mask):
    assert unmask(unmask(data, mask), mask) == data


def test_a_frame_without_a_mask_is_refused():
    assert refused(frame(b"hello")) == 1002


# -- fragmented messages -----------------------------------------------------------------------------------------------


def test_the_fragments_of_a_message_are_joined():
    pieces = masked(b"a", final=False), masked(b"b", CONTINUATION, final=False), masked(b"c", CONTINUATION)
    assert decoded(*pieces) == [(TEXT, b"abc")]


def test_a_fragmented_binary_message_stays_binary():
    assert decoded(masked(b"a", BINARY, final=False), masked(b"b", CONTINUATION)) == [(BINARY, b"ab")]


def test_fragments_may_be_empty():
    pieces = masked(b"", final=False), masked(b"", CONTINUATION, final=False), masked(b"", CONTINUATION)
    assert decoded(*pieces) == [(TEXT, b"")]


def test_control_frames_between_fragments_are_decoded_at_once():
    pieces = masked(b"a", final=False), masked(b"!", PING), masked(b"", PONG), masked(b"b", CONTINUATION)
    assert decoded(*pieces) == [(PING, b"!"), (PONG, b""), (TEXT, b"ab")]


def test_a_new_message_may_follow_a_fragmented_one():
    assert decoded(masked(b"a", final=False), masked(b"b", CONTINUATION), masked(b"c")) == [(TEXT, b"ab"), (TEXT, b"c")]


def test_a_continuation_without_a_message_is_refused():
    assert refused(masked(b"a", CONTINUATION)) == 1002


def test_a_message_inside_another_is_refused():
    assert refused(masked(b"a", final=False), masked(b"b")) == 1002


def test_a_message_in_thousands_of_empty_fragments_is_refused():
    pieces = [masked(b"", CONTINUATION, final=False)] * 1100
    assert refused(masked(b"", final=False), *pieces) == 1009


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_message_of_exactly_the_limit_is_accepted():
    assert decoded(masked(b"x" * 200), limit=200) == [(TEXT, b"x" * 200)]


def test_a_message_over_the_limit_is_refused_before_it_has_arrived():
    assert refused(masked(b"x" * 201)[:4], limit=200) == 1009


def test_a_length_of_many_exabytes_is_refused_at_once():
    assert refused(b"\x81\xff" + b"\xff" * 8) == 1009


def test_fragments_count_together_towards_the_limit():
    pieces = masked(b"x" * 150, final=False), masked(b"x" * 51, CONTINUATION)
    assert refused(*pieces, limit=200) == 1009


def test_the_limit_applies_to_each_message():
    assert decoded(masked(b"x" * 200), masked(b"y" * 200), limit=200) == [(TEXT, b"x" * 200), (TEXT, b"y" * 200)]


def test_a_ping_inside_a_message_does_not_count_towards_its_limit():
    pieces = masked(b"x" * 200, final=False), masked(b"!" * 100, PING), masked(b"", CONTINUATION)
    assert decoded(*pieces, limit=200) == [(PING, b"!" * 100), (TEXT, b"x" * 200)]


# -- bits and opcodes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [0x40, 0x20, 0x10, 0x70])
def test_reserved_bits_are_refused(bits):
    assert refused(masked(b"a", bits=bits)) == 1002


@pytest.mark.parametrize("opcode", [3, 4, 5, 6, 7, 11, 12, 13, 14, 15])
def test_opcodes_that_do_not_exist_are_refused(opcode):
    assert refused(masked(b"", opcode)) == 1002


@pytest.mark.parametrize("opcode", [CLOSE, PING, PONG])
def test_fragmented_control_frames_are_refused(opcode):
    assert refused(masked(b"", opcode, final=False)) == 1002


@pytest.mark.parametrize("opcode", [PING, PONG])
def test_control_frames_have_at_most_125_bytes(opcode):
    assert decoded(masked(b"x" * 125, opcode)) == [(opcode, b"x" * 125)]
    assert refused(masked(b"x" * 126, opcode)) == 1002


# -- close frames ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1000, 1001, 1011, 1014, 3000, 4000, 4999])
def test_codes_that_may_be_sent_are_accepted(code):
    payload = code.to_bytes(2, "big") + "tschüß".encode()
    assert decoded(masked(payload, CLOSE)) == [(CLOSE, payload)]


def test_a_close_frame_may_be_empty():
    assert decoded(masked(b"", CLOSE)) == [(CLOSE, b"")]


@pytest.mark.parametrize("code", [0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65_535])
def test_codes_that_may_not_be_sent_are_refused(code):
    assert refused(masked(code.to_bytes(2, "big"), CLOSE)) == 1002


def test_half_a_code_is_refused():
    assert refused(masked(b"\x03", CLOSE)) == 1002


def test_a_reason_that_is_not_utf8_is_refused():
    assert refused(masked(b"\x03\xe8\xff", CLOSE)) == 1007


@given(st.integers(1000, 4999), st.text())
def test_a_long_reason_is_cut_to_the_size_of_a_control_frame_and_stays_utf8(code, reason):
    ((opcode, payload),) = payloads(close_frame(code, reason))
    assert opcode == CLOSE and len(payload) <= 125
    assert payload[:2] == code.to_bytes(2, "big") and reason.startswith(payload[2:].decode())


# -- any fragmentation -------------------------------------------------------------------------------------------------

CONTROL = st.tuples(st.sampled_from([PING, PONG]), st.binary(max_size=125))
MESSAGE = st.tuples(st.sampled_from([TEXT, BINARY]), st.lists(st.binary(max_size=200), min_size=1, max_size=4))


@st.composite
def conversations(draw):
    """(valid bytes of a client, the messages in them)."""
    data, meaning = b"", []
    for _ in range(draw(st.integers(0, 4))):
        opcode, pieces = draw(MESSAGE)
        for place, piece in enumerate(pieces):
            last = place == len(pieces) - 1
            data += masked(
                piece, CONTINUATION if place else opcode, final=last, mask=draw(st.binary(min_size=4, max_size=4))
            )
            if last:
                meaning.append((opcode, b"".join(pieces)))
            elif draw(st.booleans()):
                kind, payload = draw(CONTROL)
                data += masked(payload, kind)
                meaning.append((kind, payload))
    return data, meaning


@given(conversations())
def test_valid_conversations_are_decoded(conversation):
    data, meaning = conversation
    assert decoded(data) == meaning


@given(conversations(), st.data())
def test_the_decoded_messages_do_not_depend_on_the_fragmentation(conversation, data):
    sent, meaning = conversation
    cuts = sorted(data.draw(st.lists(st.integers(0, len(sent)), max_size=10)))
    pieces = [sent[a:b] for a, b in zip([0, *cuts], [*cuts, len(sent)], strict=True)]
    assert decoded(*pieces) == meaning


@given(conversations(), st.binary(max_size=20))
def test_decoding_byte_by_byte_gives_the_same_messages_and_error(conversation, rest):
    data = conversation[0] + rest
    assert outcome(*[data[at : at + 1] for at in range(len(data))], limit=500) == outcome(data, limit=500)


@given(st.lists(st.binary(max_size=40), max_size=10))
def test_random_bytes_raise_only_frame_errors(pieces):
    assert outcome(*pieces, limit=64)[1] in (None, 1002, 1007, 1009)


@given(st.binary(max_size=60), st.sampled_from([CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG]), st.binary(max_size=40))
def test_damaged_frames_raise_only_frame_errors(payload, opcode, noise):
    data = bytearray(masked(payload, opcode) * 2)
    for place, byte in enumerate(noise):
        data[(place * 7) % len(data)] ^= byte
    assert outcome(bytes(data), limit=64)[1] in (None, 1002, 1007, 1009)


def test_the_decoder_keeps_nothing_of_complete_frames():
    decoder = FrameDecoder(LIMIT)
    list(decoder.feed(masked(b"x" * 1000)))
    assert decoder._buffer == b"" and decoder._parts is None


# -- against the websockets library ------------------------------------------------------------------------------------


def client() -> Protocol:
    return Protocol(Side.CLIENT, state=State.OPEN, max_size=None)


@given(st.lists(st.text(max_size=300), max_size=5))
def test_messages_of_the_librarys_client_are_decoded(texts):
    protocol = client()
    for text in texts:
        protocol.send_text(text.encode())
        protocol.send_ping(text.encode()[:5])
    sent = b"".join(protocol.data_to_send())
    assert decoded(sent) == [found for text in texts for found in ((TEXT, text.encode()), (PING, text.encode()[:5]))]


@given(st.lists(st.binary(max_size=50), min_size=2, max_size=5))
def test_fragmented_messages_of_the_librarys_client_are_decoded(pieces):
    protocol = client()
    protocol.send_binary(pieces[0], fin=False)
    for piece in pieces[1:-1]:
        protocol.send_continuation(piece, fin=False)
    protocol.send_continuation(pieces[-1], fin=True)
    assert decoded(*protocol.data_to_send()) == [(BINARY, b"".join(pieces))]


@given(st.lists(st.tuples(st.sampled_from([TEXT, BINARY, PONG]), st.binary(max_size=125)), max_size=5))
def test_the_librarys_client_decodes_our_frames(frames):
    protocol = client()
    protocol.receive_data(b"".join(frame(payload, opcode) for opcode, payload in frames))
    found = [event for event in protocol.events_received() if isinstance(event, Frame)]
    assert [(event.opcode, bytes(event.data)) for event in found] == [(Opcode(op), data) for op, data in frames]


@pytest.mark.parametrize("size", [126, 65_535, 65_536, 100_000])
def test_the_librarys_client_decodes_our_large_frames(size):
    protocol = client()
    protocol.receive_data(frame(b"x" * size))
    (found,) = protocol.events_received()
    assert isinstance(found, Frame) and bytes(found.data) == b"x" * size


@given(st.sampled_from([1000, 1001, 1011, 4000, 4102]), st.text(max_size=200))
def test_the_librarys_client_decodes_our_close_frame(code, reason):
    protocol = client()
    protocol.receive_data(close_frame(code, reason))
    assert protocol.close_rcvd is not None and protocol.close_rcvd.code == code
    assert reason.startswith(protocol.close_rcvd.reason)


@given(st.binary(max_size=30))
def test_decoder_and_library_accept_the_same_frames(data):
    """Only single frames: the library checks less of their context."""
    sent = data[:1] + bytes((0x80 | min(len(data[1:]), 60),)) + MASK + data[1:]
    reference = Protocol(Side.SERVER, state=State.OPEN, max_size=None)
    reference.receive_data(sent)
    assert (outcome(sent)[1] is None) == (reference.parser_exc is None)
