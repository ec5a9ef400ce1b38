"""Messages between the demo loop and the processes of its clients: frames of MessagePack over a local connection."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
from msgspec import Struct

LENGTH = 4


class Person(Struct, frozen=True, array_like=True):
    """``login`` and ``subscribe``: seconds from now."""

    number: int
    user: str
    lat: float
    lon: float
    login: float
    subscribe: float
    subscriptions: list[tuple[str, dict[str, str]]]


class Start(Struct, tag=True):
    """``kinds``: publishers that this process runs, one for each kind of report."""

    coordinator: str
    people: list[Person]
    kinds: list[str]


class Locations(Struct, tag=True):
    """To be published: person, latitude, longitude."""

    places: list[tuple[int, float, float]]


class Reports(Struct, tag=True):
    """To be published."""

    records: list[dict[str, Any]]


class Ask(Struct, tag=True):
    """For the notifications that one person has received."""

    call: int
    person: int


class Answer(Struct, tag=True):
    call: int
    notifications: list[dict[str, Any]]


class Follow(Struct, tag=True):
    """Whether each event of this person is sent at once."""

    person: int
    on: bool


class Followed(Struct, tag=True):
    """An event of a person who is followed: ``notification`` or ``migrated``."""

    person: int
    event: str
    data: dict[str, Any]


class Stop(Struct, tag=True):
    pass


class Hello(Struct, tag=True):
    """The first message of a process: its number, and the secret that proves who it is."""

    process: int
    secret: str


class Activity(Struct, tag=True):
    """What has happened since the last one.

    ``brokers``: the broker of each person who has another one than before; '' is none. ``latencies``: seconds from
    publication to notification. ``newest``: the newest notification of each channel.
    """

    brokers: list[tuple[int, str]] = []
    notified: list[int] = []
    latencies: list[float] = []
    notifications: int = 0
    results: int = 0
    locations: int = 0
    reports: int = 0
    migrations: int = 0
    confirmed: int = 0
    refused: int = 0
    newest: list[dict[str, Any]] = []


Message = Start | Locations | Reports | Ask | Answer | Follow | Followed | Stop | Hello | Activity

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def write(writer: asyncio.StreamWriter, message: Message) -> None:
    body = _encoder.encode(message)
    writer.write(len(body).to_bytes(LENGTH, "big") + body)


async def read(reader: asyncio.StreamReader) -> Message | None:
    """None when the other side is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH), "big")
        message: Message = _decoder.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return message
