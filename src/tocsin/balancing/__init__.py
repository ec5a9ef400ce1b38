"""Load balancing as arithmetic: no sockets, no clock, no chance of its own.

load = Load()                                   who is where with what, told by reports and subscriptions
balancer = Balancer(load, strategies.make("peal"), Limits(moves=500))
plan = balancer.plan(now)                       moves to begin, moves to call off, every decision with its reason
balancer.finished(u, now), balancer.failed(u, now)
"""

from tocsin.balancing.balancer import Balancer
from tocsin.balancing.decisions import Decision, Limits, Plan, Reason
from tocsin.balancing.load import NOWHERE, UNLIMITED, Load, Status
from tocsin.balancing.loads import Loads
from tocsin.balancing.move import Move
from tocsin.balancing.names import Names
from tocsin.balancing.strategy import MinMax, Strategy
from tocsin.balancing.trial import Trial

__all__ = [
    "NOWHERE",
    "UNLIMITED",
    "Balancer",
    "Decision",
    "Limits",
    "Load",
    "Loads",
    "MinMax",
    "Move",
    "Names",
    "Plan",
    "Reason",
    "Status",
    "Strategy",
    "Trial",
]
