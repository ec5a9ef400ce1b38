"""Key spaces whose peers balance while machines and links fail: every invariant holds, and every session ends."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tocsin.overlay.balancing import strategies
from tocsin.overlay.balancing.balanced_peer import BalancedPeer
from tocsin.overlay.keyspace.peer import Peer
from tocsin.simulation.keyspaces.run import run

RINGS = {"chord": "chord", "mercury": "price", "can": "can", "event cloud": "quadruples"}
CASES = [
    ("chord", "rao-one-to-one"),
    ("chord", "rao-one-to-many"),
    ("chord", "rao-many-to-many"),
    ("mercury", "bharambe"),
    ("can", "gupta"),
    ("event cloud", "eventcloud-relative"),
]
SEEDS = range(5, 8)


def balance(kind: str, name: str, made: list[BalancedPeer]):
    """Often enough that much happens in a run of a few seconds."""

    def make(peer: Peer) -> BalancedPeer:
        starts = len(made)
        settings = {"pool": [f"p{number}" for number in range(1, 10)]} if name.startswith("eventcloud") else {}
        strategy = strategies.make(name, peer, RINGS[kind], settings)
        strategy.composition = replace(
            strategy.composition, exchange_every=0.5, balance_every=1.5, lifetime=5.0, timeout=6.0
        )
        made.append(BalancedPeer(peer, strategy, Random(f"{peer.host} {starts}"), str(starts)))
        return made[-1]

    return make


def broken(kind: str, name: str, seeds: range) -> list[tuple[int, str]]:
    made: list[BalancedPeer] = []
    outcomes = [run(kind, seed, balance=balance(kind, name, made)) for seed in seeds]
    assert any(each.executed for each in made), "no peer has done anything"
    return [(each.seed, str(each.violations[0])) for each in outcomes if each.violations]


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_invariant_holds_while_peers_balance(kind, name):
    assert broken(kind, name, SEEDS) == []


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_every_invariant_holds_while_peers_balance_in_many_runs(kind, name, exploration_seed):
    first = 1_000_000 * (exploration_seed % 1_000_000)
    assert broken(kind, name, range(first, first + 200)) == []
