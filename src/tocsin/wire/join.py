"""The messages with which a part joins another one: keys are exchanged, and a join secret vouches for them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

#: The header with the sender's token, in requests between parts.
PART = "tocsin-part"

Key = Annotated[str, Meta(max_length=64, description="an Ed25519 public key, as URL-safe Base64")]


class Join(Struct, frozen=True, forbid_unknown_fields=True):
    """``signature`` and ``proof`` are of the same statement: receiver, name, address, key and time."""

    key: Key
    time: Annotated[float, Meta(description="seconds since 1970")]
    signature: Annotated[str, Meta(max_length=128, description="made with the key")]
    proof: Annotated[str, Meta(max_length=64, description="HMAC with the join secret; '' without one")] = ""


class Joined(Struct, frozen=True):
    """``proof`` shows that the receiver knows the join secret too."""

    key: Key
    proof: str = ""
