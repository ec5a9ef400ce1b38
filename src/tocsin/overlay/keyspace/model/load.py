"""What a peer has to do, by criterion."""

from __future__ import annotations

from msgspec import Struct


class Load(Struct, frozen=True):
    """``items`` and ``subscriptions`` that it owns; ``events`` it has matched or served as owner or mirror; messages
    it has ``routed`` for others. ``pointers`` redirect to items elsewhere and weigh nothing.
    """

    items: int = 0
    subscriptions: int = 0
    pointers: int = 0
    events: int = 0
    routed: int = 0

    def plus(self, other: Load) -> Load:
        return Load(
            self.items + other.items,
            self.subscriptions + other.subscriptions,
            self.pointers + other.pointers,
            self.events + other.events,
            self.routed + other.routed,
        )
