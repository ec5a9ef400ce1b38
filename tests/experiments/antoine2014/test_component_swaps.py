"""Each component of each strategy exchanged for every other that fits: the contract of all strategies still holds."""

from __future__ import annotations

import pytest

from tocsin.experiments.antoine2014.arena import build
from tocsin.experiments.antoine2014.swaps import SMALL, Swap, attempt, finished, swaps
from tocsin.overlay.balancing.strategies import STRATEGIES
from tocsin.overlay.keyspace.events import Withdraw
from tocsin.overlay.keyspace.member import Member


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_exchange_of_a_component_loses_anything(name):
    assert [(str(swap), wrong) for swap in swaps(name) if (wrong := attempt(swap, 1))] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", STRATEGIES)
def test_no_exchange_of_a_component_loses_anything_with_other_seeds(name, exploration_seed):
    seeds = range(exploration_seed % 10_000 + 2, exploration_seed % 10_000 + 12)
    assert [(str(swap), seed, wrong) for swap in swaps(name) for seed in seeds if (wrong := attempt(swap, seed))] == []


def components(composition):
    found = {("exchanger", 0): composition.exchanger}
    for number, each in enumerate(composition.concerns):
        found |= {("detector", number): each.detector, ("balancer", number): each.balancer}
    return found


@pytest.mark.parametrize("name", STRATEGIES)
def test_an_exchange_touches_no_other_component(name):
    swap = swaps(name)[-1]
    strategy = next(iter(build(name, SMALL, 1).space.peers.values())).strategy
    before = components(strategy.composition)
    after = components(swap.apply(strategy).composition)
    assert [key for key in before if before[key] is not after[key]] == [(swap.part, swap.concern)]


def test_what_a_host_cannot_execute_does_not_fit():
    assert not any(swap.component == "join and replicate" for swap in swaps("bharambe"))
    assert any(swap.component == "join and replicate" for swap in swaps("eventcloud-relative"))
    assert not any(swap.component == "one to one" for swap in swaps("byers"))


def test_the_contract_notices_items_that_are_lost(monkeypatch):
    monkeypatch.setattr(Member, "_leave_on", lambda self: setattr(self, "gone", True))
    arena = build("bharambe", SMALL, 1)
    heaviest = max(arena.space.members, key=lambda each: each.load().items)
    arena.space.net.event(heaviest.me.host, Withdraw(heaviest.me.id))
    assert any("lost" in each for each in finished(arena, 1.0))


def test_the_contract_notices_a_session_that_does_not_end():
    arena = build("rao-one-to-one", SMALL, 1)
    peer = next(iter(arena.space.peers.values()))
    peer.host.sessions.timeout = 1e9
    peer.host.sessions.open("p9", "items", (), 0.0, "0")
    assert any("sessions are open" in each for each in finished(arena, 1.0))


def test_an_exchange_is_named():
    assert str(Swap("gupta", "detector", 1, "relative")) == "gupta: detector 2 is relative"
