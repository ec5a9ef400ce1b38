"""The messages of ``tocsin.v1.json``. A frame holds one of them, or an array of several.

A request carries an ``id`` that the client chooses and gets one answer with the same ``id``: its own kind of answer, or
``error``. Messages without an ``id`` are not answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Any, get_args

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType, field

from tocsin.errors import Malformed
from tocsin.wire.position import Position

SUBPROTOCOL = "tocsin.v1.json"
#: Records in one ``publish``.
MOST_RECORDS = 1_000
#: Characters of a subscriber id: 128 random bits need as many.
LEAST_SUBSCRIBER = 22

RequestId = Annotated[int, Meta(ge=0, le=2**53 - 1, description="chosen by the client; the answer repeats it")]
SubscriptionId = Annotated[int, Meta(ge=1, le=2**53 - 1, description="id of a BE subscription in the data cluster")]
Execution = Annotated[int, Meta(ge=0, le=2**53 - 1, description="number of an execution of a channel, from 1")]
Epoch = Annotated[
    int, Meta(ge=0, le=2**53 - 1, description="changes when a channel is dropped and created again under the same name")
]
Name = Annotated[str, Meta(min_length=1, max_length=256)]
Token = Annotated[str, Meta(max_length=3_072)]
Arguments = Annotated[
    list[Any] | dict[str, Any], Meta(description="arguments in the order of the parameters, or by their names")
]


class Message(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Every message has a ``type``."""


# -- from the client ---------------------------------------------------------------------------------------------------


class Hello(Message, frozen=True, tag="hello"):
    """The first message. Answered by ``welcome``."""

    id: RequestId
    token: Annotated[Token, Meta(description="from `login`; omit it to connect anonymously")] | None = None
    agent: Annotated[str, Meta(max_length=128, description="name and version of the client software, for the log")] = ""
    subscriber: (
        Annotated[
            str,
            Meta(
                min_length=LEAST_SUBSCRIBER,
                max_length=64,
                pattern="^[A-Za-z0-9_-]+$",
                description="the client's identity on all brokers: random, chosen once, kept, and secret; a client "
                "that connects with it replaces the connection that has it",
            ),
        ]
        | None
    ) = None
    ticket: Annotated[str, Meta(max_length=1024, description="from `migrate` or `requestbroker`")] | None = None


class Authenticate(Message, frozen=True, tag="authenticate"):
    """Another token of the same user and device, before the present one expires. Not answered; a token that is not
    valid closes the connection."""

    token: Token


class Subscribe(Message, frozen=True, tag="subscribe"):
    """Subscribes to a channel. Answered by ``subscribed``.

    ``feed:`` and the name of a feed stand for the feed's publications, with a condition as the argument ``where``: an
    execution is then a commit, and its results are the records in it that meet the condition.
    A new subscription starts now. To resume one, the client sends its position and receives everything after it.
    """

    id: RequestId
    channel: Name
    args: Arguments = field(default_factory=list)
    after: Annotated[Execution, Meta(description="resume after this execution")] | None = None
    subscription: (
        Annotated[
            SubscriptionId,
            Meta(description="with `after`: the id that this position belongs to; the answer may have another one"),
        ]
        | None
    ) = None
    epoch: (
        Annotated[Epoch, Meta(description="with `after`: the epoch of the channel that this position belongs to")]
        | None
    ) = None


class Unsubscribe(Message, frozen=True, tag="unsubscribe"):
    """Ends a subscription. Answered by ``unsubscribed``; no notification of it follows the answer."""

    id: RequestId
    subscription: SubscriptionId


class Publish(Message, frozen=True, tag="publish"):
    """Publishes records to a feed. Answered by ``published`` once they are durable."""

    id: RequestId
    feed: Name
    records: Annotated[list[Raw], Meta(min_length=1, max_length=MOST_RECORDS)]


class Ack(Message, frozen=True, tag="ack"):
    """The client has consumed everything up to these executions. For a client with a token, the broker stores them."""

    positions: Annotated[dict[int, Execution], Meta(max_length=10_000, description="subscription: execution")]


class Ping(Message, frozen=True, tag="ping"):
    """Tests the connection. Answered by ``pong``, if asked to. A broker's ping carries its position in each channel.

    A client has received everything up to that execution for those of its subscriptions that are live.
    """

    positions: Annotated[dict[str, Execution], Meta(description="channel: execution")] = field(default_factory=dict)
    answer: Annotated[
        bool, Meta(description="whether to send `pong`; most of a broker's pings only show that it lives")
    ] = True
    alternatives: Annotated[
        dict[str, str], Meta(description="as in `welcome`, when they have changed; empty: as before")
    ] = field(default_factory=dict)


class MigrationFailed(Message, frozen=True, tag="migration_failed"):
    """The client could not carry out a ``migrate`` and stays on its current broker."""

    ticket: Annotated[str, Meta(max_length=1024)]
    reason: Annotated[str, Meta(max_length=256)] = ""


class Pong(Message, frozen=True, tag="pong"):
    """Answers ``ping``."""


# -- from the broker ---------------------------------------------------------------------------------------------------


class DurableSubscription(Struct, frozen=True, omit_defaults=True):
    """A subscription that the broker keeps for a user."""

    subscription: SubscriptionId
    channel: str
    args: Arguments
    after: Annotated[Execution, Meta(description="the last execution that was acknowledged")]
    previous_ids: Annotated[
        dict[SubscriptionId, Execution],
        Meta(description="previous ids whose results come first, each with its last possible execution"),
    ] = field(default_factory=dict)
    epoch: Annotated[Epoch, Meta(description="of the channel that `after` belongs to; 0: not known")] = 0


class Welcome(Message, frozen=True, tag="welcome"):
    """Answers ``hello``."""

    id: RequestId
    broker: Annotated[str, Meta(description="name of the broker")]
    heartbeat: Annotated[
        float, Meta(description="seconds between two pings; after three without any message the connection is dead")
    ]
    frame_bytes: Annotated[int, Meta(description="largest frame that the broker accepts")]
    user: str | None = None
    subscriptions: Annotated[list[DurableSubscription], Meta(description="the user's durable subscriptions")] = field(
        default_factory=list
    )
    reconnect_within: Annotated[
        float,
        Meta(ge=0, description="if the connection breaks, reconnect after a random delay of up to this many seconds"),
    ] = 1.0
    alternatives: Annotated[
        dict[str, str],
        Meta(description="other brokers and their addresses, for when this broker and the coordinator are away"),
    ] = field(default_factory=dict)


class Subscribed(Message, frozen=True, tag="subscribed"):
    """Answers ``subscribe``: every execution that starts from now on includes the subscription."""

    id: RequestId
    subscription: SubscriptionId
    channel: str
    after: Annotated[Execution, Meta(description="notifications of all executions after this one follow")]
    epoch: Annotated[
        Epoch, Meta(description="of the channel; it changes when the channel is dropped and created again")
    ] = 0
    warnings: Annotated[list[str], Meta(description="about a condition on a feed: that it is never true")] = field(
        default_factory=list
    )

    @property
    def position(self) -> Position:
        return Position(self.epoch, self.after)


class Unsubscribed(Message, frozen=True, tag="unsubscribed"):
    """Answers ``unsubscribe``."""

    id: RequestId
    subscription: SubscriptionId


class Refused(Struct, frozen=True):
    index: Annotated[int, Meta(description="index of the record in the request, from 0")]
    code: str
    reason: str


class Published(Message, frozen=True, tag="published"):
    """Answers ``publish``: the accepted records are durable."""

    id: RequestId
    accepted: Annotated[int, Meta(description="number of accepted records")]
    refused: list[Refused] = field(default_factory=list)


class Error(Message, frozen=True, tag="error"):
    """Answers a request that failed; it has changed nothing."""

    id: RequestId | None
    code: Annotated[str, Meta(description="stable, for programs")]
    message: str
    hint: str = ""


class Notify(Message, frozen=True, tag="notify"):
    """The results of one execution for one subscription. Executions arrive in order."""

    channel: str
    subscription: SubscriptionId
    execution: Execution
    count: Annotated[int, Meta(description="number of results")]
    results: Annotated[list[Any], Meta(description="each one a row of the channel's query")]


class Live(Message, frozen=True, tag="live"):
    """The client has caught up: it has everything up to this execution, and new ones follow as they happen."""

    subscription: SubscriptionId
    execution: Execution


class Lagging(Message, frozen=True, tag="lagging"):
    """The client reads too slowly. Everything after this execution follows once it has read what was sent."""

    subscription: SubscriptionId
    execution: Execution


class Gap(Message, frozen=True, tag="gap"):
    """Notifications after ``after`` and before ``next`` may be missing; they are no longer available."""

    subscription: SubscriptionId
    after: Execution
    next: Execution
    reason: Annotated[
        str,
        Meta(
            description="`retention`: they have expired; `released`: no broker held the subscription meanwhile; "
            "`damaged`: their file cannot be read; `compacted`: of a feed whose dataset has a key, only the records "
            "follow that no later one with the same key has replaced; `dropped` (over REST): the channel was dropped "
            "and created again, and its executions count from the beginning"
        ),
    ]


class Migrate(Message, frozen=True, tag="migrate"):
    """The client should migrate to another broker.

    It connects there with the ticket, resumes everything, and leaves this broker once all of it is live there. If that
    fails, it sends ``migration_failed``.
    """

    broker: Annotated[str, Meta(description="name of the other broker")]
    url: Annotated[str, Meta(description="its address, http or https")]
    ticket: str


class Ended(Message, frozen=True, tag="ended"):
    """The subscription has ended: its channel no longer exists, or it is not granted any more."""

    subscription: SubscriptionId
    code: Annotated[str, Meta(description="stable, for programs")]
    message: str


FromClient = Hello | Authenticate | Subscribe | Unsubscribe | Publish | Ack | MigrationFailed | Ping | Pong
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


def frames(messages: Iterable[Message], limit: int) -> Iterator[bytes]:
    """In order, as few frames of at most ``limit`` bytes as possible. A message that is larger goes on its own."""
    batch: list[bytes] = []
    size = 1
    for message in messages:
        data = encode(message)
        if batch and size + len(data) + 1 > limit:
            yield encode_batch(batch)
            batch, size = [], 1
        batch.append(data)
        size += len(data) + 1
    if batch:
        yield encode_batch(batch)


def notify_template(channel: str) -> bytes:
    """For ``%`` with subscription, execution, count and results.

    The results are already JSON: no record is decoded on the way from Spark to the subscriber.
    """
    name = _encoder.encode(channel).replace(b"%", b"%%")
    return b'{"type":"notify","channel":%b,"subscription":%%d,"execution":%%d,"count":%%d,"results":%%b}' % name


def decode(data: bytes | str) -> list[FromClient]:
    """Messages from a client. Raises Malformed, with the request's id where it can be read."""
    return _decode(_requests, data)


def decode_answers(data: bytes | str) -> list[FromBroker]:
    """Messages from a broker. Those of unknown types are ignored."""
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
    """(type, message) of each; empty where even that cannot be read."""
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
