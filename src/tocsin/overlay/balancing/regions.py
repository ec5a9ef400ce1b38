"""The guard of actions on regions: only a peer that has one can share it, and only an idle one can be given one."""

from __future__ import annotations

from dataclasses import dataclass

from tocsin.balancing.host.actions import ActionKind, AnyAction
from tocsin.balancing.host.guards import InFlight
from tocsin.balancing.host.scope import Scope
from tocsin.overlay.balancing.region_load import RegionLoad

SHARES = (ActionKind.SPLIT, ActionKind.REPLICATE)


@dataclass
class Regions:
    def objection(self, scope: Scope, criterion: str, action: AnyAction, in_flight: InFlight) -> str | None:
        model = scope.model
        if not isinstance(model, RegionLoad):
            return None
        if action.kind in SHARES and action.target == scope.peer and not model.idle:
            return "this peer has a region of its own"
        if action.kind in (*SHARES, ActionKind.REJOIN) and action.source == scope.peer and not model.members:
            return "this peer has no region to share"
        if action.kind is ActionKind.REJOIN and action.target == scope.peer and len(model.members) != 1:
            return "this peer does not have exactly one region to leave"
        return None
