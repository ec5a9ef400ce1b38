"""The messages between brokers of an overlay: what is malformed is refused, and a publication keeps its text."""

from __future__ import annotations

import json

import msgspec
import pytest

from tocsin.errors import Malformed
from tocsin.wire import links as wire

FRAME = {"type": "link_frame", "session": [1, 2], "peer": [3, 4], "acknowledged": 5}
A = {"name": "a", "type": "int"}
ADVERTISE = {"type": "link_advertise", "id": "ab", "feed": "F", "attributes": [A], "condition": "TRUE"}


def test_a_publication_keeps_the_text_of_its_publisher():
    text = b'{"a": 1.50,  "b":[ ]}'
    message = wire.LinkFrame((1, 2), (3, 4), 5, 6, wire.LinkPublication(("b", 1, 2), "F#0", msgspec.Raw(text)))
    found = wire.decode_link(wire.encode_link(message))
    assert isinstance(found, wire.LinkFrame) and isinstance(found.body, wire.LinkPublication)
    assert bytes(found.body.values) == text


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[" * 200_000,
        b"null",
        b"[]",
        b'{"type":"zap"}',
        b'{"session":[1,2]}',
        json.dumps(FRAME | {"session": [1]}).encode(),
        json.dumps(FRAME | {"session": [-1, 2]}).encode(),
        json.dumps(FRAME | {"acknowledged": 1 << 60}).encode(),
        json.dumps(FRAME | {"number": 1, "body": {"type": "link_hello", "session": [1, 2]}}).encode(),
        json.dumps(FRAME | {"number": 1, "body": {"type": "zap"}}).encode(),
        json.dumps(FRAME | {"number": 1, "body": {"type": "link_unsubscribe", "id": "z"}}).encode(),
        json.dumps(FRAME | {"number": 1, "body": {"type": "link_unsubscribe", "id": "a" * 25}}).encode(),
        json.dumps(FRAME | {"number": 1, "body": ADVERTISE | {"condition": "a" * 70_000}}).encode(),
        json.dumps(FRAME | {"number": 1, "body": ADVERTISE | {"attributes": [{"name": "", "type": "int"}]}}).encode(),
        json.dumps(FRAME | {"number": 1, "body": ADVERTISE | {"attributes": [A] * 10_001}}).encode(),
        json.dumps({"type": "link_hello", "session": [1, 2], "brokers": {"": 1}}).encode(),
    ],
    ids=range(19),
)
def test_what_is_not_a_message_of_a_link_is_malformed(bad):
    with pytest.raises(Malformed):
        wire.decode_link(bad)
