"""Load balancing as arithmetic: no sockets, no clock, no global random numbers.

load = Load()                                   which subscriber is at which broker with which subscriptions
balancer = Balancer(load, strategies.make("peal"), Limits(in_flight=500))
plan = balancer.plan(now)                       migrations to begin and to cancel, every decision with its reason
balancer.ended(u, now)                          a migration is done or has failed
"""

from tocsin.balancing.balancer import Balancer
from tocsin.balancing.decisions import Decision, Limits, Plan, Reason
from tocsin.balancing.model.interner import Interner
from tocsin.balancing.model.load import NOWHERE, UNLIMITED, Load, Status
from tocsin.balancing.model.loads import Loads
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import WhatIf
from tocsin.balancing.strategies.strategy import MinMax, Strategy

__all__ = [
    "NOWHERE",
    "UNLIMITED",
    "Balancer",
    "Decision",
    "Interner",
    "Limits",
    "Load",
    "Loads",
    "Migration",
    "MinMax",
    "Plan",
    "Reason",
    "Status",
    "Strategy",
    "WhatIf",
]
