"""Messages of the overlay as bytes: all come back as they were, and no bytes do harm."""

from __future__ import annotations

import contextlib
from decimal import Decimal

import msgspec
import pytest
from content_strategies import ATTRIBUTES, conditions
from hypothesis import given, settings
from hypothesis import strategies as st
from overlays import condition

from tocsin.content import Advertisement, Attribute, Attributes, Condition
from tocsin.content.language.domains import domain_of
from tocsin.errors import Malformed
from tocsin.overlay.content import messages as ms
from tocsin.overlay.content.codec import Codec
from tocsin.overlay.content.routing.space import space_name
from tocsin.wire import links as wire

ONE, OTHER = ms.Session(1, 2), ms.Session(3, 4)
SPACE = space_name("feed", condition("a > 1").attributes)
BODIES: list[ms.Body] = [
    ms.Publication(ms.PublicationId("b", 1, 2), SPACE, {"a": 1}),
    ms.Unadvertise(1 << 95),
    ms.Unsubscribe(0),
    ms.Records((ms.Record("b", 1, 2, (("c", 3),), "edge", True, "http://127.0.0.1:1"), ms.Record("c", 1, 1))),
    ms.Summary((1 << 96) - 1, {"b": (1, 2)}),
    ms.Inquiry(),
    ms.Inventory(frozenset({1, 2}), frozenset({3})),
    ms.Missed("overflow"),
]
CARRIERS: list[ms.Message] = [
    ms.Hello(ONE, None, {"b": -1, "c": 4}),
    ms.Hello(ONE, OTHER, {"b": 1}, 7, 8),
    ms.Refusal(ONE, "cycle", "no", "leave it out"),
    ms.Reset(ONE),
    ms.Goodbye(OTHER),
    ms.Frame(ONE, OTHER, 3),
]


def there_and_back(body: ms.Body) -> ms.Body:
    found = Codec().decode(Codec().encode(ms.Frame(ONE, OTHER, 3, 4, body)))
    assert isinstance(found, ms.Frame) and (found.session, found.peer) == (ONE, OTHER)
    assert (found.acknowledged, found.number) == (3, 4) and found.body is not None
    return found.body


@pytest.mark.parametrize("message", CARRIERS, ids=lambda each: type(each).__name__)
def test_carriers_come_back_as_they_were(message):
    assert msgspec.structs.asdict(Codec().decode(Codec().encode(message))) == msgspec.structs.asdict(message)


@pytest.mark.parametrize("body", BODIES, ids=lambda each: type(each).__name__)
def test_bodies_come_back_as_they_were(body):
    found = msgspec.structs.asdict(there_and_back(body))
    found.pop("data", None)
    expected = msgspec.structs.asdict(body)
    expected.pop("data", None)
    assert found == expected


@settings(max_examples=60)
@given(conditions())
def test_any_condition_comes_back_in_its_space(what):
    space = space_name("feed", ATTRIBUTES)
    found = there_and_back(ms.Subscribe(5, space, what))
    assert isinstance(found, ms.Subscribe) and found.space == space and found.condition.key == what.key
    advertised = there_and_back(ms.Advertise(5, space, Advertisement(what)))
    assert isinstance(advertised, ms.Advertise) and advertised.advertisement.key == Advertisement(what).key


@pytest.mark.parametrize("fields", [20, 4_000])
def test_attributes_of_any_type_come_back(fields):
    """A type of up to 64 K characters, which is what the data cluster accepts."""
    type_name = f"struct<{','.join(f'f{number:04}:string' for number in range(fields))}>"
    attributes = Attributes([Attribute("a" * 256, domain_of(type_name)), Attribute("b", domain_of("int"))])
    space = space_name("feed", attributes)
    found = there_and_back(ms.Advertise(5, space, Advertisement(Condition.of_sql("b = 1", attributes))))
    assert isinstance(found, ms.Advertise) and found.space == space


@pytest.mark.parametrize(
    "text",
    [
        "d IN (" + ",".join(["1e15"] * 1_000) + ")",
        "[s,eq,'" + "x" * 65_000 + "']",
        "s = '" + "x" * 65_000 + "'",
        " OR ".join(["t = '2024-01-01'"] * 64),
    ],
    ids=["doubles", "padres", "text", "times"],
)
def test_what_a_subscriber_may_ask_for_can_be_sent(text):
    types = {"s": "string", "d": "double", "t": "timestamp"}
    attributes = Attributes(Attribute(name, domain_of(type_name)) for name, type_name in types.items())
    what = Condition.parse(text, attributes)
    assert there_and_back(ms.Subscribe(5, space_name("feed", attributes), what)).condition.key == what.key


def test_conditions_of_one_space_share_its_attributes():
    codec = Codec()
    asked = [ms.Frame(ONE, OTHER, 0, 1, ms.Subscribe(5, SPACE, condition(text))) for text in ("a > 1", "a > 2")]
    one, other = (codec.decode(codec.encode(each)).body.condition for each in asked)
    assert one.attributes is other.attributes


def test_a_publication_is_not_encoded_again():
    text = b'{"a": 1,  "b" : 2}'
    found = there_and_back(ms.Publication(ms.PublicationId("b", 1, 2), SPACE, {"a": 1, "b": 2}, text))
    assert isinstance(found, ms.Publication) and found.data == text and found.values == {"a": 1, "b": 2}


@pytest.mark.parametrize(
    ("text", "value"),
    [("123456789012345678.10", Decimal("123456789012345678.10")), ("1.0e-99999999999999999999", 0.0), ("7", 7)],
)
def test_a_number_of_a_publication_keeps_its_digits(text, value):
    data = b'{"a":%b}' % text.encode()
    found = there_and_back(ms.Publication(ms.PublicationId("b", 1, 2), SPACE, {}, data))
    assert isinstance(found, ms.Publication) and found.values == {"a": value}


def frame(body: wire.Body, number: int = 1) -> bytes:
    return wire.encode_link(wire.LinkFrame((1, 2), (3, 4), 0, number, body))


def advertise(condition: str = "TRUE", *attributes: tuple[str, str]) -> wire.LinkAdvertise:
    return wire.LinkAdvertise("ab", "F", tuple(wire.FeedAttribute(*each) for each in attributes), condition)


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (frame(advertise("b = 1", ("a", "int"))), "no attribute 'b'"),
        (frame(advertise("a = 'x'", ("a", "int"))), "type int"),
        (frame(advertise("a = ", ("a", "int"))), "not valid"),
        (frame(advertise("TRUE", ("a", "int"), ("A", "string"))), "twice"),
        (frame(advertise("TRUE", ("a", "decimal(999999999,2)"))), "no type"),
        (frame(advertise("TRUE", ("a", "decimal(x"))), "no type"),
        (frame(advertise(" OR ".join(["a = 1"] * 2_000), ("a", "int"))), "1,000"),
        (frame(wire.LinkPublication(("b", 1, 2), "F#0", msgspec.Raw(b"[1]"))), "object"),
        (frame(wire.LinkInquiry(), 0), "number"),
        (wire.encode_link(wire.LinkFrame((1, 2), (3, 4), 0, 7)), "number"),
    ],
    ids=range(10),
)
def test_what_a_neighbour_must_not_send_is_malformed(bad, says):
    with pytest.raises(Malformed, match=says):
        Codec().decode(bad)


@settings(max_examples=150)
@given(st.sampled_from([*CARRIERS, *(ms.Frame(ONE, OTHER, 3, 4, body) for body in BODIES)]), st.data())
def test_damaged_bytes_are_malformed_or_another_message(message, data):
    good = bytearray(Codec().encode(message))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(good) - 1))
        good[at : at + data.draw(st.integers(0, 4))] = data.draw(st.binary(max_size=4))
    with contextlib.suppress(Malformed):
        Codec().decode(bytes(good))
