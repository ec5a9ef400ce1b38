from __future__ import annotations

from collections import Counter

import pytest

from tocsin.balancing.brokers.broker_load import DRAIN, LOAD, SUBSCRIBERS, BrokerLoad
from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.host.load_model import Handover, Member

RATES = {1: 10.0, 2: 100.0, 3: 7.0}


class Broker:
    """Subscribers with what they have; ``here`` can change."""

    def __init__(self, **here: list[int]) -> None:
        self.here, self.now, self.full = here, 0.0, ""
        self.rates = dict(RATES)

    def receivers(self):
        return Counter(k for ks in self.here.values() for k in ks).items()

    def rate(self, k):
        return self.rates.get(k, 0.0)

    def count(self):
        return len(self.here)

    def movable(self, *, everyone=False):
        return list(self.here)

    def subscriptions(self, name):
        return self.here.get(name)

    def refuses(self, count):
        return self.full or None


def model(capacity: float = 1.0, **here: list[int]) -> tuple[BrokerLoad, Broker]:
    broker = Broker(**here)
    return BrokerLoad("b", broker, lambda name, seconds: f"ticket of {name}", capacity, cool_down=60.0), broker


def give(load: BrokerLoad, *names: str, target: str = "other") -> Migrate:
    return Migrate(load.peer, target, 0.0, "", tuple(load.unit(name) for name in names))


def take(*members: Member) -> tuple[Migrate, tuple[Member, ...]]:
    return Migrate("other", "b", 1.0, "", ("u",)), members


def member(name: str, *ks: int, **more: float) -> Member:
    return Member(name, tuple((k, more.get(f"k{k}", RATES.get(k, 0.0))) for k in ks))


def test_the_load_is_that_of_the_paper_over_the_capacity():
    load, _ = model(2.0, ann=[1, 2], bob=[1])
    assert load.measure(LOAD) == ((1 + 2) * 10.0 + (1 + 1) * 100.0) / 2
    assert load.measure(SUBSCRIBERS) == 1.0
    assert isinstance(load, Handover)


def test_a_group_saves_what_no_other_subscriber_has():
    load, _ = model(ann=[1, 2], bob=[1])
    units = dict(load.units(LOAD))
    assert units == {load.unit("ann"): 10.0 + 2 * 100.0, load.unit("bob"): 10.0}
    assert next(unit for unit, _ in load.units(LOAD)) == load.unit("ann")


def test_a_trial_measures_as_if_a_group_had_left():
    load, _ = model(ann=[1, 2], bob=[1], cid=[3])
    trial = load.what_if()
    trial.apply(give(load, "ann"))
    assert trial.measure(LOAD) == pytest.approx(load.measure(LOAD) - dict(load.units(LOAD))[load.unit("ann")])
    trial.apply(give(load, "bob"))
    assert trial.measure(LOAD) == 2 * 7.0 and trial.measure(SUBSCRIBERS) == 1.0
    trial.apply(Migrate("other", "b", 5.0, "", ("x",)))
    assert trial.measure(LOAD) == 19.0 and load.measure(LOAD) == 3 * 10.0 + 200.0 + 14.0


def test_what_arrives_adds_the_rate_where_it_is_new_here():
    load, _ = model(ann=[1])
    action, members = take(member("bob", 1, 2), member("cid", 2))
    assert load.appraised(LOAD, action, members).load == 10.0 + 3 * 100.0
    assert load.appraised(SUBSCRIBERS, action, members).load == 2.0


def test_the_target_trusts_its_own_rate_before_that_of_the_source():
    load, _ = model(ann=[1])
    action, members = take(member("bob", 1, 9, k1=5_000.0, k9=50.0))
    assert load.appraised(LOAD, action, members).load == 10.0 + 2 * 50.0


def test_those_who_were_admitted_count_as_if_they_were_here():
    load, broker = model(ann=[1])
    before = load.measure(LOAD)
    action, members = take(member("bob", 1, 9, k9=50.0))
    assert load.admit(action, members) == {"bob": "ticket of bob"}
    assert load.measure(LOAD) == before + 10.0 + 100.0 and load.measure(SUBSCRIBERS) == 2.0
    broker.here["bob"] = [1, 9]
    load.tick()
    assert not load.arriving
    # The broker has only begun to measure what is new to it.
    assert load.measure(LOAD) == before + 10.0 + 100.0
    broker.now = 61.0
    load.tick()
    assert load.measure(LOAD) == before + 10.0


def test_those_who_do_not_come_are_forgotten():
    load, broker = model(ann=[1])
    load.admit(*take(member("bob", 1)))
    broker.now = load.seconds
    load.tick()
    assert not load.arriving and load.measure(SUBSCRIBERS) == 1.0


def test_a_subscriber_that_has_arrived_stays_for_the_cool_down_unless_the_broker_is_drained():
    load, broker = model(ann=[1])
    load.admit(*take(member("bob", 1)))
    broker.here["bob"] = [1]
    load.tick()
    assert [unit for unit, _ in load.units(LOAD)] == [load.unit("ann")]
    broker.now, load.draining = 10.0, True
    assert len(load.units(DRAIN)) == 2
    broker.now, load.draining = 60.0, False
    assert len(load.units(LOAD)) == 2


def test_only_a_broker_that_is_being_drained_has_something_to_drain():
    load, _ = model(ann=[1])
    assert load.measure(DRAIN) == 0.0
    load.draining = True
    assert load.measure(DRAIN) == 1.0


def test_a_unit_is_held_as_long_as_one_of_its_members_is_here():
    load, broker = model(ann=[1], bob=[2])
    action = give(load, "ann", "bob")
    assert all(map(load.holds, action.units)) and not load.holds("unknown")
    del broker.here["ann"]
    assert [load.holds(unit) for unit in action.units] == [False, True]
    assert [each.name for each in load.members(action)] == ["bob"]


def test_a_unit_does_not_contain_the_ids_of_subscribers():
    load, _ = model(secret_id=[1])
    assert "secret" not in load.unit("secret_id")


@pytest.mark.parametrize(
    ("members", "why"),
    [
        ([], "no subscriber of it is left"),
        ([member("x", 1)] * 2, "no name of its own"),
        ([Member("")], "no name of its own"),
        ([member("x", 1, k1=float("nan"))], "not a number of bytes"),
        ([member("x", 1, k1=-1.0)], "not a number of bytes"),
        ([Member(f"s{n}") for n in range(9_000)], "too many at once"),
    ],
)
def test_members_that_make_no_sense_are_refused(members, why):
    load, _ = model()
    assert why in str(load.refuses(take()[0], members))


def test_a_full_or_drained_broker_refuses_all():
    load, broker = model()
    assert load.refuses(*take(member("x", 1))) is None
    broker.full = "it is full"
    assert load.refuses(*take(member("x", 1))) == "it is full"
    load.draining = True
    assert "drained" in str(load.refuses(*take(member("x", 1))))
