"""Whatever happens, in any order: when it is quiet, the coordinator knows the truth, and nothing is left under way.

Hypothesis looks for short histories; long ones come out of numbered seeds, which replay.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from town import Town, live

from seeds import seeds

SMALL = st.integers(0, 11)
STRATEGIES = ["ldm", "sdm", "gsh", "multistage", "peal"]


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.town = Town(apart=True)

    @rule(who=SMALL, where=SMALL)
    def come(self, who, where):
        self.town.come(who, where)

    @rule(who=SMALL)
    def placed(self, who):
        self.town.placed(who)

    @rule(who=SMALL)
    def go(self, who):
        self.town.go(who)

    @rule(who=SMALL, where=SMALL)
    def cut(self, who, where):
        self.town.cut(who, where)

    @rule(who=SMALL, back=SMALL)
    def want(self, who, back):
        self.town.want(who, back)

    @rule(back=SMALL, value=st.integers(0, 100))
    def rate(self, back, value):
        self.town.rate(back, value)

    @rule(which=SMALL, fate=SMALL, manner=SMALL)
    def report(self, which, fate, manner):
        self.town.report(which, fate, manner)

    @rule()
    def arrive_late(self):
        self.town.arrive_late()

    @rule(which=SMALL)
    def kill(self, which):
        self.town.kill(which)

    @rule(which=SMALL)
    def start(self, which):
        self.town.start(which)

    @rule(which=SMALL, undo=st.booleans())
    def drain(self, which, undo):
        self.town.drain(which, undo)

    @rule(which=SMALL)
    def forget(self, which):
        self.town.forget(which)

    @rule()
    def restart(self):
        self.town.restart()

    @rule()
    def do_later(self):
        self.town.do_later()

    @rule()
    def ponder(self):
        self.town.ponder()

    @rule(seconds=st.integers(1, 8))
    def tick(self, seconds):
        self.town.tick(seconds)

    def teardown(self):
        self.town.calm()
        self.town.check_calm()
        self.town.check_ended()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", seeds(4, 40))
def test_when_it_is_quiet_the_picture_is_the_truth_and_every_move_has_ended(seed, strategy):
    town = live(Town(strategy=strategy, apart=seed % 2 == 0), seed, 400)
    town.calm()
    town.check_calm()
    town.check_ended()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", seeds(2, 10))
def test_with_a_constant_load_it_comes_to_rest(seed, strategy):
    town = live(Town(strategy=strategy, apart=seed % 2 == 0), seed, 200)
    town.calm(90)
    decided = town.decided()
    town.calm(60)
    assert town.decided() == decided and not town.office.state.transfers


@pytest.mark.parametrize("seed", range(4))
def test_draining_brokers_are_empty_when_it_is_quiet(seed):
    town = live(Town(strategy="multistage"), seed, 200)
    for which in range(4):
        town.start(which)
    town.calm(5)
    for which in range(4):
        town.drain(which, undo=which != 0)
    town.calm(90)
    drained = town.brokers["a"].here
    room = sum(6 - len(town.brokers[name].here) for name in "bcd")
    assert not drained or not room


@pytest.mark.parametrize("seed", range(4))
def test_the_same_history_has_the_same_answers(seed):
    first, second = (live(Town(strategy="multistage"), seed, 300) for _ in range(2))
    assert first.history == second.history and first.office.notes == second.office.notes
    assert first.office.samples == second.office.samples
