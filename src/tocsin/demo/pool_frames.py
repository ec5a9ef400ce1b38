"""What the town and the processes of its people say to each other: frames of MessagePack over a local connection."""

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
    wishes: list[tuple[str, dict[str, str]]]


class Begin(Struct, tag=True):
    """``kinds``: publishers that this process runs, one for each kind of report."""

    coordinator: str
    people: list[Person]
    kinds: list[str]


class Moved(Struct, tag=True):
    """Where some are now, to be published: number, latitude, longitude."""

    places: list[tuple[int, float, float]]


class Reports(Struct, tag=True):
    records: list[dict[str, Any]]


class Ask(Struct, tag=True):
    """For what one person has got."""

    call: int
    person: int


class Follow(Struct, tag=True):
    """From now on each notification of this person is told, or no longer."""

    person: int
    on: bool


class Stop(Struct, tag=True):
    pass


class Hello(Struct, tag=True):
    """The first words of a process: its number, and that it may talk here."""

    process: int
    secret: str


class Told(Struct, tag=True):
    """To a person who is followed: ``event`` is notification or moved."""

    person: int
    event: str
    data: dict[str, Any]


class Answer(Struct, tag=True):
    call: int
    notifications: list[dict[str, Any]]


class Beat(Struct, tag=True):
    """What has happened since the last one. ``brokers``: the broker of each person who has another one than before;
    '' is none. ``latencies``: seconds from publication to notification. ``shown``: the newest notification of each
    channel."""

    brokers: list[tuple[int, str]]
    notified: list[int]
    latencies: list[float]
    notifications: int
    results: int
    locations: int
    reports: int
    moves: int
    confirmed: int
    trouble: int
    shown: list[dict[str, Any]]


Message = Begin | Moved | Reports | Ask | Follow | Stop | Hello | Told | Answer | Beat

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Message)


def write(writer: asyncio.StreamWriter, message: Message) -> None:
    body = _encoder.encode(message)
    writer.write(len(body).to_bytes(LENGTH, "big") + body)


async def read(reader: asyncio.StreamReader) -> Message | None:
    """None when the other side is gone."""
    try:
        length = int.from_bytes(await reader.readexactly(LENGTH), "big")
        found: Message = _decoder.decode(await reader.readexactly(length))
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    return found
