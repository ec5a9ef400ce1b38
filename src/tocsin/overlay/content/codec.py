"""The overlay's messages as bytes and back. What cannot be read raises Malformed, and nothing of it is kept."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Raw, structs

from tocsin.content import Advertisement, Attribute, Attributes, Condition
from tocsin.content.language.domains import Domain, domain_of
from tocsin.content.language.record_reader import exact_number
from tocsin.errors import Malformed, TocsinError
from tocsin.overlay.content import messages as ms
from tocsin.overlay.content.routing.space import space_name
from tocsin.wire import links as wire

#: Spaces whose attributes are remembered: conditions of one space share them.
REMEMBERED = 1_000

_DECIMAL = re.compile(r"([1-9]|[12]\d|3[0-8]),(\d|[12]\d|3[0-8])\)", re.ASCII)
_values = msgspec.json.Decoder(dict[str, Any], float_hook=exact_number)


class Codec:
    """``decode`` and ``encode`` of one broker: what is remembered only saves time and memory."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, tuple[wire.FeedAttribute, ...]], tuple[str, Attributes]] = {}
        self._written: dict[str, tuple[wire.FeedAttribute, ...]] = {}

    # -- to bytes

    def encode(self, message: ms.Message) -> bytes:
        return wire.encode_link(self._message(message))

    def _message(self, it: ms.Message) -> wire.LinkMessage:
        match it:
            case ms.Frame():
                body = None if it.body is None else self._body(it.body)
                return wire.LinkFrame(it.session, it.peer, it.acknowledged, it.number, body)
            case ms.Hello():
                return wire.LinkHello(it.session, it.peer, it.brokers, it.stamp, it.highest)
            case ms.Refusal():
                return wire.LinkRefusal(it.session, it.reason, it.message, it.hint)
            case ms.Reset():
                return wire.LinkReset(it.session)
            case ms.Goodbye():
                return wire.LinkGoodbye(it.session)

    def _body(self, it: ms.Body) -> wire.Body:
        match it:
            case ms.Publication():
                data = it.data or msgspec.json.encode(it.values)
                return wire.LinkPublication(it.id, it.space, Raw(data))
            case ms.Advertise():
                what = it.advertisement.condition
                return wire.LinkAdvertise(_hex(it.id), *self._space(it.space, what), what.to_sql())
            case ms.Subscribe():
                what = it.condition
                return wire.LinkSubscribe(_hex(it.id), *self._space(it.space, what), what.to_sql())
            case ms.Unadvertise():
                return wire.LinkUnadvertise(_hex(it.id))
            case ms.Unsubscribe():
                return wire.LinkUnsubscribe(_hex(it.id))
            case ms.Records():
                return wire.LinkRecords(
                    tuple(msgspec.convert(it.records, list[wire.BrokerRecord], from_attributes=True))
                )
            case ms.Summary():
                return wire.LinkSummary(_hex(it.digest), it.versions)
            case ms.Inquiry():
                return wire.LinkInquiry()
            case ms.Inventory():
                return wire.LinkInventory(_all_hex(it.advertised), _all_hex(it.subscribed))
            case ms.Missed():
                return wire.LinkMissed(it.reason)

    def _space(self, name: str, what: Condition) -> tuple[str, tuple[wire.FeedAttribute, ...]]:
        found = self._written.get(name)
        if found is None:
            found = tuple(wire.FeedAttribute(each.name, each.domain.type, each.nullable) for each in what.attributes)
            _remember(self._written, name, found)
        return name.rpartition("#")[0], found

    # -- from bytes

    def decode(self, data: bytes) -> ms.Message:
        """Raises Malformed."""
        message = wire.decode_link(data)
        try:
            return self._decoded(message)
        except (msgspec.DecodeError, TocsinError, ValueError, RecursionError) as error:
            raise Malformed(f"{type(message).__name__}: {error}") from None

    def _decoded(self, it: wire.LinkMessage) -> ms.Message:
        match it:
            case wire.LinkFrame():
                body = None if it.body is None else self._decoded_body(it.body)
                if (body is None) != (it.number == 0):
                    raise Malformed("a frame has a number if it has a body")
                return ms.Frame(ms.Session(*it.session), ms.Session(*it.peer), it.acknowledged, it.number, body)
            case wire.LinkHello():
                peer = None if it.peer is None else ms.Session(*it.peer)
                return ms.Hello(ms.Session(*it.session), peer, it.brokers, it.stamp, it.highest)
            case wire.LinkRefusal():
                return ms.Refusal(ms.Session(*it.session), it.reason, it.message, it.hint)
            case wire.LinkReset():
                return ms.Reset(ms.Session(*it.session))
            case wire.LinkGoodbye():
                return ms.Goodbye(ms.Session(*it.session))

    def _decoded_body(self, it: wire.Body) -> ms.Body:
        match it:
            case wire.LinkPublication():
                data = bytes(it.values)
                return ms.Publication(ms.PublicationId(*it.id), it.space, _values.decode(data), data)
            case wire.LinkAdvertise():
                space, condition = self._announced(it)
                return ms.Advertise(int(it.id, 16), space, Advertisement(condition))
            case wire.LinkSubscribe():
                space, condition = self._announced(it)
                return ms.Subscribe(int(it.id, 16), space, condition)
            case wire.LinkUnadvertise():
                return ms.Unadvertise(int(it.id, 16))
            case wire.LinkUnsubscribe():
                return ms.Unsubscribe(int(it.id, 16))
            case wire.LinkRecords():
                return ms.Records(tuple(ms.Record(*structs.astuple(each)) for each in it.records))
            case wire.LinkSummary():
                return ms.Summary(int(it.digest, 16), it.versions)
            case wire.LinkInquiry():
                return ms.Inquiry()
            case wire.LinkInventory():
                return ms.Inventory(_no_hex(it.advertised), _no_hex(it.subscribed))
            case wire.LinkMissed():
                return ms.Missed(it.reason)

    def _announced(self, it: wire.LinkAdvertise | wire.LinkSubscribe) -> tuple[str, Condition]:
        """The name of a space is computed here: what it stands for does not depend on the sender."""
        key = (it.feed, it.attributes)
        found = self._read.get(key)
        if found is None:
            attributes = Attributes(Attribute(each.name, _domain(each.type), each.nullable) for each in it.attributes)
            if len(attributes) != len(it.attributes):
                raise Malformed("an attribute appears twice")
            found = space_name(it.feed, attributes), attributes
            _remember(self._read, key, found)
        return found[0], Condition.of_sql(it.condition, found[1])


def _domain(type_name: str) -> Domain:
    """Of a number with more digits than Spark has, the bounds alone would fill the memory."""
    digits = type_name.removeprefix("decimal(")
    if digits != type_name and not _DECIMAL.fullmatch(digits):
        raise Malformed(f"there is no type {type_name[:40]}")
    return domain_of(type_name)


def _remember(known: dict[Any, Any], key: Any, value: Any) -> None:
    if len(known) >= REMEMBERED:
        known.clear()
    known[key] = value


def _hex(id: int) -> str:
    return f"{id:x}"


def _all_hex(ids: frozenset[int]) -> frozenset[str]:
    return frozenset(map(_hex, ids))


def _no_hex(ids: frozenset[str]) -> frozenset[int]:
    return frozenset(int(each, 16) for each in ids)
