"""What the city of the demo is like."""

from __future__ import annotations

from msgspec import Struct

#: More people than this publish their location only after this many metres; beyond the last number of people, the
#: distance grows with their number.
MANY, METRES, FULL = 2_000, 50.0, 10_000


class CityOptions(Struct, frozen=True, kw_only=True):
    """By default the papers' set-up D-proto.

    ``speed``: seconds of the city in a second; the periods of the channels are divided by it. ``clients``: processes
    that hold the people's clients; 0 for as many as needed. ``least_move``: metres that a person must have moved
    before the location is published again; -1 for 0 with few people, and for ``METRES`` times ``speed`` with many.
    ``reach``: how far the outer brokers stand from the middle, as a share of the way to the edge.
    """

    seed: int = 1
    subscribers: int = 400
    speed: float = 5.0
    clients: int = 0
    least_move: float = -1.0
    reach: float = 0.6

    @property
    def metres_between_locations(self) -> float:
        if self.least_move >= 0:
            return self.least_move
        if self.subscribers <= MANY:
            return 0.0
        return METRES * self.speed * max(1.0, self.subscribers / FULL)
