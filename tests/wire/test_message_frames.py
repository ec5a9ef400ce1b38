"""Messages into frames that the broker accepts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.wire.messages import Subscribe, decode, encode, frames

PRINTABLE = st.characters(exclude_categories=["C", "Z"])


@given(
    st.lists(st.text(PRINTABLE, min_size=1, max_size=60), max_size=15),
    st.integers(50, 400),
)
def test_frames_contain_all_messages_in_order_within_the_size_limit(names, limit):
    messages = [Subscribe(number, name) for number, name in enumerate(names)]
    made = list(frames(messages, limit))
    assert [message for frame in made for message in decode(frame)] == messages
    largest = max((len(encode(message)) for message in messages), default=0)
    assert all(len(frame) <= max(limit, largest) for frame in made)


def test_messages_that_fit_into_one_frame_are_sent_in_one_frame():
    messages = [Subscribe(1, "C"), Subscribe(2, "D")]
    whole = sum(len(encode(message)) + 1 for message in messages) + 1
    assert len(list(frames(messages, whole))) == 1
    assert len(list(frames(messages, whole - 1))) == 2
