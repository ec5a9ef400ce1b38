"""The components of the host that decides about all brokers."""

from __future__ import annotations

from functools import partial

from tocsin.balancing import central_guards as guards
from tocsin.balancing.catalogue.catalogue import Catalogue
from tocsin.balancing.catalogue.component import HEAVY, LIGHT, Component, Kind, Reach
from tocsin.balancing.catalogue.places import COORDINATOR
from tocsin.balancing.decisions import EXECUTES
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.what_if import DRAINING, LOAD
from tocsin.balancing.strategies.debs2019.gsh import GSH
from tocsin.balancing.strategies.debs2019.ldm import LDM
from tocsin.balancing.strategies.debs2019.sdm import SDM
from tocsin.balancing.strategies.detectors import Cov, Draining, Newcomer
from tocsin.balancing.strategies.drain import Drain
from tocsin.balancing.strategies.exchangers import PacedReports, Reports
from tocsin.balancing.strategies.join import Join
from tocsin.balancing.strategies.peal.regroup_balancer import Populated, Regroup
from tocsin.balancing.strategies.peal.repair_balancer import Reachable, Repair
from tocsin.balancing.strategies.strategy import Always

_LOAD, _DRAINING = frozenset({LOAD}), frozenset({DRAINING})

ALWAYS = "As regroup, whenever that lowers the maximum or the total, whatever it costs."


COMPONENTS = (
    Component(Kind.MODEL, "subscribers", Load, fixed=True),
    Component(Kind.CRITERION, LOAD, Load, fixed=True, text="Bytes in and out a second of a broker, over its capacity."),
    Component(Kind.CRITERION, DRAINING, Load, fixed=True, text="The subscribers of brokers that are being drained."),
    Component(Kind.EXCHANGER, "paced-reports", PacedReports, reach=Reach.EVERY_PEER),
    Component(Kind.EXCHANGER, "reports", Reports, reach=Reach.EVERY_PEER),
    Component(Kind.DETECTOR, "always", Always, finds=HEAVY),
    Component(Kind.DETECTOR, "cov", Cov, _LOAD, finds=HEAVY),
    Component(Kind.DETECTOR, "draining", Draining, _DRAINING, finds=HEAVY),
    Component(Kind.DETECTOR, "newcomer", Newcomer, _LOAD, finds=LIGHT),
    Component(Kind.DETECTOR, "populated", Populated, finds=HEAVY),
    Component(Kind.DETECTOR, "reachable", Reachable, _LOAD, finds=HEAVY),
    Component(Kind.BALANCER, "drain", Drain, _DRAINING),
    Component(Kind.BALANCER, "gsh", GSH, _LOAD),
    Component(Kind.BALANCER, "join", Join, _LOAD),
    Component(Kind.BALANCER, "ldm", LDM, _LOAD),
    Component(Kind.BALANCER, "regroup", Regroup, _LOAD),
    Component(Kind.BALANCER, "regroup-always", partial(Regroup, always=True), _LOAD, text=ALWAYS),
    Component(Kind.BALANCER, "repair", Repair, _LOAD),
    Component(Kind.BALANCER, "sdm", SDM, _LOAD),
    Component(Kind.GUARD, "known", guards.Known, fixed=True),
    Component(Kind.GUARD, "not-pending", guards.NotPending, fixed=True),
    Component(Kind.GUARD, "at-source", guards.AtSource, fixed=True),
    Component(Kind.GUARD, "different", guards.Different, fixed=True),
    Component(Kind.GUARD, "open", guards.Open, fixed=True),
    Component(Kind.GUARD, "room", guards.Room, fixed=True),
    Component(Kind.GUARD, "at-most", guards.AtMost),
    Component(Kind.GUARD, "least-gain", guards.LeastGain),
    Component(Kind.GUARD, "never-raise", guards.NeverRaise),
    Component(Kind.GUARD, "per-broker", guards.PerBroker),
    Component(Kind.GUARD, "rest", guards.Rest),
    Component(
        Kind.ACTION, ActionKind.MIGRATE.value, Migration, fixed=True, text="A subscriber leaves a broker for another."
    ),
)


def catalogue() -> Catalogue:
    return Catalogue(COORDINATOR, COMPONENTS, EXECUTES)
