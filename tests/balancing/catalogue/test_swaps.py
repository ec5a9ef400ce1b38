"""Each component of each strategy is swapped for every other one that fits, and the contract still holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import numpy as np
import pytest
from golden_plans import network as generated
from host_network import Network, broker_network

from tocsin.balancing.brokers import strategies as brokers
from tocsin.balancing.brokers.broker_load import LOAD, SUBSCRIBERS
from tocsin.balancing.catalogue.blueprint import GUARDS, Blueprint
from tocsin.balancing.catalogue.places import BROKERS, COORDINATOR, catalogue
from tocsin.balancing.central_host import CentralHost
from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.host.host import Composition, Host, Received
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.sessions import Sessions
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.strategy import StagedStrategy

#: One that informs every peer, except where directories are asked.
EXCHANGERS = {"rao-one-to-many": "light-to-directory", "rao-many-to-many": "all-to-directory"}
OFTEN = {"balance_every": 1.0, "exchange_every": 1.0, "sessions": 4}
FEW = {"balance_every": 5.0, "exchange_every": 2.0, "cool_down": 0.0}


def swaps(place: str, blueprint: Blueprint) -> Iterator[tuple[str, object]]:
    """Place in the strategy, and what a configuration would say."""
    found = catalogue(place)
    for slot in blueprint.slots:
        for name in found.fitting(blueprint, slot):
            example = found.component(blueprint.slots[slot].kind, name).example()
            given = {"use": name} | dict(example.settings)
            yield slot, [given] if slot == GUARDS else given


CENTRAL = [
    pytest.param(name, slot, given, id=f"{name}-{slot}-{given['use']}")
    for name in sorted(registry.BUILT_IN)
    for slot, given in swaps(COORDINATOR, registry.make(name).blueprint)
]
AMONG = [
    pytest.param(name, slot, given, id=f"{name}-{slot}-{(given[0] if slot == GUARDS else given)['use']}")
    for name in brokers.STRATEGIES
    for slot, given in swaps(BROKERS, brokers.blueprint(name, FEW))
]


def test_there_are_many_combinations():
    assert len(CENTRAL) > 60 and len(AMONG) > 50


@pytest.mark.parametrize(("name", "slot", "given"), CENTRAL)
def test_a_strategy_of_the_coordinator_holds_its_contract(name, slot, given):
    blueprint, parts = catalogue(COORDINATOR).compose(registry.make(name).blueprint, {slot: given})
    load = generated(np.random.default_rng([3, 14]))
    before, host = load.loads.maximum, CentralHost(load, StagedStrategy(parts.concerns, blueprint))
    plan = host.plan(0.0)
    subscribers = [each.subscriber for each in plan.migrations]
    assert len(subscribers) == len(set(subscribers))
    for each in plan.migrations:
        assert load.at[each.subscriber] == each.source != each.target
        load.attach(each.subscriber, each.target)
    assert load.loads.maximum <= before * (1 + 1e-9)


def network(make: Callable[[], Composition]) -> Network:
    return broker_network({f"b{i}": 2 + 3 * i for i in range(4)}, make)


@pytest.mark.parametrize(("name", "slot", "given"), AMONG)
def test_a_strategy_among_brokers_holds_its_contract(name, slot, given):
    net = network(lambda: brokers.make(name, FEW, {slot: given}))
    before = net.units
    for _ in range(60):
        net.tick()
        net.run()
        net.check()
    assert net.units == before and net.open == 0


BALANCING = [
    pytest.param(name, detector, id=f"{name}-{detector}")
    for name in brokers.STRATEGIES
    if name != "byers"
    for detector in catalogue(BROKERS).fitting(
        brokers.blueprint(name, FEW).swapped({"exchanger": EXCHANGERS.get(name, "push-to-neighbours")}), "detector"
    )
]


@pytest.mark.parametrize(("name", "detector"), BALANCING)
def test_every_detector_that_fits_lowers_the_maximum(name, detector):
    given = {"use": "absolute", "threshold": 20.0} if detector == "absolute" else detector
    swap = {"detector": given, "exchanger": EXCHANGERS.get(name, "push-to-neighbours")}
    net = network(lambda: brokers.make(name, FEW, swap))
    before = max(model.measure(LOAD) for model in net.models.values())
    for _ in range(120):
        net.tick()
        net.run()
    assert max(model.measure(LOAD) for model in net.models.values()) < before


# At run time.


def another(rng: Random) -> Composition:
    """A strategy with one component swapped, or with none."""
    name, slot, given = rng.choice(AMONG).values
    return brokers.make(name, OFTEN, {slot: given} if rng.random() < 0.5 else {})


def swapped_at_random(seed: int) -> int:
    """Messages arrive late, twice, in any order, and at a host that runs other components than when they were sent.

    How many swaps happened while something was executed."""
    rng = Random(seed)
    net = network(lambda: another(rng))
    before, swapped = net.units, 0
    for _ in range(500):
        match rng.randrange(8):
            case 0 | 1:
                net.tick()
            case 2 if net.executing and rng.random() < 0.3:
                net.finish(rng.randrange(len(net.executing)), ok=rng.random() < 0.8)
            case 3 if rng.random() < 0.3:
                peer = rng.choice([*(peer for peer, _ in net.executing), *net.hosts])
                net.hosts[peer].use(another(rng), net.now)
                swapped += bool(net.executing)
            case _ if net.wire:
                net.deliver(rng.randrange(len(net.wire)), keep=rng.random() < 0.1)
        net.check()
        assert net.units == before
    for _ in range(10):
        net.run()
        net.tick(100.0)
    net.run()
    assert net.units == before and net.open == 0
    return swapped


def test_swaps_with_messages_in_flight_lose_nothing_and_every_session_ends():
    assert sum(swapped_at_random(seed) for seed in range(20)) > 15


def test_a_unit_that_is_being_executed_stays_in_its_session_across_a_swap():
    net = network(lambda: brokers.make("byers", OFTEN))
    give = Migrate("b3", "b0", 1.0, "", ("b3.0",))
    net.put("b3", Received("b0", ms.Advise(SUBSCRIBERS, (give,))))
    while not net.executing:
        net.deliver()
    net.hosts["b3"].use(brokers.make("rao-one-to-one", OFTEN), net.now)
    net.put("b3", Received("b0", ms.Advise(SUBSCRIBERS, (give,))))
    net.put("b3", Received("b1", ms.Advise(LOAD, (Migrate("b3", "b1", 1.0, "", ("b3.0",)),))))
    assert {each.reason for each in net.hosts["b3"].refusals} == {"b3.0 takes part in another session"}
    net.run()
    assert net.models["b0"].holds("b3.0") and net.open == 0


def test_load_information_of_another_criterion_and_answers_to_earlier_pulls_start_nothing():
    net = network(lambda: brokers.make("bharambe", FEW))
    for _ in range(4):
        net.tick()
    asked = [each for each in net.wire if isinstance(each[2], ms.Pull)]
    assert asked
    for each in net.hosts.values():
        each.use(brokers.make("byers", FEW), net.now)
    net.run()  # reports to pulls of the previous strategy
    assert all(len(each.registry) == 0 and not each.sessions for each in net.hosts.values())
    net.put("b0", Received("b1", ms.Push((LoadInformation("b1", LOAD, 9.0), LoadInformation("b1", SUBSCRIBERS, 3.0)))))
    assert net.hosts["b0"].registry.get_load_report(LOAD) == []
    assert net.hosts["b0"].registry.get_load_report(SUBSCRIBERS) != []


@pytest.mark.parametrize("bug", ["sessions", "pulls"])
def test_a_swap_that_forgets_sessions_or_keeps_pulls_would_be_found(monkeypatch, bug):
    use = Host.use

    def broken(self: Host, strategy: Composition, now: float) -> None:
        asked = self.information._asked
        use(self, strategy, now)
        if bug == "pulls":
            self.information._asked = asked
        else:
            self.sessions = Sessions(self.peer, strategy.timeout)

    monkeypatch.setattr(Host, "use", broken)
    with pytest.raises(AssertionError):
        if bug == "pulls":
            test_load_information_of_another_criterion_and_answers_to_earlier_pulls_start_nothing()
        else:
            test_a_unit_that_is_being_executed_stays_in_its_session_across_a_swap()
