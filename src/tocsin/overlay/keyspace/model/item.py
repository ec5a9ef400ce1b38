"""What peers store: an item with a key, or with a span of keys (a subscription)."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

from msgspec import Struct

from tocsin.overlay.keyspace.model.contact import Box, Point, Region
from tocsin.overlay.keyspace.model.order import KeyOrder, owns


class Item(Struct, frozen=True, eq=False):
    """The highest ``version`` counts. ``span``: it belongs to every peer that owns a key of it."""

    id: str
    point: Point
    value: Any
    version: int = 1
    span: Box | None = None
    size: int = 1

    @property
    def mark(self) -> int:
        return int.from_bytes(blake2b(f"{self.id}\0{self.version}".encode(), digest_size=8).digest(), "big")


def belongs(order: KeyOrder, region: Region, item: Item) -> bool:
    if item.span is None:
        return owns(order, region, item.point)
    return order.overlaps(region, item.span)
