"""Messages into frames that the broker accepts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.wire.messages import Subscribe, decode, encode, frames


@given(
    st.lists(st.text(min_size=1, max_size=200).filter(lambda text: text.isprintable()), max_size=30),
    st.integers(50, 900),
)
def test_frames_hold_everything_in_order_and_none_is_too_large(names, limit):
    messages = [Subscribe(number, name) for number, name in enumerate(names)]
    made = list(frames(messages, limit))
    assert [message for frame in made for message in decode(frame)] == messages
    largest = max((len(encode(message)) for message in messages), default=0)
    assert all(len(frame) <= max(limit, largest) for frame in made)


def test_what_fits_into_one_frame_is_one_frame():
    messages = [Subscribe(1, "C"), Subscribe(2, "D")]
    whole = sum(len(encode(message)) + 1 for message in messages) + 1
    assert len(list(frames(messages, whole))) == 1
    assert len(list(frames(messages, whole - 1))) == 2
