"""Publishes records of a file through a broker, for ``tocsin pub --broker``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from msgspec import Raw

from tocsin.cli.records import JSON, Post
from tocsin.errors import Malformed

_values = msgspec.json.Decoder(list[Raw])


@contextmanager
def relay(broker: str, feed: str, retry: bool) -> Iterator[Callable[[int, Post], dict[str, Any]]]:
    """Sends posts over one connection. It refuses lines that are not JSON: they would make the frame malformed."""
    from tocsin.client.sync import connect  # takes a tenth of a second; other commands don't need it

    with connect(broker) as client:

        def send(number: int, post: Post) -> dict[str, Any]:
            """The receipt, with the indexes of the refused records within the post."""
            refused: list[dict[str, Any]] = []
            records: list[Raw] = []
            indexes: list[int] = []
            for index, record in enumerate(split(post)):
                if readable(record):
                    records.append(record)
                    indexes.append(index)
                else:
                    refused.append({"index": index, "code": "not_json", "reason": "this is not JSON"})
            receipt = client.publish(feed, records, retry=retry)
            refused += [
                {"index": indexes[each.index], "code": each.code, "reason": each.reason} for each in receipt.refused
            ]
            return {"accepted": receipt.accepted, "refused": sorted(refused, key=lambda each: int(each["index"]))}

        yield send


def split(post: Post) -> list[Raw]:
    if post.media != JSON:
        return [Raw(line) for line in post.body.split(b"\n")]
    try:
        return _values.decode(post.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"one of {post.records} records is not JSON: {error}") from error


def readable(record: Raw) -> bool:
    """Whether the broker can read it. It is stricter than Python's own JSON: no NaN, no malformed UTF-8."""
    try:
        msgspec.json.decode(record)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
