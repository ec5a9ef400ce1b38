"""Whatever happens, in any order: when it is quiet, the coordinator knows the truth, and nothing is left under way.

Hypothesis looks for short histories; long ones come out of numbered seeds, which replay.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from simulated_subscribers import SimulatedSubscribers, live

from seeds import seeds

SMALL = st.integers(0, 11)
STRATEGIES = ["ldm", "sdm", "gsh", "multistage", "peal"]


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.simulated = SimulatedSubscribers(offloaded=True)

    @rule(who=SMALL, where=SMALL)
    def come(self, who, where):
        self.simulated.come(who, where)

    @rule(who=SMALL)
    def placed(self, who):
        self.simulated.placed(who)

    @rule(who=SMALL)
    def go(self, who):
        self.simulated.go(who)

    @rule(who=SMALL, where=SMALL)
    def cut(self, who, where):
        self.simulated.cut(who, where)

    @rule(who=SMALL, back=SMALL)
    def want(self, who, back):
        self.simulated.want(who, back)

    @rule(back=SMALL, value=st.integers(0, 100))
    def rate(self, back, value):
        self.simulated.rate(back, value)

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
        self.simulated.calm()
        self.simulated.check_calm()
        self.simulated.check_ended()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", seeds(4, 40))
def test_when_it_is_quiet_the_picture_is_the_truth_and_every_move_has_ended(seed, strategy):
    simulated = live(SimulatedSubscribers(strategy=strategy, offloaded=seed % 2 == 0), seed, 400)
    simulated.calm()
    simulated.check_calm()
    simulated.check_ended()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_with_a_constant_load_it_comes_to_rest(seed, strategy):
    simulated = live(SimulatedSubscribers(strategy=strategy, offloaded=seed % 2 == 0), seed, 200)
    simulated.calm(90)
    decided = simulated.decided()
    simulated.calm(60)
    assert simulated.decided() == decided and not simulated.harness.state.balancer.pending


@pytest.mark.parametrize("seed", range(4))
def test_draining_brokers_are_empty_when_it_is_quiet(seed):
    simulated = live(SimulatedSubscribers(strategy="multistage"), seed, 200)
    for which in range(4):
        simulated.start(which)
    simulated.calm(5)
    for which in range(4):
        simulated.drain(which, undo=which != 0)
    simulated.calm(90)
    drained = simulated.brokers["a"].here
    room = sum(6 - len(simulated.brokers[name].here) for name in "bcd")
    assert not drained or not room


@pytest.mark.parametrize("seed", range(4))
def test_the_same_history_has_the_same_answers(seed):
    first, second = (live(SimulatedSubscribers(strategy="multistage"), seed, 300) for _ in range(2))
    assert first.history == second.history and first.harness.notes == second.harness.notes
    assert first.harness.samples == second.harness.samples
