"""Redirection pointers (Byers et al.): one of d places has an item, and the others point there."""

from __future__ import annotations

from msgspec import Struct


class Pointer(Struct, frozen=True):
    """The item is at the place of hash function ``choice``."""

    choice: int
