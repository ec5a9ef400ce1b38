"""The flow simulation against a count of single deliveries, and against the coordinator's state machine."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from benchmarks.whole_coordinator import Whole

from tocsin.balancing.model.load import Load
from tocsin.balancing.model.rows import Rows
from tocsin.balancing.placement import Candidate, Nearest, NewSubscriber
from tocsin.broker.core.model.rate import Rate
from tocsin.simulation.flow import PAPER, Execution, Run, Workload, settings, simulate
from tocsin.simulation.flow.debs import Size, debs_simulation
from tocsin.simulation.flow.decision_makers import nearest
from tocsin.simulation.flow.rates import Rates

SMALL = Size(
    brokers=4, subscribers=120, channels=5, backs=50, seconds=200.0, fewest=3, most=12, subscribed_by=80.0, raised=3.0
)
EAGER = {"": {}, "ldm": {"alpha": 0.05}, "sdm": {"alpha": 0.05}, "gsh": {"gamma": 0.1}, "peal": {"mode": "repair"}}


def with_ends(work: Workload, seed: int = 1) -> Workload:
    """A third of the subscriptions ends, and a third of the subscribers logs out, some while others still subscribe."""
    rng = np.random.default_rng(seed)
    subscribed = np.maximum.reduceat(work.made, np.cumsum(work.size) - work.size)
    ended = np.where(rng.random(len(work.made)) < 0.3, work.made + rng.uniform(1.0, 120.0, len(work.made)), np.inf)
    logout = np.where(rng.random(work.subscribers) < 0.3, subscribed + rng.uniform(1.0, 120.0, len(work.login)), np.inf)
    return replace(work, ended=ended, logout=logout)


def one_by_one(work: Workload, run: Run) -> tuple[list[int], list[int], list[int]]:
    """Counts each delivery at the broker that the subscriber had when the channel ran."""
    deliveries, into, out = ([0] * work.brokers for _ in range(3))
    migrations: dict[int, list[tuple[float, int, int]]] = {}
    first = nearest(work.people_at, work.brokers_at)
    for time, u, source, target, _ in run.migrations:
        migrations.setdefault(u, []).append((time, source, target))

    def at(u: int, now: float) -> int:
        place = migrations[u][0][1] if u in migrations else int(first[u])
        for time, _, target in migrations.get(u, ()):
            if time <= now:
                place = target
        return place

    subscribers: dict[int, list[tuple[float, float, int]]] = {}
    never = np.full(len(work.made), np.inf)
    ended = never if work.ended is None else work.ended
    logout = never if work.logout is None else work.logout[work.owner]
    for u, k, made, end in zip(work.owner, work.wanted, work.made, np.minimum(ended, logout), strict=True):
        subscribers.setdefault(int(k), []).append((made, end, int(u)))
    for execution in work.executions:
        for k, size in zip(execution.subscriptions.tolist(), execution.sizes.tolist(), strict=True):
            fetching = set()
            for made, end, u in subscribers.get(k, ()):
                if made <= execution.time < end and size:
                    j = at(u, execution.time)
                    fetching.add(j)
                    deliveries[j] += 1
                    out[j] += size
            for j in fetching:
                into[j] += size
    return deliveries, into, out


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize("strategy", EAGER)
def test_every_delivery_and_byte_is_counted(strategy, ends):
    work = debs_simulation(3, SMALL)
    work = with_ends(work) if ends else work
    run = simulate(work, settings(strategy, "nearest", limits=PAPER, **EAGER[strategy]))
    deliveries, into, out = one_by_one(work, run)
    assert run.deliveries.tolist() == deliveries and sum(deliveries) > 5_000
    assert run.bytes_in.tolist() == into
    assert run.bytes_out.tolist() == out
    assert (len(run.migrations) > 0) == (strategy != "")


@pytest.mark.parametrize("strategy", EAGER)
@pytest.mark.parametrize(("placement", "ends"), [("nearest", False), ("two-choices", False), ("nearest", True)])
@pytest.mark.parametrize("limits", [PAPER, None], ids=["no limits", "limits"])
def test_the_parts_decide_as_the_coordinator_does(strategy, placement, limits, ends):
    work = with_ends(debs_simulation(4, SMALL)) if ends else debs_simulation(4, SMALL)
    how = settings(strategy, placement, limits=limits, **EAGER[strategy])
    parts, whole = simulate(work, how), simulate(work, how, decide=Whole)
    assert parts.migrations == whole.migrations
    assert parts.at.tolist() == whole.at.tolist()
    assert parts.bytes_out.tolist() == whole.bytes_out.tolist()
    assert np.array_equal(parts.samples.load, whole.samples.load)


def test_the_load_equals_that_of_the_model():
    work = debs_simulation(5, SMALL)
    run = simulate(work, settings("ldm", "nearest", alpha=0.05))
    rates = Rates(work.backs)
    for execution in work.executions:
        rates.add(execution.subscriptions, execution.sizes, execution.time)
    model = Load.of(Rows.packed(work.size, work.wanted), rates.per_second(work.seconds), run.at, work.capacity)
    # A broker does not report small changes of its load.
    assert run.samples.load[-1] == pytest.approx(model.loads.F, rel=0.05)


def test_the_same_seed_gives_the_same_run():
    first, again, other = (
        simulate(debs_simulation(seed, SMALL), settings("ldm", "random", alpha=0.05), seed=seed) for seed in (1, 1, 2)
    )
    assert first.migrations == again.migrations and first.bytes_out.tolist() == again.bytes_out.tolist()
    assert first.bytes_out.tolist() != other.bytes_out.tolist()


def test_no_subscriber_is_lost():
    work = debs_simulation(6, SMALL)
    run = simulate(work, settings("gsh", "nearest", limits=PAPER, gamma=0.1))
    assert run.samples.subscribers[-1].sum() == work.subscribers
    assert np.bincount(run.at, minlength=work.brokers).tolist() == run.samples.subscribers[-1].tolist()


def test_a_subscriber_that_logged_out_is_at_no_broker():
    work = with_ends(debs_simulation(6, SMALL))
    run = simulate(work, settings("ldm", "nearest", limits=PAPER, alpha=0.05))
    gone = work.logout <= work.seconds
    assert gone.sum() > 10 and (run.at[gone] == -1).all() and (run.at[~gone] >= 0).all()
    assert run.samples.subscribers[-1].sum() == (~gone).sum()


def test_rates_equal_those_of_a_broker():
    rates, one = Rates(2), Rate(0.0)
    for time, size in ((3.0, 700), (4.5, 20), (64.5, 11)):
        rates.add(np.array([1]), np.array([size]), time)
        one.add(size, time)
    assert rates.per_second(70.0)[1] == pytest.approx(one.bytes_per_second(70.0))
    assert rates.per_second(70.0)[0] == 0.0


def test_nearest_chooses_the_brokers_of_the_placement_strategy():
    rng = np.random.default_rng(1)
    people, brokers = rng.uniform((60, 24), (61, 26), (200, 2)), rng.uniform((60, 24), (61, 26), (7, 2))
    places = [Candidate(str(j), at=tuple(at)) for j, at in enumerate(brokers.tolist())]
    one_by_one = [Nearest().place(NewSubscriber(tuple(at)), places, None) for at in people.tolist()]
    assert [str(j) for j in nearest(people, brokers)] == one_by_one


def test_the_papers_simulation_has_the_papers_shape():
    work = debs_simulation(1)
    assert (work.brokers, work.subscribers, work.backs) == (10, 10_000, 1_000)
    assert 190_000 < len(work.wanted) < 210_000
    assert work.size.min() == 10 and work.size.max() == 30
    assert work.made.max() <= 480.0
    count = np.bincount(nearest(work.people_at, work.brokers_at), minlength=10)
    assert count.max() > 2_000 and (count < 500).sum() >= 2
    runs = {len(execution.subscriptions) for execution in work.executions}
    assert runs == {100} and len(work.executions) == 2 * (360 + 180 + 90 + 60 + 30)


def tiny(**changes: object) -> Workload:
    """One broker, two subscribers with the same subscription, one channel."""
    given = {
        "seconds": 20.0,
        "capacity": np.ones(1),
        "brokers_at": np.array([[60.0, 24.0]]),
        "people_at": np.array([[60.0, 24.0], [60.1, 24.1]]),
        "login": np.array([0.0, 1.0]),
        "size": np.array([1, 1]),
        "wanted": np.array([0, 0], dtype=np.int32),
        "made": np.array([5.0, 10.0]),
        "executions": [Execution(float(t), np.array([0]), np.array([100])) for t in (4, 5, 9, 10, 19)],
        "backs": 1,
    }
    return Workload(**{**given, **changes})  # type: ignore[arg-type]


def test_an_execution_includes_the_subscriptions_made_before_it():
    run = simulate(tiny(), settings("", "nearest"))
    assert run.deliveries.tolist() == [1 + 1 + 2 + 2]
    assert run.bytes_in.tolist() == [400] and run.bytes_out.tolist() == [600] and run.executions == 4


def test_a_run_that_ends_between_two_reports_is_counted_to_its_end():
    assert simulate(tiny(seconds=19.5), settings("", "nearest")).deliveries.tolist() == [6]


@pytest.mark.parametrize(
    ("changes", "trouble"),
    [
        ({"made": np.array([5.0, 0.5])}, "before its login"),
        ({"size": np.array([2, 1])}, "do not fit together"),
        ({"size": np.array([2, 0]), "made": np.array([6.0, 5.0])}, "not in order of time"),
        ({"ended": np.array([5.0, np.inf])}, "ends before it is made"),
        ({"ended": np.array([np.inf])}, "ends before it is made"),
        ({"logout": np.array([5.0, np.inf])}, "logs out before"),
        ({"logout": np.array([np.inf, 0.5])}, "logs out before"),
        ({"executions": [Execution(float(t), np.array([0]), np.array([1])) for t in (2, 1)]}, "not in the order"),
    ],
)
def test_an_invalid_workload_is_refused(changes, trouble):
    with pytest.raises(ValueError, match=trouble):
        tiny(**changes)
