"""Publishes records of a file through a broker, for ``tocsin pub --broker``."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import msgspec
from msgspec import Raw

from tocsin.cli.records import JSON, Post
from tocsin.errors import Malformed

_values = msgspec.json.Decoder(list[Raw])


class Relay:
    """Sends posts over one connection. It refuses lines that are not JSON: they would make the frame malformed."""

    def __init__(self, broker: str, feed: str, retry: bool) -> None:
        from tocsin.client.sync import connect  # takes a tenth of a second; other commands don't need it

        self._client = connect(broker)
        self._feed = feed
        self._retry = retry

    def __enter__(self) -> Relay:
        self._client.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.__exit__(kind, error, trace)

    def send(self, number: int, post: Post) -> dict[str, Any]:
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
        receipt = self._client.publish(self._feed, records, retry=self._retry)
        refused += [
            {"index": indexes[each.index], "code": each.code, "reason": each.reason} for each in receipt.refused
        ]
        return {"accepted": receipt.accepted, "refused": sorted(refused, key=lambda each: int(each["index"]))}


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
