"""The gate holds back plans that only pay in the long run, and limits how often they are made."""

from __future__ import annotations

import pickle

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tocsin.balancing.central_host import CentralHost, plan_for
from tocsin.balancing.host.managers import Concern
from tocsin.balancing.model.load import Load
from tocsin.balancing.model.migration import Migration
from tocsin.balancing.model.rows import Rows
from tocsin.balancing.model.what_if import LOAD
from tocsin.balancing.strategies.peal.regroup_balancer import Populated, Regroup
from tocsin.balancing.strategies.peal.regroup_gate import LONGEST, MARGIN, Permission, Proposal, RegroupGate
from tocsin.balancing.strategies.strategy import StagedStrategy

PROPOSAL = Proposal(migrations=100, evaluations=3, rest=600.0)


def test_the_gate_opens_after_several_proposals_in_a_row():
    gate = RegroupGate()
    for now, proposal in enumerate([PROPOSAL, PROPOSAL, None, PROPOSAL, PROPOSAL]):
        assert gate.permission(now) is Permission.PROPOSE
        gate.evaluated(now, proposal, made=5)
    gate.evaluated(5.0, PROPOSAL, made=5)
    assert gate.permission(6.0) is Permission.SUGGEST


def test_the_proposed_migrations_are_made_and_then_the_gate_rests():
    gate, made = granted(RegroupGate(), 0.0), 0
    now = 10.0
    while gate.permission(now) is Permission.SUGGEST:
        gate.evaluated(now, PROPOSAL, made=30)
        made, now = made + 30, now + 10
    assert 100 <= made <= MARGIN * 100 + 30
    assert gate.permission(now) is Permission.REST
    assert gate.permission(now + PROPOSAL.rest) is Permission.PROPOSE


def test_repeated_proposals_lead_to_longer_rests():
    gate, now, rests = RegroupGate(), 0.0, []
    for _ in range(6):
        gate = granted(gate, now)
        gate.evaluated(now, PROPOSAL, made=1_000)
        rests.append((gate.rest_until - now) / PROPOSAL.rest)
        now = gate.rest_until
    assert rests == [1, 2, 4, LONGEST, LONGEST, LONGEST]


def test_rests_become_shorter_without_proposals():
    gate, now = RegroupGate(rest_factor=LONGEST), 0.0
    for _ in range(3):
        gate.evaluated(now, None, made=0)
    assert gate.rest_factor == 1


def test_a_plan_without_a_proposal_does_not_cause_a_rest():
    gate = granted(RegroupGate(), 0.0)
    gate.evaluated(10.0, None, made=0)
    assert gate.permission(20.0) is Permission.PROPOSE


def test_after_a_fruitless_evaluation_the_next_one_waits():
    gate = RegroupGate()
    gate.evaluated(0.0, PROPOSAL, made=0)
    gate.evaluated(10.0, Proposal(0, 3, 600.0), made=0)
    assert gate.agreeing == 0
    assert [gate.permission(now) for now in (11.0, 69.0, 70.0)] == [
        Permission.REST,
        Permission.REST,
        Permission.PROPOSE,
    ]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 200)), max_size=300))
def test_migrations_are_bounded_by_time_for_any_proposals(evaluations):
    """Evaluations every 10 s: never more than about one plan in a rest, whatever is proposed."""
    gate, total = RegroupGate(), 0
    for number, (proposed, made) in enumerate(evaluations):
        now = number * 10.0
        going = gate.permission(now) is Permission.SUGGEST
        made = min(made, 100) if going and proposed else 0
        total += made
        gate.evaluated(now, PROPOSAL if proposed else None, made)
    rests = 1 + len(evaluations) * 10.0 / PROPOSAL.rest
    cancelled = sum(not proposed for proposed, _ in evaluations)
    assert total <= (rests + cancelled) * (MARGIN * 100 + 101)


def granted(gate: RegroupGate, now: float) -> RegroupGate:
    for _ in range(PROPOSAL.evaluations):
        gate.evaluated(now, PROPOSAL, made=0)
    assert gate.permission(now) is Permission.SUGGEST
    return gate


class Eager(Regroup):
    """Proposes to migrate all subscribers of the first broker to the second, and suggests one until it may."""

    def select_target(self, scope, criterion, state):
        return 1 if self.gate.permission(scope.now) is not Permission.REST else None

    def select_load_to_move(self, scope, criterion, state, target):
        subscribers = scope.model.subscribers(0).tolist()
        if subscribers:
            scope.found[criterion] = Proposal(len(subscribers), 2, 100.0)
        return subscribers if self.gate.permission(scope.now) is Permission.SUGGEST else subscribers[:1]

    def rebalance(self, scope, criterion, state, target, load):
        return [Migration(u, 0, target, 1.0) for u in load]


def host() -> CentralHost:
    """The second broker is strong enough for all subscribers."""
    load = Load.of(Rows([[0]] * 12 + [[1]]), np.array([1.0, 100.0]), np.array([0] * 12 + [1]), np.array([1.0, 1e3]))
    return CentralHost(load, StagedStrategy([Concern(LOAD, Populated(), Eager())]))


def test_the_gate_decides_what_a_balancer_suggests():
    one = host()
    assert [len(one.plan(evaluation * 10.0).migrations) for evaluation in range(4)] == [1, 1, 10, 0]


def test_the_gate_applies_to_a_plan_made_elsewhere():
    one = host()
    counts = []
    for now in (0.0, 10.0, 20.0, 30.0):
        request = pickle.loads(pickle.dumps(one.request_plan(now)))
        counts.append(len(one.adopt(plan_for(request), now).migrations))
    assert counts == [1, 1, 10, 0]


def test_the_gate_of_a_strategy_in_use_again_is_a_new_one():
    one = host()
    one.plan(0.0)
    assert one.deferral(0.0).actions == 12
    one.use(one.strategy, one.guards)
    assert one.deferral(0.0) is None
