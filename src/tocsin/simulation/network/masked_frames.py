"""A client's frames, masked as RFC 6455 requires."""

from __future__ import annotations

from random import Random

from tocsin.wire.frames import TEXT, unmask


def masked(payload: bytes, rng: Random) -> bytes:
    size, mask = len(payload), rng.randbytes(4)
    if size < 126:
        head = bytes((0x80 | TEXT, 0x80 | size))
    elif size < 65_536:
        head = bytes((0x80 | TEXT, 0x80 | 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x80 | TEXT, 0x80 | 127)) + size.to_bytes(8, "big")
    return head + mask + unmask(payload, mask)
