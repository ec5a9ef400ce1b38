"""What must never happen, for every strategy, on generated networks whose brokers follow their orders."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from coordinator_harness import CoordinatorHarness
from hypothesis import given, settings
from hypothesis import strategies as st

from eager import EAGER
from seeds import examples
from tocsin.balancing.strategies import registry
from tocsin.errors import Unauthorized
from tocsin.wire.reports import MigrationOrder
from tocsin.wire.tickets import TicketVerifier

#: Migrations of peal have a cost, or it would regroup without a gain; but it does not wait for long.
SETTINGS: dict[str, dict[str, float]] = {**EAGER, "peal": {"trigger": 0.0, "evaluations": 1.0}}
ALL = pytest.mark.parametrize("strategy", [*sorted(set(registry.BUILT_IN) - {"drain"}), ""])
SOME = settings(deadline=None, max_examples=examples(8))
COOL_DOWN, ROUNDING = 30.0, 1 + 1e-9
#: Seconds after which migrations must have stopped.
LONG = 600


@dataclass
class Broker:
    name: str
    most: int
    capacity: float
    here: dict[str, list[int]]
    fate: str  # "up", "drained", "dies"
    verifier: TicketVerifier
    changed: dict[str, None] = field(default_factory=dict)


class Network:
    """Brokers that follow every order and check it."""

    def __init__(self, strategy: str, drawn: list[tuple[int, int, float, str]], rates: list[float]) -> None:
        self.harness = CoordinatorHarness(
            strategy=strategy,
            settings=SETTINGS.get(strategy, {}),
            balance_every=5.0,
            gone_after=5.0,
            cool_down=COOL_DOWN,
        )
        self.rates = dict(enumerate(rates))
        self.brokers: dict[str, Broker] = {}
        self.orders: list[tuple[float, MigrationOrder]] = []
        for place, (subscribers, room, capacity, fate) in enumerate(drawn):
            name = "abcde"[place]
            here = {
                f"subscriber-{name}{n:02}": sorted({(place + n * k) % len(rates) for k in range(1, 4)})
                for n in range(subscribers)
            }
            most = max(1, subscribers + room)
            key = self.harness.register(name, key=name, max_subscribers=most, capacity=capacity).key
            verifier = TicketVerifier(name, lambda: 1e9 + self.harness.now)
            verifier.key = bytes.fromhex(key)
            self.brokers[name] = Broker(name, most, capacity, here, fate, verifier)
            self.harness.report(name, here, full=True, rates=self.rates)
        for broker in self.brokers.values():
            if broker.fate == "drained":
                self.harness.drain(broker.name)

    @property
    def highest(self) -> float:
        """The highest relative load of the brokers that stay up, computed from their subscribers."""
        found = [0.0]
        for broker in self.brokers.values():
            if broker.fate == "up":
                held = [k for row in broker.here.values() for k in row]
                load = sum(self.rates[k] for k in held) + sum(self.rates[k] for k in set(held))
                found.append(load / broker.capacity)
        return max(found)

    def second(self) -> None:
        self.harness.tick()
        for broker in self.brokers.values():
            if broker.fate == "dies" and self.harness.now > 1010.0:
                continue
            changed, broker.changed = broker.changed, {}
            arrived = {name: broker.here[name] for name in changed if name in broker.here}
            left = [name for name in changed if name not in broker.here]
            for order in self.harness.report(broker.name, arrived, left=left, rates=self.rates).migrations:
                self.follow(broker, order)

    def follow(self, source: Broker, order: MigrationOrder) -> None:
        target, name = self.brokers[order.broker], order.subscriber
        assert name in source.here and target is not source, "an order names a subscriber that is not at its source"
        assert target.fate == "up" or (target.fate == "dies" and self.harness.now < 1015.0), (
            "an order to a dead or drained broker"
        )
        assert len(target.here) < target.most, "an order to a full broker"
        self.orders.append((self.harness.now, order))
        self.check_ticket(target, order)
        target.here[name] = source.here.pop(name)
        target.changed[name] = source.changed[name] = None

    def check_ticket(self, target: Broker, order: MigrationOrder) -> None:
        for other in self.brokers.values():
            if other is not target:
                assert other.verifier.refuses(order.ticket, order.subscriber), "another broker accepts the ticket"
        assert target.verifier.refuses(order.ticket, "subscriber-else"), (
            "the ticket is accepted from another subscriber"
        )
        for place in range(0, len(order.ticket), 23):
            letter = "A" if order.ticket[place] != "A" else "B"
            forged = order.ticket[:place] + letter + order.ticket[place + 1 :]
            assert target.verifier.refuses(forged, order.subscriber), "a forged ticket is accepted"
        assert target.verifier.refuses(order.ticket, order.subscriber) is None
        assert target.verifier.refuses(order.ticket, order.subscriber), "a ticket is accepted twice"

    def subscribers(self) -> list[str]:
        return sorted(name for broker in self.brokers.values() for name in broker.here)


def networks(fates: list[str]) -> st.SearchStrategy[tuple[list[tuple[int, int, float, str]], list[float]]]:
    """For each broker: its subscribers, free places, capacity and fate; and the rates."""
    broker = st.tuples(
        st.integers(0, 12), st.sampled_from([0, 2, 40]), st.sampled_from([1.0, 1.0, 3.0]), st.sampled_from(fates)
    )
    rates = st.lists(st.integers(0, 100).map(float), min_size=3, max_size=8)
    return st.tuples(st.lists(broker, min_size=2, max_size=5), rates)


@ALL
@SOME
@given(drawn=networks(["up", "up", "up", "drained", "dies"]))
def test_no_order_names_a_wrong_source_a_dead_or_full_target_or_a_bad_ticket(strategy, drawn):
    network = Network(strategy, *drawn)
    before = network.subscribers()
    for _ in range(40):
        network.second()
    assert network.subscribers() == before, "a subscriber is at two brokers, or at none"
    gone = {broker.name for broker in network.brokers.values() if broker.fate == "dies"}
    for broker in network.brokers.values():
        for name in broker.here:
            assert network.harness.at(name) == (None if broker.name in gone else broker.name)


@ALL
@SOME
@given(drawn=networks(["up"]))
def test_no_plan_raises_the_maximum_and_migrations_stop(strategy, drawn):
    network = Network(strategy, *drawn)
    highest = network.highest
    for _ in range(LONG):
        network.second()
        # Orders go out with the reports of their sources: in between, one that waits for room lets others pass.
        state = network.harness.state
        assert state.host.projected().loads.maximum <= highest * ROUNDING
        if not state.migrations.pending:
            assert network.highest <= highest * ROUNDING
        if network.harness.now - max((at for at, _ in network.orders), default=1000.0) > 2 * COOL_DOWN:
            return
    raise AssertionError("the load is constant, but subscribers still migrate")


@ALL
@SOME
@given(drawn=networks(["up", "up", "drained"]), rates=st.lists(st.lists(st.integers(0, 100), min_size=8, max_size=8)))
def test_a_changing_load_causes_no_migration_storm(strategy, drawn, rates):
    network = Network(strategy, *drawn)
    for number in range(65):
        if rates:
            now = rates[number // 3 % len(rates)]
            network.rates = {k: float(now[k]) for k in network.rates}
        network.second()
    last: dict[str, float] = {}
    for at, order in network.orders:
        assert at - last.get(order.subscriber, float("-inf")) >= COOL_DOWN, "a migration storm"
        last[order.subscriber] = at


@ALL
@SOME
@given(drawn=networks(["up"]))
def test_a_broker_cannot_act_for_another(strategy, drawn):
    network = Network(strategy, *drawn)
    harness, names = network.harness, list(network.brokers)
    truth = {name: broker.name for broker in network.brokers.values() for name in broker.here}
    for mine in names:
        for other in names:
            if other == mine:
                continue
            with pytest.raises(Unauthorized):
                harness.report(other, full=True, token=harness._tokens[mine], number=99)
            with pytest.raises(Unauthorized):
                harness.register(other, key=mine)
            # It claims all subscribers of the other, which were not placed there.
            harness.report(mine, network.brokers[other].here)
    assert {name: harness.at(name) for name in truth} == truth
