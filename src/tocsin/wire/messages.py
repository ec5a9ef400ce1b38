"""The messages of ``tocsin.v1.json``. A frame holds one of them, or an array of several.

A request carries an ``id`` of the client's choice and gets one answer with the same ``id``: its own kind of answer, or
``error``. What carries no ``id`` is not answered.
"""

from __future__ import annotations

from typing import Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from tocsin.errors import Malformed

SUBPROTOCOL = "tocsin.v1.json"
#: Records in one ``publish``.
MOST_RECORDS = 1_000

RequestId = Annotated[int, Meta(ge=0, le=2**53 - 1, description="chosen by the client; the answer repeats it")]
SubscriptionId = Annotated[int, Meta(ge=1, le=2**53 - 1, description="number of a BE subscription in the data cluster")]
Execution = Annotated[int, Meta(ge=0, le=2**53 - 1, description="number of an execution of a channel, from 1")]
Epoch = Annotated[int, Meta(ge=0, le=2**53 - 1, description="tells a channel from one that had its name before")]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Arguments = Annotated[
    list[Any] | dict[str, Any], Meta(description="arguments in the order of the parameters, or by their names")
]


class Message(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """What all messages have: a ``type``."""


# -- from the client ---------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True, tag="hello"):
    """The first message. Answered by ``welcome``."""

    id: RequestId
    token: Annotated[str, Meta(max_length=512, description="of `login`; without one the client is nobody")] | None = (
        None
    )
    agent: Annotated[str, Meta(max_length=128, description="what the client is, for the log")] = ""
    subscriber: (
        Annotated[
            str,
            Meta(
                min_length=8,
                max_length=64,
                pattern="^[A-Za-z0-9_-]+$",
                description="chosen by the client at random and kept: who it is, on whichever broker",
            ),
        ]
        | None
    ) = None
    ticket: Annotated[str, Meta(max_length=1024, description="of `migrate` or `requestbroker`")] | None = None


class Subscribe(Message, frozen=True, tag="subscribe"):
    """Wants the notifications of a channel. Answered by ``subscribed``.

    A new subscription starts now. One that is resumed says the last execution it has, and gets what came after it.
    """

    id: RequestId
    channel: Name
    args: Arguments = field(default_factory=list)
    after: Annotated[Execution, Meta(description="resume behind this execution")] | None = None
    subscription: (
        Annotated[
            SubscriptionId, Meta(description="the number it had before; with `after`, in case it has another now")
        ]
        | None
    ) = None
    epoch: Annotated[Epoch, Meta(description="of the channel that `after` belongs to")] | None = None


class Unsubscribe(Message, frozen=True, tag="unsubscribe"):
    """Wants no more of it. Answered by ``unsubscribed``; nothing of it follows the answer."""

    id: RequestId
    subscription: SubscriptionId


class Publish(Message, frozen=True, tag="publish"):
    """Records for a feed. Answered by ``published``, once they are durable."""

    id: RequestId
    feed: Name
    records: Annotated[list[Raw], Meta(min_length=1, max_length=MOST_RECORDS)]


class Ack(Message, frozen=True, tag="ack"):
    """The client has dealt with everything up to these executions. Kept on the server for a client with a token."""

    positions: Annotated[dict[int, Execution], Meta(max_length=10_000, description="subscription: execution")]


class Ping(Message, frozen=True, tag="ping"):
    """Is anybody there? Answered by ``pong``. From the broker, it says how far it is with each channel.

    A subscriber that is not behind has everything up to that execution of each of its subscriptions.
    """

    positions: Annotated[dict[str, Execution], Meta(description="channel: execution")] = field(default_factory=dict)


class MigrationFailed(Message, frozen=True, tag="migration_failed"):
    """The client could not follow a ``migrate`` and stays where it is."""

    ticket: Annotated[str, Meta(max_length=1024)]
    reason: Annotated[str, Meta(max_length=256)] = ""


class Pong(Message, frozen=True, tag="pong"):
    """Here I am."""


# -- from the broker ---------------------------------------------------------------------------------------------------


class DurableSubscription(Struct, frozen=True, omit_defaults=True):
    """A subscription that the broker keeps for a user."""

    subscription: SubscriptionId
    channel: str
    args: Arguments
    after: Annotated[Execution, Meta(description="the last execution that was acknowledged")]
    previous_ids: Annotated[
        dict[SubscriptionId, Execution],
        Meta(description="former numbers whose results come first, each with the last execution that it may be in"),
    ] = field(default_factory=dict)


class Welcome(Message, frozen=True, tag="welcome"):
    """Answers ``hello``."""

    id: RequestId
    broker: Annotated[str, Meta(description="name of the broker")]
    heartbeat: Annotated[float, Meta(description="seconds between two pings; three of them without a word: it is dead")]
    frame_bytes: Annotated[int, Meta(description="largest frame the broker takes")]
    user: str | None = None
    subscriptions: Annotated[list[DurableSubscription], Meta(description="what the broker keeps for the user")] = field(
        default_factory=list
    )
    scatter: Annotated[
        float,
        Meta(
            ge=0, description="seconds within which to come back, at a moment of chance, if the connection breaks off"
        ),
    ] = 1.0


class Subscribed(Message, frozen=True, tag="subscribed"):
    """Answers ``subscribe``: every execution that starts from now on is certain to see the subscription."""

    id: RequestId
    subscription: SubscriptionId
    channel: str
    after: Annotated[Execution, Meta(description="notifications follow from behind this execution")]
    epoch: Annotated[
        Epoch, Meta(description="of the channel; another one than before: it was dropped and made anew")
    ] = 0


class Unsubscribed(Message, frozen=True, tag="unsubscribed"):
    """Answers ``unsubscribe``."""

    id: RequestId
    subscription: SubscriptionId


class Refused(Struct, frozen=True):
    index: Annotated[int, Meta(description="place of the record in the request, from 0")]
    code: str
    reason: str


class Published(Message, frozen=True, tag="published"):
    """Answers ``publish``: the records that were taken are durable."""

    id: RequestId
    taken: int
    refused: list[Refused] = field(default_factory=list)


class Error(Message, frozen=True, tag="error"):
    """Answers any request that could not be done; nothing was changed."""

    id: RequestId | None
    code: Annotated[str, Meta(description="for machines; stays the same")]
    message: str
    hint: str = ""


class Notify(Message, frozen=True, tag="notify"):
    """The results of one execution for one subscription. Executions of a subscription come in order."""

    channel: str
    subscription: SubscriptionId
    execution: Execution
    count: Annotated[int, Meta(description="number of results")]
    results: Annotated[list[Any], Meta(description="each one a row of the channel's body")]


class Live(Message, frozen=True, tag="live"):
    """All that was missed has been sent: the client has everything up to this execution, and new ones follow."""

    subscription: SubscriptionId
    execution: Execution


class Lagging(Message, frozen=True, tag="lagging"):
    """The client reads too slowly. What follows this execution is sent when it has read what is on its way."""

    subscription: SubscriptionId
    execution: Execution


class Gap(Message, frozen=True, tag="gap"):
    """Notifications behind ``after`` and before ``next`` may be missing and cannot be had any more."""

    subscription: SubscriptionId
    after: Execution
    next: Execution
    reason: Annotated[str, Meta(description="`retention`: they were kept no longer; `released`: nobody held it")]


class Migrate(Message, frozen=True, tag="migrate"):
    """Another broker has room for the client.

    It connects there with the ticket, resumes everything, and leaves this broker once all of it is live there. If that
    fails, it answers ``migration_failed``.
    """

    broker: Annotated[str, Meta(description="name of the other broker")]
    url: Annotated[str, Meta(description="its address, http or https")]
    ticket: str


class Ended(Message, frozen=True, tag="ended"):
    """Nothing of this subscription follows: what it is of does not exist any more."""

    subscription: SubscriptionId
    code: Annotated[str, Meta(description="for machines; stays the same")]
    message: str


FromClient = Hello | Subscribe | Unsubscribe | Publish | Ack | MigrationFailed | Ping | Pong
FromBroker = (
    Welcome
    | Subscribed
    | Unsubscribed
    | Published
    | Error
    | Notify
    | Live
    | Lagging
    | Gap
    | Ended
    | Migrate
    | Ping
    | Pong
)

_encoder = msgspec.json.Encoder()
_requests = msgspec.json.Decoder(FromClient | list[FromClient])
_KNOWN = frozenset(kind.__struct_config__.tag for kind in get_args(FromBroker))
_answers = msgspec.json.Decoder(FromBroker | list[FromBroker])


def encode(message: Message) -> bytes:
    return _encoder.encode(message)


def encode_batch(messages: list[bytes]) -> bytes:
    """Several encoded messages as one."""
    return messages[0] if len(messages) == 1 else b"[" + b",".join(messages) + b"]"


def notify_template(channel: str) -> bytes:
    """For ``%`` with subscription, execution, count and results.

    The results are JSON already: neither Spark's text nor a single record is touched on the way to the screen.
    """
    name = _encoder.encode(channel).replace(b"%", b"%%")
    return b'{"type":"notify","channel":%b,"subscription":%%d,"execution":%%d,"count":%%d,"results":%%b}' % name


def decode(data: bytes | str) -> list[FromClient]:
    """What a client sent. Raises Malformed with what is wrong, and the request's id where it can be told."""
    return _decode(_requests, data)


def decode_answers(data: bytes | str) -> list[FromBroker]:
    """What a broker sent. Messages of types that this version does not know are left out."""
    try:
        return _decode(_answers, data)
    except Malformed:
        typed = _typed(data)
        if all(kind in _KNOWN for kind, _ in typed):
            raise
        return [message for kind, raw in typed if kind in _KNOWN for message in _decode(_answers, raw)]


class _Typed(Struct):
    type: str


def _typed(data: bytes | str) -> list[tuple[str, bytes]]:
    """(type, message) of each; nothing where even that cannot be told."""
    try:
        several = data.lstrip()[:1] in ("[", b"[")
        found = msgspec.json.decode(data, type=list[Raw]) if several else [msgspec.json.decode(data, type=Raw)]
        return [(msgspec.json.decode(raw, type=_Typed).type, bytes(raw)) for raw in found]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


def _decode(decoder: Any, data: bytes | str) -> list[Any]:
    try:
        found = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Malformed(str(error), id=_id_of(data)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"this is not JSON: {error}", id=None) from None
    except RecursionError:
        raise Malformed("this JSON is nested too deeply", id=None) from None
    return found if isinstance(found, list) else [found]


class _OnlyId(Struct):
    id: RequestId | UnsetType = UNSET


_only_id = msgspec.json.Decoder(_OnlyId)


def _id_of(data: bytes | str) -> int | None:
    try:
        found = _only_id.decode(data).id
    except (msgspec.DecodeError, RecursionError):
        return None
    return None if found is UNSET else found
