"""Whatever happens, in any order: each subscriber ends with exactly its notifications, and the broker with nothing.

Hypothesis looks for short histories; long ones come out of numbered seeds, which replay.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from model_broker import GRACE, World
from model_cluster import KINDS

from seeds import seeds

SMALL = st.integers(0, 5)
BITS = st.booleans()


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    @rule(who=SMALL)
    def connect(self, who):
        self.world.connect(who)

    @rule(who=SMALL)
    def authenticate(self, who):
        self.world.authenticate(who)

    @rule(who=SMALL)
    def disconnect(self, who):
        self.world.disconnect(who)

    @rule(who=SMALL, channel=SMALL, kind=SMALL, named=BITS)
    def subscribe(self, who, channel, kind, named):
        self.world.connect(who)
        self.world.subscribe(who, channel, kind, named)

    @rule(who=SMALL, which=SMALL, back=SMALL)
    def resubscribe(self, who, which, back):
        self.world.resubscribe(who, which, back)

    @rule(who=SMALL, which=SMALL)
    def unsubscribe(self, who, which):
        self.world.unsubscribe(who, which)

    @rule(who=SMALL)
    def ack(self, who):
        self.world.ack(who)

    @rule(who=SMALL, count=SMALL)
    def read(self, who, count):
        self.world.read(who, count)

    @rule(who=SMALL, ends=BITS)
    def slow(self, who, ends):
        (self.world.drained if ends else self.world.congested)(who)

    @rule(who=SMALL)
    def log_out(self, who):
        self.world.log_out(who)

    @rule(channel=SMALL, kinds=st.sets(st.sampled_from(KINDS)), told=BITS)
    def execute(self, channel, kinds, told):
        self.world.execute(channel, kinds)
        if told:
            self.world.tell()

    @rule(channel=SMALL, kinds=st.sets(st.sampled_from(KINDS)))
    def begin(self, channel, kinds):
        self.world.begin(channel, kinds)

    @rule(push=BITS)
    def tell(self, push):
        (self.world.push if push else self.world.tell)()

    @rule(back=SMALL)
    def tell_again(self, back):
        self.world.tell_again(back)

    @rule()
    def give_up(self):
        self.world.give_up()

    @rule(which=SMALL, page=SMALL, at_once=BITS)
    def serve(self, which, page, at_once):
        self.world.serve(which, page)
        if at_once:
            self.world.answer(-1)

    @rule(which=SMALL)
    def answer(self, which):
        self.world.answer(which)

    @rule(which=SMALL)
    def break_off(self, which):
        self.world.break_off(which)

    @rule(channel=SMALL, count=SMALL)
    def expire(self, channel, count):
        self.world.expire(channel, count)

    @rule(channel=SMALL, kind=SMALL, wants=BITS)
    def other(self, channel, kind, wants):
        self.world.other(channel, kind, wants)

    @rule(channel=SMALL, again=BITS)
    def drop(self, channel, again):
        self.world.drop(channel)
        if again:
            self.world.create(channel)

    @rule(channel=SMALL)
    def create(self, channel):
        self.world.create(channel)

    @rule(seconds=st.sampled_from([0.0, 1.0, GRACE / 2, GRACE + 1]))
    def tick(self, seconds):
        self.world.tick(seconds)

    @rule(applied=BITS, released=BITS)
    def crash(self, applied, released):
        self.world.crash(applied, released)

    @rule()
    def quiet(self):
        self.world.quiet()

    def teardown(self):
        finish(self.world)


def finish(world: World) -> None:
    for channel in (0, 1):
        world.create(channel)
    world.quiet()
    world.leave()
    world.replay()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def steps(world: World, rng: random.Random) -> list[tuple[int, Callable[[], None]]]:
    """(how often, what)."""

    def small() -> int:
        return rng.randrange(8)

    def some() -> set[str]:
        return {kind for kind in KINDS if rng.random() < 0.6}

    def coin() -> bool:
        return rng.random() < 0.5

    return [
        (8, lambda: world.connect(small())),
        (6, lambda: world.authenticate(small())),
        (4, lambda: world.disconnect(small())),
        (10, lambda: world.subscribe(small(), small(), small(), coin())),
        (3, lambda: world.resubscribe(small(), small(), small())),
        (3, lambda: world.unsubscribe(small(), small())),
        (2, lambda: world.ack(small())),
        (12, lambda: world.read(small(), small())),
        (4, lambda: world.congested(small())),
        (4, lambda: world.drained(small())),
        (1, lambda: world.log_out(small())),
        (16, lambda: world.execute(small(), some())),
        (6, lambda: world.begin(small(), some())),
        (12, lambda: world.tell()),
        (4, lambda: world.push()),
        (2, lambda: world.tell_again(small())),
        (1, lambda: world.give_up()),
        (20, lambda: world.serve(small(), small())),
        (24, lambda: world.answer(small())),
        (1, lambda: world.break_off(small())),
        (2, lambda: world.expire(small(), small())),
        (3, lambda: world.other(small(), small(), coin())),
        (1, lambda: world.drop(small())),
        (2, lambda: world.create(small())),
        (4, lambda: world.tick(rng.choice([0.0, 1.0, GRACE / 2, GRACE + 1]))),
        (1, lambda: world.crash(coin(), coin())),
        (1, lambda: world.quiet()),
    ]


def history(seed: int, length: int) -> World:
    rng = random.Random(seed)
    world = World()
    weighted = steps(world, rng)
    for _, step in rng.choices(weighted, [weight for weight, _ in weighted], k=length):
        step()
    return world


@pytest.mark.parametrize("seed", seeds(150, 2000))
def test_nothing_is_lost_and_nothing_is_left(seed):
    finish(history(seed, 400))


@pytest.mark.parametrize("seed", [722, 1588])
def test_a_user_without_ids_gets_the_results_of_a_subscription_that_is_still_restored(seed):
    """Two spellings of one subscription, confirmed one after the other: the second one knows the previous id."""
    finish(history(seed, 400))
