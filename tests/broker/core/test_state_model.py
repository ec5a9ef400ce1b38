"""In any order of events, each subscriber ends with exactly its notifications, and the broker keeps nothing.

Hypothesis generates short histories; long ones come from fixed seeds, which replay.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from model_broker import GRACE, BrokerModel
from model_cluster import KINDS

from seeds import examples, seeds

SMALL = st.integers(0, 5)
BITS = st.booleans()


class Histories(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.model = BrokerModel()

    @rule(who=SMALL)
    def connect(self, who):
        self.model.connect(who)

    @rule(who=SMALL)
    def authenticate(self, who):
        self.model.authenticate(who)

    @rule(who=SMALL)
    def disconnect(self, who):
        self.model.disconnect(who)

    @rule(who=SMALL, channel=SMALL, kind=SMALL, named=BITS)
    def subscribe(self, who, channel, kind, named):
        self.model.connect(who)
        self.model.subscribe(who, channel, kind, named)

    @rule(who=SMALL, which=SMALL, back=SMALL)
    def resubscribe(self, who, which, back):
        self.model.resubscribe(who, which, back)

    @rule(who=SMALL, which=SMALL)
    def unsubscribe(self, who, which):
        self.model.unsubscribe(who, which)

    @rule(who=SMALL)
    def ack(self, who):
        self.model.ack(who)

    @rule(who=SMALL, count=SMALL)
    def read(self, who, count):
        self.model.read(who, count)

    @rule(who=SMALL, ends=BITS)
    def slow(self, who, ends):
        (self.model.drained if ends else self.model.congested)(who)

    @rule(who=SMALL)
    def log_out(self, who):
        self.model.log_out(who)

    @rule(channel=SMALL, kinds=st.sets(st.sampled_from(KINDS)), notified=BITS)
    def execute(self, channel, kinds, notified):
        self.model.execute(channel, kinds)
        if notified:
            self.model.notify()

    @rule(channel=SMALL, kinds=st.sets(st.sampled_from(KINDS)))
    def begin(self, channel, kinds):
        self.model.begin(channel, kinds)

    @rule(push=BITS)
    def notify(self, push):
        (self.model.push if push else self.model.notify)()

    @rule(back=SMALL)
    def notify_again(self, back):
        self.model.notify_again(back)

    @rule()
    def give_up(self):
        self.model.give_up()

    @rule(which=SMALL, page=SMALL, at_once=BITS)
    def serve(self, which, page, at_once):
        self.model.serve(which, page)
        if at_once:
            self.model.answer(-1)

    @rule(which=SMALL)
    def answer(self, which):
        self.model.answer(which)

    @rule(which=SMALL)
    def break_off(self, which):
        self.model.break_off(which)

    @rule(channel=SMALL, count=SMALL)
    def expire(self, channel, count):
        self.model.expire(channel, count)

    @rule(channel=SMALL, kind=SMALL, subscribes=BITS)
    def other(self, channel, kind, subscribes):
        self.model.other(channel, kind, subscribes)

    @rule(channel=SMALL, again=BITS)
    def drop(self, channel, again):
        self.model.drop(channel)
        if again:
            self.model.create(channel)

    @rule(channel=SMALL)
    def create(self, channel):
        self.model.create(channel)

    @rule(seconds=st.sampled_from([0.0, 1.0, GRACE / 2, GRACE + 1]))
    def tick(self, seconds):
        self.model.tick(seconds)

    @rule(applied=BITS, released=BITS)
    def crash(self, applied, released):
        self.model.crash(applied, released)

    @rule()
    def quiet(self):
        self.model.quiet()

    def teardown(self):
        finish(self.model)


def finish(model: BrokerModel) -> None:
    for channel in (0, 1):
        model.create(channel)
    model.quiet()
    model.leave()
    model.replay()


TestHistories = Histories.TestCase
TestHistories.settings = settings(
    max_examples=examples(60), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)


def steps(model: BrokerModel, rng: random.Random) -> list[tuple[int, Callable[[], None]]]:
    """(weight, step) of each."""

    def small() -> int:
        return rng.randrange(8)

    def some() -> set[str]:
        return {kind for kind in KINDS if rng.random() < 0.6}

    def coin() -> bool:
        return rng.random() < 0.5

    return [
        (8, lambda: model.connect(small())),
        (6, lambda: model.authenticate(small())),
        (4, lambda: model.disconnect(small())),
        (10, lambda: model.subscribe(small(), small(), small(), coin())),
        (3, lambda: model.resubscribe(small(), small(), small())),
        (3, lambda: model.unsubscribe(small(), small())),
        (2, lambda: model.ack(small())),
        (12, lambda: model.read(small(), small())),
        (4, lambda: model.congested(small())),
        (4, lambda: model.drained(small())),
        (1, lambda: model.log_out(small())),
        (16, lambda: model.execute(small(), some())),
        (6, lambda: model.begin(small(), some())),
        (12, lambda: model.notify()),
        (4, lambda: model.push()),
        (2, lambda: model.notify_again(small())),
        (1, lambda: model.give_up()),
        (20, lambda: model.serve(small(), small())),
        (24, lambda: model.answer(small())),
        (1, lambda: model.break_off(small())),
        (2, lambda: model.expire(small(), small())),
        (3, lambda: model.other(small(), small(), coin())),
        (1, lambda: model.drop(small())),
        (2, lambda: model.create(small())),
        (4, lambda: model.tick(rng.choice([0.0, 1.0, GRACE / 2, GRACE + 1]))),
        (1, lambda: model.crash(coin(), coin())),
        (1, lambda: model.quiet()),
    ]


def history(seed: int, length: int) -> BrokerModel:
    rng = random.Random(seed)
    model = BrokerModel()
    weighted = steps(model, rng)
    for _, step in rng.choices(weighted, [weight for weight, _ in weighted], k=length):
        step()
    return model


@pytest.mark.parametrize("seed", seeds(150, 2000))
def test_subscribers_lose_nothing_and_the_broker_keeps_nothing(seed):
    finish(history(seed, 400))


@pytest.mark.parametrize("seed", [722, 1588])
def test_a_user_without_ids_receives_the_results_of_a_subscription_that_is_being_restored(seed):
    """Two spellings of one subscription, confirmed one after the other: the second one knows the previous id."""
    finish(history(seed, 400))
