"""Load balancing as arithmetic: no sockets, no clock, no global random numbers.

load = Load()                                   which subscriber is at which broker with which subscriptions
host = CentralHost(load, registry.make("peal"), Limits(in_flight=500))
plan = host.plan(now)                           migrations to begin and to cancel, every decision with its reason
host.ended(u, now)                              a migration is done or has failed
"""

from tocsin.balancing.central_host import CentralHost
from tocsin.balancing.decisions import Decision, Limits, Plan, Reason
from tocsin.balancing.model.interner import Interner
from tocsin.balancing.model.load import NOWHERE, UNLIMITED, Load, Status
from tocsin.balancing.model.loads import Loads
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.strategy import MinMax, StagedStrategy, Strategy

__all__ = [
    "NOWHERE",
    "UNLIMITED",
    "CentralHost",
    "Decision",
    "Interner",
    "Limits",
    "Load",
    "Loads",
    "Migration",
    "MinMax",
    "Plan",
    "Reason",
    "StagedStrategy",
    "Status",
    "Strategy",
    "WhatIf",
]
