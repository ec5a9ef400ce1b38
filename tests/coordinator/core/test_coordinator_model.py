"""After any history of events, a quiet network has a correct model and no migration in flight.

Hypothesis searches short histories; long ones come from numbered seeds, which replay.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from simulated_subscribers import SimulatedSubscribers, simulate

from seeds import examples, seeds

SMALL = st.integers(0, 11)
STRATEGIES = ["ldm", "sdm", "gsh", "multistage", "peal"]


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.simulated = SimulatedSubscribers(offloaded=True)

    @rule(who=SMALL, where=SMALL)
    def connect(self, who, where):
        self.simulated.connect(who, where)

    @rule(who=SMALL)
    def place(self, who):
        self.simulated.place(who)

    @rule(who=SMALL)
    def go_offline(self, who):
        self.simulated.go_offline(who)

    @rule(who=SMALL, where=SMALL)
    def cut(self, who, where):
        self.simulated.cut(who, where)

    @rule(who=SMALL, subscription=SMALL)
    def toggle(self, who, subscription):
        self.simulated.toggle(who, subscription)

    @rule(subscription=SMALL, value=st.integers(0, 100))
    def rate(self, subscription, value):
        self.simulated.rate(subscription, value)

    @rule(which=SMALL, fate=SMALL, manner=SMALL)
    def report(self, which, fate, manner):
        self.simulated.report(which, fate, manner)

    @rule()
    def arrive_late(self):
        self.simulated.arrive_late()

    @rule(which=SMALL)
    def kill(self, which):
        self.simulated.kill(which)

    @rule(which=SMALL)
    def start(self, which):
        self.simulated.start(which)

    @rule(which=SMALL, undo=st.booleans())
    def drain(self, which, undo):
        self.simulated.drain(which, undo)

    @rule(which=SMALL)
    def forget(self, which):
        self.simulated.forget(which)

    @rule()
    def restart(self):
        self.simulated.restart()

    @rule()
    def do_later(self):
        self.simulated.do_later()

    @rule()
    def make_plan(self):
        self.simulated.make_plan()

    @rule(seconds=st.integers(1, 8))
    def tick(self, seconds):
        self.simulated.tick(seconds)

    def teardown(self):
        self.simulated.settle()
        self.simulated.check_settled()
        self.simulated.check_ended()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", seeds(4, 40))
def test_in_quiet_times_the_model_is_correct_and_every_migration_has_ended(seed, strategy):
    simulated = simulate(SimulatedSubscribers(strategy=strategy, offloaded=seed % 2 == 0), seed, 400)
    simulated.settle()
    simulated.check_settled()
    simulated.check_ended()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_under_a_constant_load_migrations_stop(seed, strategy):
    simulated = simulate(SimulatedSubscribers(strategy=strategy, offloaded=seed % 2 == 0), seed, 200)
    simulated.settle(90)
    accepted = simulated.accepted()
    simulated.settle(60)
    assert simulated.accepted() == accepted and not simulated.harness.state.host.pending


@pytest.mark.parametrize("seed", range(4))
def test_draining_brokers_are_empty_when_it_is_quiet(seed):
    simulated = simulate(SimulatedSubscribers(strategy="multistage"), seed, 200)
    for which in range(4):
        simulated.start(which)
    simulated.settle(5)
    for which in range(4):
        simulated.drain(which, undo=which != 0)
    simulated.settle(90)
    drained = simulated.brokers["a"].here
    room = sum(6 - len(simulated.brokers[name].here) for name in "bcd")
    assert not drained or not room


@pytest.mark.parametrize("seed", range(4))
def test_the_same_seed_gives_the_same_replies_notes_and_samples(seed):
    first, second = (simulate(SimulatedSubscribers(strategy="multistage"), seed, 300) for _ in range(2))
    assert first.history == second.history and first.harness.notes == second.harness.notes
    assert first.harness.samples == second.harness.samples
