from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tocsin.cluster.channels.scheduler import ALONE, STALLED, Job, Scheduler


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def scheduler(clock: Clock, **given: object) -> Scheduler:
    failed = given.get("failed", lambda job, error: 1.0)
    ready = given.get("ready", lambda: True)
    return Scheduler(0, clock, ready, failed)  # type: ignore[arg-type]


def step(plan: Scheduler) -> str | None:
    """Runs what is due now, as a worker thread would; returns its name."""
    job, _ = plan._next(plan.clock())
    if job is None:
        return None
    job.running, job.started, job.due = True, plan.clock(), None
    plan._run(job)
    return job.name


def job(
    name: str = "job", period: float | None = None, follows: frozenset[int] | None = None, run: object = None
) -> Job:
    return Job(name, run or (lambda: False), period=period, follows=follows)  # type: ignore[arg-type]


def test_a_repetitive_job_is_due_at_every_period() -> None:
    clock = Clock()
    plan = scheduler(clock)
    plan.add(1, job(period=10.0))
    assert step(plan) is None
    clock.now = 110.0
    assert step(plan) == "job"
    assert plan.jobs[1].due == 120.0


def test_a_run_that_takes_longer_than_its_period_delays_the_next_and_is_counted() -> None:
    clock = Clock()
    plan = scheduler(clock)

    def slow() -> bool:
        clock.now += 25.0
        return False

    plan.add(1, job(period=10.0, run=slow))
    clock.now = 110.0
    step(plan)
    assert plan.jobs[1].late == 2
    assert plan.jobs[1].due == 140.0


def test_a_continuous_job_is_due_when_a_dataset_it_follows_has_a_commit() -> None:
    clock = Clock()
    plan = scheduler(clock)
    plan.add(1, job(follows=frozenset({7})))
    plan.appended({8: 1})
    assert step(plan) is None
    plan.appended({7: 1})
    assert step(plan) == "job"
    assert step(plan) is None


def test_a_continuous_job_with_a_period_starts_at_most_once_a_period() -> None:
    clock = Clock()
    plan = scheduler(clock)
    plan.add(1, job(follows=frozenset({7}), period=5.0))
    plan.appended({7: 1})
    assert step(plan) == "job"
    plan.appended({7: 2})
    assert step(plan) is None
    assert plan.jobs[1].due == 105.0


def test_a_commit_during_a_run_makes_the_job_due_again() -> None:
    clock = Clock()
    plan = scheduler(clock)
    plan.add(1, job(follows=frozenset({7}), run=lambda: plan.appended({7: 2}) or False))
    plan.appended({7: 1})
    step(plan)
    assert plan.jobs[1].due == clock.now


def test_the_job_that_has_waited_longest_goes_first() -> None:
    clock = Clock()
    plan = scheduler(clock)
    plan.add("busy", job("busy", follows=frozenset({7}), run=lambda: True))
    plan.add("patient", job("patient", period=1.0))
    plan.appended({7: 1})
    seen = []
    for _ in range(12):
        seen.append(step(plan))
        clock.now += 0.5
    assert seen.count("patient") >= 4


def test_a_failing_job_is_retried_when_the_callback_says() -> None:
    clock = Clock()
    reported: list[str] = []

    def boom() -> bool:
        raise ValueError("broken")

    def failed(job: Job, error: Exception) -> float:
        reported.append(f"{error} {job.failures}")
        return 3.0

    plan = scheduler(clock, failed=failed)
    plan.add(1, job(period=10.0, run=boom))
    clock.now = 110.0
    step(plan)
    assert reported == ["broken 1"]
    assert plan.jobs[1].due == 113.0


def test_nothing_runs_before_spark_is_ready() -> None:
    clock = Clock()
    plan = scheduler(clock, ready=lambda: False)
    plan.add(1, job(), due_now=True)
    assert step(plan) is None


@pytest.fixture
def running() -> Iterator[Scheduler]:
    import time

    plan = Scheduler(2, time.monotonic, lambda: True, lambda job, error: 1.0)
    plan.start()
    yield plan
    plan.close()


def test_removing_a_job_waits_until_its_run_has_ended(running: Scheduler) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def run() -> bool:
        begun.set()
        go_on.wait(120)
        ended.set()
        return False

    running.add(1, job(run=run), due_now=True)
    assert begun.wait(120)
    threading.Timer(0.01, go_on.set).start()
    running.remove(1)
    assert ended.is_set()


def test_one_job_is_never_run_twice_at_the_same_time(running: Scheduler) -> None:
    inside, most, runs, done = 0, 0, 0, threading.Event()

    def run() -> bool:
        nonlocal inside, most, runs
        inside += 1
        most = max(most, inside)
        runs += 1
        inside -= 1
        if runs >= 50:
            done.set()
        return runs < 50

    running.add(1, job(follows=frozenset({1}), run=run), due_now=True)
    assert done.wait(120)
    assert most == 1


class Cold:
    """Jobs of a Spark that has just started; the first run of each blocks until it is released."""

    def __init__(self, names: str, compiling: int = 1) -> None:
        self.clock = Clock()
        self.plan = Scheduler(0, self.clock, lambda: True, lambda job, error: 1.0, compiling)
        self.warm: set[str] = set()
        for name in names:
            self.plan.add(
                name, Job(name, lambda: False, period=10.0, follows=None, cold=lambda n=name: n not in self.warm)
            )
        self.clock.now += 10.0

    def take(self) -> str | None:
        """The job that an idle thread starts now."""
        job, self.pause = self.plan._next(self.clock())
        if job is None:
            return None
        job.running, job.compiling, job.started, job.due = True, job.cold(), self.clock(), None
        return job.name

    def end(self, name: str) -> None:
        self.warm.add(name)
        self.plan._run(self.plan.jobs[name])


def test_first_runs_in_a_new_spark_session_run_one_after_the_other() -> None:
    cold = Cold("abc")
    assert [cold.take(), cold.take()] == ["a", None]
    cold.end("a")
    assert [cold.take(), cold.take()] == ["b", None]


def test_jobs_that_have_run_before_do_not_wait_for_a_first_run() -> None:
    cold = Cold("abc")
    cold.warm.add("c")
    assert [cold.take(), cold.take(), cold.take()] == ["a", "c", None]


def test_a_long_first_run_does_not_block_other_first_runs_forever() -> None:
    cold = Cold("ab")
    assert [cold.take(), cold.take()] == ["a", None]
    assert cold.pause == ALONE, "a thread checks again when others may begin"
    cold.clock.now += ALONE
    assert cold.take() == "b"


def test_with_more_cores_more_first_runs_run_in_parallel() -> None:
    cold = Cold("abc", compiling=2)
    assert [cold.take(), cold.take(), cold.take()] == ["a", "b", None]


def test_a_thread_that_cannot_start_a_first_run_wakes_for_an_earlier_job() -> None:
    cold = Cold("ab")
    cold.take()
    cold.plan.add("soon", job("soon", period=2.0))
    assert (cold.take(), cold.pause) == (None, 2.0)
    cold.clock.now += 2.0
    assert cold.take() == "soon"


def test_a_job_that_is_due_or_runs_for_long_is_stalled_and_says_why() -> None:
    clock = Clock()
    plan = scheduler(clock)
    seen: list[str] = []

    def long() -> bool:
        clock.now += 45.0
        seen.append(plan.stalled(plan.jobs[1]))
        return False

    plan.add(1, job(period=10.0, run=long))
    assert plan.stalled(plan.jobs[1]) == ""
    clock.now = 110.0 + STALLED
    assert plan.stalled(plan.jobs[1]) == ""
    clock.now += 1.0
    assert plan.stalled(plan.jobs[1]) == "the execution has been due for 31 s"
    step(plan)
    assert seen == ["the execution has been running for 45 s"]
    assert plan.stalled(plan.jobs[1]) == ""
