"""The wire between brokers and subscribers: messages, frames and close codes of ``tocsin.v1.json``."""

from __future__ import annotations

from tocsin.wire.close_codes import CLOSES, Close
from tocsin.wire.messages import SUBPROTOCOL, decode, encode, encode_batch

__all__ = ["CLOSES", "SUBPROTOCOL", "Close", "decode", "encode", "encode_batch"]
