"""Messages into frames that are no larger than the broker takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tocsin.wire.messages import Message, encode, encode_batch


def frames(messages: Iterable[Message], limit: int) -> Iterator[bytes]:
    """In order, as few frames as possible. A message that is larger on its own goes on its own."""
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
