"""Messages into frames, and addresses of brokers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.client.addresses import Address, address
from tocsin.client.core.frames import frames
from tocsin.errors import UserError
from tocsin.wire.messages import Subscribe, decode, encode


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


@pytest.mark.parametrize(
    ("url", "socket", "http"),
    [
        ("http://host:1", "ws://host:1/v1/ws", "http://host:1"),
        ("https://host/", "wss://host/v1/ws", "https://host"),
        ("ws://host:1/v1/ws", "ws://host:1/v1/ws", "http://host:1"),
        ("wss://host/alarms", "wss://host/alarms/v1/ws", "https://host/alarms"),
        ("tocsin://host", "ws://host:8481/v1/ws", "http://host:8481"),
        ("tocsin://[::1]:9", "ws://[::1]:9/v1/ws", "http://[::1]:9"),
    ],
)
def test_addresses_are_taken_in_many_forms(url, socket, http):
    assert address(url) == Address(socket, http)


@pytest.mark.parametrize(
    "url", ["", "host:1", "ftp://host", "http://", "http://host:port", "http://[", "ws://a:b@host"]
)
def test_what_is_no_address_is_said_so(url):
    with pytest.raises(UserError, match="is no address of a broker"):
        address(url)
