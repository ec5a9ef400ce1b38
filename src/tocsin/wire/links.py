"""The messages of ``tocsin.overlay.v1.json``: what two brokers of an overlay send each other on their link.

A WebSocket message holds one of them. Conditions travel as SQL text with the types of all attributes of their feed, and
a publication as the JSON that its publisher sent.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta, Raw, Struct, field

from tocsin.errors import Malformed
from tocsin.wire.messages import Name

LINK_SUBPROTOCOL = "tocsin.overlay.v1.json"
#: Where the inner port takes links.
LINK_PATH = "/overlay/v1"
#: Bytes of the largest message: an inventory of a million announcements.
LINK_BYTES = 64 * 1024 * 1024
#: Attributes of a feed, and characters of the type of one and of a condition.
MOST_ATTRIBUTES, LONGEST_TYPE, LONGEST_CONDITION = 10_000, 64 * 1024, 64 * 1024

Number = Annotated[int, Meta(ge=0, le=2**53 - 1)]
LinkSession = Annotated[
    tuple[Number, Number], Meta(description="epoch of the broker, which grows with each start, and number of the link")
]
AnnouncementId = Annotated[str, Meta(pattern="^[0-9a-f]{1,24}$", description="digest of the announcement, hexadecimal")]
BrokerName = Annotated[str, Meta(min_length=1, max_length=128)]
Space = Annotated[str, Meta(min_length=1, max_length=512, description="the feed, `#`, and a digest of its attributes")]
Role = Literal["head", "edge", "both"]


class FeedAttribute(Struct, frozen=True, omit_defaults=True):
    name: Name
    type: Annotated[str, Meta(min_length=1, max_length=LONGEST_TYPE, description="in Spark's spelling")]
    nullable: bool = True


Attributes = Annotated[
    tuple[FeedAttribute, ...],
    Meta(max_length=MOST_ATTRIBUTES, description="all attributes of the feed"),
]
ConditionText = Annotated[str, Meta(min_length=1, max_length=LONGEST_CONDITION, description="in SQL")]


class BrokerRecord(Struct, frozen=True, omit_defaults=True):
    """A broker as all others know it."""

    name: BrokerName
    epoch: Number
    version: Number
    links: tuple[tuple[BrokerName, Number], ...] = ()
    role: Role = "both"
    overloaded: bool = False
    url: Annotated[str, Meta(max_length=2_000)] = ""


class LinkBase(Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Every message has a ``type``."""


# -- the messages of a stream ------------------------------------------------------------------------------------------


class LinkPublication(LinkBase, frozen=True, tag="link_publication"):
    """A publication on its way to subscriptions that match it."""

    id: Annotated[
        tuple[BrokerName, Number, Number], Meta(description="the head where it entered, its epoch, and the sequence")
    ]
    space: Space
    values: Annotated[Raw, Meta(description="the JSON object of the publisher, unchanged")]


class LinkAdvertise(LinkBase, frozen=True, tag="link_advertise"):
    """Publications that may come from the sender."""

    id: AnnouncementId
    feed: Name
    attributes: Attributes
    condition: ConditionText


class LinkSubscribe(LinkBase, frozen=True, tag="link_subscribe"):
    """Publications that the sender needs."""

    id: AnnouncementId
    feed: Name
    attributes: Attributes
    condition: ConditionText


class LinkUnadvertise(LinkBase, frozen=True, tag="link_unadvertise"):
    """The end of an ``link_advertise``."""

    id: AnnouncementId


class LinkUnsubscribe(LinkBase, frozen=True, tag="link_unsubscribe"):
    """The end of a ``link_subscribe``."""

    id: AnnouncementId


class LinkRecords(LinkBase, frozen=True, tag="link_records"):
    """Brokers whose links or roles have changed."""

    records: tuple[BrokerRecord, ...]


class LinkSummary(LinkBase, frozen=True, tag="link_summary"):
    """What the sender has: the first message of a stream, both ways."""

    digest: Annotated[AnnouncementId, Meta(description="of all announcements that it has from the receiver")]
    versions: Annotated[
        dict[BrokerName, tuple[Number, Number]], Meta(description="broker: epoch and version of its record")
    ] = field(default_factory=dict)


class LinkInquiry(LinkBase, frozen=True, tag="link_inquiry"):
    """The digest is another one: which announcements does the receiver have?"""


class LinkInventory(LinkBase, frozen=True, tag="link_inventory"):
    """Answers ``link_inquiry``."""

    advertised: frozenset[AnnouncementId] = frozenset()
    subscribed: frozenset[AnnouncementId] = frozenset()


class LinkMissed(LinkBase, frozen=True, tag="link_missed"):
    """Publications that would have come over this link may be lost: subscribers of live feeds are notified of a gap."""

    reason: Annotated[str, Meta(max_length=64)]


Body = (
    LinkPublication
    | LinkAdvertise
    | LinkSubscribe
    | LinkUnadvertise
    | LinkUnsubscribe
    | LinkRecords
    | LinkSummary
    | LinkInquiry
    | LinkInventory
    | LinkMissed
)

# -- what carries them -------------------------------------------------------------------------------------------------


class LinkHello(LinkBase, frozen=True, tag="link_hello"):
    """Opens a link, or a new pair of sessions on it. Sent again until the other side knows both sessions."""

    session: LinkSession
    peer: LinkSession | None = None
    brokers: Annotated[dict[BrokerName, int], Meta(description="all brokers on the sender's side, with epochs")] = (
        field(default_factory=dict)
    )
    stamp: Annotated[Number, Meta(description="of the link; 0 for a new one")] = 0
    highest: Annotated[Number, Meta(description="the highest stamp that the sender knows")] = 0


class LinkRefusal(LinkBase, frozen=True, tag="link_refusal"):
    """The link is not possible: a cycle, two brokers with one name, or ended by an operator."""

    session: LinkSession
    reason: Annotated[str, Meta(max_length=64)]
    message: Annotated[str, Meta(max_length=2_000)]
    hint: Annotated[str, Meta(max_length=2_000)] = ""


class LinkReset(LinkBase, frozen=True, tag="link_reset"):
    """The sender does not have the link with this session of the receiver."""

    session: LinkSession


class LinkGoodbye(LinkBase, frozen=True, tag="link_goodbye"):
    """The sender has ended the link with this session of the receiver."""

    session: LinkSession


class LinkFrame(LinkBase, frozen=True, tag="link_frame"):
    """One message of the stream, or only an acknowledgement; after a second without one it is a heartbeat."""

    session: LinkSession
    peer: LinkSession
    acknowledged: Number
    number: Number = 0
    body: Body | None = None


LinkMessage = LinkHello | LinkRefusal | LinkReset | LinkGoodbye | LinkFrame
BODIES: tuple[type[LinkBase], ...] = get_args(Body)
CARRIERS: tuple[type[LinkBase], ...] = get_args(LinkMessage)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[LinkMessage] = msgspec.json.Decoder(LinkMessage)


def encode_link(message: LinkMessage) -> bytes:
    return _encoder.encode(message)


def decode_link(data: bytes) -> LinkMessage:
    """Raises Malformed."""
    try:
        return _decoder.decode(data)
    except msgspec.ValidationError as error:
        raise Malformed(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"this is not JSON: {error}") from None
    except RecursionError:
        raise Malformed("this JSON is nested too deeply") from None
