"""Bodies of an operator's requests."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct, field

from tocsin.config import Components
from tocsin.identity.messages import Password


class StrategyRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`PUT /strategy`."""

    strategy: Annotated[str, Meta(max_length=128, description="'' for none")]
    settings: Annotated[
        dict[str, float | str], Meta(max_length=32, description="those that differ from the default")
    ] = field(default_factory=dict)
    components: Annotated[
        Components,
        Meta(
            max_length=32, description="instead of the strategy's own, by place; `GET /balance/components` lists them"
        ),
    ] = field(default_factory=dict)


class PasswordRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`PUT /users/{user}/password`."""

    password: Password


class RolesRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`PUT /users/{user}/roles`."""

    roles: Annotated[list[Annotated[str, Meta(min_length=1, max_length=128)]], Meta(max_length=64)]


class PlacementRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """`PUT /placement`."""

    placement: Annotated[str, Meta(max_length=128)]
