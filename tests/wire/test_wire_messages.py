"""The messages of ``tocsin.v1.json``: valid ones and malformed ones."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import Malformed
from tocsin.wire import messages as wire
from tocsin.wire.messages import decode, decode_answers, encode, encode_batch, notify_template

FROM_CLIENT = [
    wire.Hello(0),
    wire.Hello(2**53 - 1, "token", "agent/1"),
    wire.Authenticate("token"),
    wire.Subscribe(1, "OfKind", ["fire"]),
    wire.Subscribe(1, "OfKind", {"kind": "fire"}, 7, 3),
    wire.Unsubscribe(1, 3),
    wire.Ack({3: 7, 4: 0}),
    wire.Hello(1, subscriber="abcdefghijklmnopqrstuv", ticket="a.b"),
    wire.MigrationFailed("a.b", "no room"),
    wire.Ping(),
    wire.Ping({"OfKind": 3}),
    wire.Pong(),
]
FROM_BROKER = [
    wire.Welcome(1, "b", 25.0, 1024),
    wire.Welcome(1, "b", 25.0, 1024, reconnect_within=0.25),
    wire.Welcome(1, "b", 25.0, 1024, "ann/phone", [wire.DurableSubscription(3, "OfKind", ["fire"], 7)]),
    wire.Subscribed(1, 3, "OfKind", 0),
    wire.Unsubscribed(1, 3),
    wire.Published(1, 2, [wire.Refused(0, "missing", "no n")]),
    wire.Error(None, "not_found", "no such channel", "look"),
    wire.Notify("OfKind", 3, 8, 1, [{"n": 1}]),
    wire.Live(3, 8),
    wire.Lagging(3, 8),
    wire.Gap(3, 8, 12, "retention"),
    wire.Ended(3, "not_found", "dropped"),
    wire.Migrate("south", "http://127.0.0.1:8483", "a.b"),
    wire.Ping({"OfKind": 8}),
    wire.Pong(),
]


@pytest.mark.parametrize("message", FROM_CLIENT, ids=lambda message: type(message).__name__)
def test_messages_of_a_client_survive_encoding_and_decoding(message):
    assert decode(encode(message)) == [message]


def test_records_keep_their_original_text():
    text = b'{"type":"publish","id":1,"feed":"F","records":[{"n": 1.50},[ ],null]}'
    (message,) = decode(text)
    assert isinstance(message, wire.Publish)
    assert [bytes(record) for record in message.records] == [b'{"n": 1.50}', b"[ ]", b"null"]
    assert json.loads(encode(message)) == json.loads(text)


@pytest.mark.parametrize("message", FROM_BROKER, ids=lambda message: type(message).__name__)
def test_messages_of_a_broker_survive_encoding_and_decoding(message):
    assert decode_answers(encode(message)) == [message]


def test_the_examples_contain_every_message():
    tried = {type(message) for message in [*FROM_CLIENT, *FROM_BROKER]} | {wire.Publish}
    assert tried == set(wire.Message.__subclasses__())


def test_default_values_are_omitted():
    assert encode(wire.Ping()) == b'{"type":"ping"}'


def test_several_messages_are_one_array():
    texts = [encode(wire.Ping()), encode(wire.Pong())]
    assert decode(encode_batch(texts)) == [wire.Ping(), wire.Pong()]


def test_a_batch_of_one_is_the_message_itself():
    assert encode_batch([b"{}"]) == b"{}"


def test_an_empty_array_has_no_messages():
    assert decode(b"[]") == []


@given(
    st.text(min_size=1),
    st.integers(1, 2**53 - 1),
    st.integers(0, 2**53 - 1),
    st.lists(st.dictionaries(st.text(), st.integers(-(2**53), 2**53))),
)
def test_a_notification_built_from_encoded_json_is_valid(channel, subscription, execution, rows):
    text = notify_template(channel) % (subscription, execution, len(rows), msgspec.json.encode(rows))
    assert decode_answers(text) == [wire.Notify(channel, subscription, execution, len(rows), rows)]


def test_unknown_fields_are_ignored():
    assert decode(b'{"type":"ping","colour":"red"}') == [wire.Ping()]


BAD = {
    "nothing": b"",
    "not JSON": b"{type:ping}",
    "half of it": b'{"type":"ping"',
    "two of them": b'{"type":"ping"}{"type":"ping"}',
    "not UTF-8": b'{"type":"hello","id":1,"agent":"\xff"}',
    "half a character": b'{"type":"hello","id":1,"agent":"\\ud800"}',
    "a number": b"7",
    "a string": b'"ping"',
    "null": b"null",
    "no type": b'{"id":1}',
    "a type that does not exist": b'{"type":"shout","id":1}',
    "a type that is a number": b'{"type":1}',
    "a message of the broker": b'{"type":"welcome","id":1}',
    "an array in an array": b'[[{"type":"ping"}]]',
    "one bad message among good ones": b'[{"type":"ping"},{"type":"shout"}]',
    "no id": b'{"type":"hello"}',
    "an id that is text": b'{"type":"hello","id":"1"}',
    "a negative id": b'{"type":"hello","id":-1}',
    "an id that JavaScript cannot hold": b'{"type":"hello","id":9007199254740992}',
    "an id that is not an integer": b'{"type":"hello","id":1.5}',
    "a long token": b'{"type":"hello","id":1,"token":"' + b"x" * 3073 + b'"}',
    "a channel without a name": b'{"type":"subscribe","id":1,"channel":""}',
    "a channel with a long name": b'{"type":"subscribe","id":1,"channel":"' + b"x" * 257 + b'"}',
    "arguments that are text": b'{"type":"subscribe","id":1,"channel":"C","args":"fire"}',
    "an execution before the first": b'{"type":"subscribe","id":1,"channel":"C","after":-1}',
    "subscription 0": b'{"type":"unsubscribe","id":1,"subscription":0}',
    "no records": b'{"type":"publish","id":1,"feed":"F","records":[]}',
    "too many records": b'{"type":"publish","id":1,"feed":"F","records":[' + b"1," * 1000 + b"1]}",
    "positions that are a list": b'{"type":"ack","positions":[1]}',
    "a subscription with a name": b'{"type":"ack","positions":{"x":1}}',
    "nested without end": b'{"type":"subscribe","id":1,"channel":"C","args":' + b"[" * 100_000,
}


@pytest.mark.parametrize("data", BAD.values(), ids=BAD)
def test_malformed_messages_are_refused(data):
    with pytest.raises(Malformed):
        decode(data)


@pytest.mark.parametrize(
    ("data", "id"),
    [
        (b'{"type":"shout","id":7}', 7),
        (b'{"type":"subscribe","id":7,"channel":""}', 7),
        (b'{"type":"hello"}', None),
        (b'{"type":"hello","id":"7"}', None),
        (b'{"type":"hello","id":-7}', None),
        (b'[{"type":"shout","id":7}]', None),
        (b'{"type":"hello","id":7', None),
    ],
)
def test_a_refusal_contains_the_request_id_if_it_is_certain(data, id):
    with pytest.raises(Malformed) as caught:
        decode(data)
    assert caught.value.fields["id"] == id


def test_a_refusal_names_the_invalid_field():
    with pytest.raises(Malformed) as caught:
        decode(b'{"type":"subscribe","id":1,"channel":7}')
    assert "$.channel" in caught.value.message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
FIELDS = sorted({name for kind in wire.Message.__subclasses__() for name in kind.__struct_fields__})
TYPES = sorted(str(kind.__struct_config__.tag) for kind in wire.Message.__subclasses__())
NEARLY = st.fixed_dictionaries(
    {"type": st.sampled_from(TYPES) | JSON}, optional=dict.fromkeys(FIELDS, JSON | st.integers(0, 5))
)


def understood(data: bytes | str) -> None:
    for read in (decode, decode_answers):
        try:
            found = read(data)
        except Malformed as error:
            assert "id" in error.fields and error.message
        else:
            assert all(isinstance(message, wire.Message) for message in found)


@given(JSON | NEARLY | st.lists(NEARLY, max_size=3))
def test_any_json_is_messages_or_malformed(value):
    understood(json.dumps(value))


@given(st.binary(max_size=100))
def test_any_bytes_are_messages_or_malformed(data):
    understood(data)


@given(st.text(max_size=50))
def test_any_text_is_messages_or_malformed(text):
    understood(text.encode(errors="surrogatepass"))


@given(st.sampled_from([*FROM_CLIENT, *FROM_BROKER]), st.data())
def test_damaged_messages_are_messages_or_malformed(message, data):
    text = bytearray(encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    understood(bytes(text))


def test_unknown_messages_of_a_broker_are_ignored():
    assert decode_answers(b'[{"type":"pong"},{"type":"sing","loud":true},{"type":"ping"}]') == [
        wire.Pong(),
        wire.Ping(),
    ]


def test_a_malformed_known_message_is_not_ignored():
    with pytest.raises(Malformed):
        decode_answers(b'[{"type":"live"},{"type":"sing"}]')
