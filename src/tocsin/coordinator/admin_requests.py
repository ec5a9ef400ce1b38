"""What an operator may ask for at run time."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field


class StrategyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`PUT /strategy`."""

    strategy: Annotated[str, Meta(max_length=128, description="'' for none")]
    settings: Annotated[dict[str, float | str], Meta(max_length=32, description="what is not its default")] = field(
        default_factory=dict
    )


class PlacementRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`PUT /placement`."""

    placement: Annotated[str, Meta(max_length=128)]
