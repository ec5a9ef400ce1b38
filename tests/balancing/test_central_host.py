"""The host decides and gives a reason for every refusal."""

from __future__ import annotations

import pickle

import pytest
from clusters import skewed

from tocsin.balancing.central_host import CentralHost, plan_for
from tocsin.balancing.decisions import Limits, Reason
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.model.load import Load, Status
from tocsin.balancing.model.migration import Migration, collapsed
from tocsin.balancing.strategies import registry
from tocsin.balancing.strategies.debs2019.ldm import LDM, ldm
from tocsin.balancing.strategies.strategy import StagedStrategy
from tocsin.errors import UserError


class Remembering(LDM):
    def __init__(self) -> None:
        self.learned: list[tuple] = []

    def refused(self, migration, reason, now):
        self.learned.append((migration, reason))


class Fixed:
    """Always suggests the same migrations."""

    def __init__(self, *migrations: Migration) -> None:
        self.migrations = migrations

    def suggest(self, view):
        yield from self.migrations

    def objective(self, view):
        return 0.0


def small() -> Load:
    """Broker 0 has three subscribers, 1 has one, 2 none; all have the same BE subscriptions."""
    load = Load()
    for j in range(3):
        load.broker(j)
    load.rates([0, 1], [10.0, 1.0])
    for u, j in enumerate([0, 0, 0, 1]):
        load.join(u, j, [0, 1])
    return load


def reasons(load: Load, *migrations: Migration, limits: Limits | None = None) -> list[Reason]:
    return [decision.reason for decision in CentralHost(load, Fixed(*migrations), limits).plan(0.0).decisions]


def test_a_migration_to_a_less_loaded_broker_is_accepted():
    assert reasons(small(), Migration(0, 0, 2)) == [Reason.ACCEPTED]


@pytest.mark.parametrize(
    ("migration", "reason"),
    [
        (Migration(0, 1, 2), Reason.ELSEWHERE),
        (Migration(0, 0, 0), Reason.SAME),
        (Migration(0, 0, 9), Reason.UNKNOWN),
        (Migration(99, 0, 1), Reason.UNKNOWN),
    ],
)
def test_an_invalid_migration_is_refused(migration, reason):
    assert reasons(small(), migration) == [reason]


@pytest.mark.parametrize(
    ("status", "reason"),
    [(Status.GONE, Reason.GONE), (Status.DRAINING, Reason.DRAINING), (Status.FULL, Reason.FULL)],
)
def test_a_closed_broker_gets_no_subscribers(status, reason):
    load = small()
    load.mark(2, status)
    assert reasons(load, Migration(0, 0, 2)) == [reason]


def test_the_limit_of_subscribers_of_a_broker_holds():
    load = small()
    load.broker(2, max_subscribers=1)
    assert reasons(load, Migration(0, 0, 2), Migration(1, 0, 2)) == [Reason.ACCEPTED, Reason.CROWDED]


def test_a_place_freed_by_a_later_migration_is_used():
    load = small()
    load.broker(1, max_subscribers=1)
    assert reasons(load, Migration(0, 0, 1), Migration(3, 1, 2)) == [Reason.ACCEPTED, Reason.ACCEPTED]


def test_a_subscriber_has_at_most_one_pending_migration():
    assert reasons(small(), Migration(0, 0, 2), Migration(0, 0, 1)) == [Reason.ACCEPTED, Reason.PENDING]


def test_only_a_mandatory_migration_may_raise_the_maximum():
    load = small()
    for u in (10, 11):
        load.join(u, 1, [0, 1])
    assert reasons(load, Migration(0, 0, 1)) == [Reason.RAISES]
    assert reasons(load, Migration(0, 0, 1, mandatory=True)) == [Reason.ACCEPTED]


def test_a_migration_with_too_little_gain_is_refused():
    load = small()
    assert reasons(load, Migration(3, 1, 2), limits=Limits(least_gain=0.1)) == [Reason.WORTHLESS]
    assert reasons(load, Migration(3, 1, 2, gain=20.0), limits=Limits(least_gain=0.1)) == [Reason.ACCEPTED]
    assert reasons(load, Migration(0, 0, 2), limits=Limits(least_gain=0.1)) == [Reason.ACCEPTED]


def test_the_required_gain_does_not_grow_with_the_number_of_subscribers():
    load = Load()
    for j in range(2):
        load.broker(j)
    load.rates([0], [1.0])
    for u in range(3_000):
        load.join(u, int(u >= 2_000), [0])
    assert reasons(load, Migration(0, 0, 1), limits=Limits(least_gain=0.1)) == [Reason.ACCEPTED]


def test_the_limits_in_total_and_per_broker_hold():
    migrations = [Migration(0, 0, 2), Migration(1, 0, 1)]
    assert reasons(small(), *migrations, limits=Limits(in_flight=1)) == [Reason.ACCEPTED, Reason.IN_FLIGHT]
    assert reasons(small(), *migrations, limits=Limits(per_broker=1)) == [Reason.ACCEPTED, Reason.SOURCE]
    migrations = [Migration(0, 0, 2), Migration(3, 1, 2)]
    assert reasons(small(), *migrations, limits=Limits(per_broker=1)) == [Reason.ACCEPTED, Reason.TARGET]


def test_pending_migrations_count_as_done():
    load = skewed()
    host = CentralHost(load, ldm(0.05), Limits(in_flight=10_000, per_broker=10_000))
    plan = host.plan(0.0)
    assert len(plan.migrations) > 20 and host.plan(1.0).migrations == []
    for migration in plan.migrations:
        load.attach(migration.subscriber, migration.target)
    assert host.projected().loads.cov == pytest.approx(load.loads.cov)
    assert load.loads.cov <= 0.05
    host.plan(2.0)
    assert host.pending == {}


def test_a_migrated_subscriber_cools_down():
    load = small()
    host = CentralHost(load, Fixed(Migration(0, 2, 1), Migration(0, 0, 2)), Limits(cool_down=60))
    load.join(4, 0, [0, 1])
    assert host.plan(0.0).migrations == [Migration(0, 0, 2)]
    load.attach(0, 2)
    assert [decision.reason for decision in host.plan(10.0).decisions] == [Reason.COOLING, Reason.ELSEWHERE]
    assert host.plan(71.0).migrations == [Migration(0, 2, 1)]


def test_a_failed_migration_is_no_longer_pending_and_cools_down():
    host = CentralHost(small(), Fixed(Migration(0, 0, 2)))
    assert host.plan(0.0).migrations
    host.ended(0, 1.0)
    assert host.pending == {} and host.plan(2.0).decisions[0].reason is Reason.COOLING
    assert host.plan(62.0).migrations


@pytest.mark.parametrize("change", ["left", "migrated", "drained", "gone"])
def test_a_pending_migration_that_became_pointless_is_dropped(change):
    load = small()
    host = CentralHost(load, Fixed(Migration(0, 0, 2)))
    host.plan(0.0)
    {
        "left": lambda: load.leave(0),
        "migrated": lambda: load.attach(0, 1),
        "drained": lambda: load.mark(2, Status.DRAINING),
        "gone": lambda: load.mark(2, Status.GONE),
    }[change]()
    assert host.plan(1.0).dropped == [Migration(0, 0, 2)] and host.pending == {}


def test_a_dry_run_changes_nothing():
    host = CentralHost(skewed(), ldm())
    assert plan_for(host.snapshot(0.0)).migrations and not host.pending
    assert plan_for(host.snapshot(0.0)).migrations == host.plan(0.0).migrations


class Learning(Fixed):
    def __init__(self, *migrations: Migration) -> None:
        super().__init__(*migrations)
        self.learned: list[tuple] = []

    def refused(self, migration, reason, now):
        self.learned.append((migration, reason, now))


def test_a_strategy_learns_what_was_refused_and_why():
    strategy = Learning(Migration(0, 0, 2), Migration(1, 0, 9))
    CentralHost(small(), strategy).plan(3.0)
    assert strategy.learned == [(Migration(1, 0, 9), Reason.UNKNOWN, 3.0)]


def test_it_also_learns_from_a_plan_that_was_made_in_another_process():
    load, strategy = small(), Learning(Migration(0, 0, 2), Migration(1, 0, 9), Migration(2, 0, 2))
    host = CentralHost(load, strategy)
    made = plan_for(pickle.loads(pickle.dumps(host.request_plan(0.0))))
    load.mark(2, Status.FULL)
    host.adopt(made, 5.0)
    assert [(each.subscriber, reason) for each, reason, _ in strategy.learned] == [
        (1, Reason.UNKNOWN),
        (0, Reason.FULL),
        (2, Reason.FULL),
    ]


def test_a_balancer_learns_what_was_refused_by_its_criterion():
    strategy = ldm(0.0)
    strategy.stages[0].balancer = Remembering()
    other = registry.make("drain")
    other.stages[0].balancer = Remembering()
    load = skewed()
    host = CentralHost(load, StagedStrategy([*other.stages, *strategy.stages]), Limits(in_flight=3))
    assert len(host.plan(0.0).migrations) == 3
    assert {reason for _, reason in strategy.stages[0].balancer.learned} == {Reason.IN_FLIGHT}
    assert other.stages[0].balancer.learned == []


def test_a_balancer_whose_actions_the_host_cannot_execute_is_refused():
    strategy = ldm()
    strategy.stages[0].balancer.actions = frozenset({ActionKind.SPLIT})
    with pytest.raises(UserError, match="a host that can split") as refused:
        CentralHost(small(), strategy)
    assert refused.value.hint == "this host can: migrate"


def test_a_forgotten_subscriber_has_no_pending_migration():
    host = CentralHost(small(), Fixed(Migration(0, 0, 2)))
    host.plan(0.0)
    host.forget(0)
    assert host.pending == {}
    host.ended(0, 1.0)


def test_migrations_of_one_subscriber_are_merged_into_one():
    load = small()
    assert collapsed(
        load.at, [Migration(0, 0, 1), Migration(1, 0, 2), Migration(0, 1, 2), Migration(3, 1, 2), Migration(3, 2, 1)]
    ) == [
        Migration(1, 0, 2),
        Migration(0, 0, 2),
    ]
