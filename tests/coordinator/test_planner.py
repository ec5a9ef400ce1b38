"""Plans made in another process are the same, whatever the strategy does to that process."""

from __future__ import annotations

import asyncio
import os

import pytest
from odd_strategies import Dies, Fails, Hangs, Prints, Unpicklable

from tocsin.balancing.central_host import CentralHost, plan_for
from tocsin.balancing.model.load import Load
from tocsin.balancing.plan_request import PlanRequest
from tocsin.balancing.strategies import registry
from tocsin.coordinator.planner import Planner
from tocsin.errors import SystemFailure


def request(strategy=None) -> PlanRequest:
    load = Load()
    for broker in range(3):
        load.broker(broker)
    load.rates(range(6), [10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
    for u in range(60):
        load.join(u, 0, [u % 6, (u + 1) % 6])
    return CentralHost(load, strategy or registry.make("peal")).snapshot(0.0)


def run(work, **settings):
    """Runs ``work`` with a planner that makes no plan in this process."""

    async def main():
        planner = Planner(**{"small": 0} | settings)
        try:
            return await work(planner)
        finally:
            planner.close()

    return asyncio.run(main())


def test_the_other_process_makes_the_same_plan():
    async def work(planner):
        return [await planner.plan(request(registry.make(name))) for name in ("peal", "multistage")]

    assert run(work) == [plan_for(request(registry.make(name))) for name in ("peal", "multistage")]


def test_large_plans_are_made_in_another_process_even_if_the_strategy_prints():
    plan = run(lambda planner: planner.plan(request(Prints())))
    assert int(plan.migrations[0].reason) != os.getpid()


def test_small_plans_are_made_in_this_process():
    plan = run(lambda planner: planner.plan(request(Prints())), small=1_000)
    assert int(plan.migrations[0].reason) == os.getpid()


@pytest.mark.parametrize(
    ("strategy", "words"),
    [(Fails, "by no brokers"), (Dies, "planning process failed"), (Unpicklable, "planning process failed")],
)
def test_an_error_is_reported_and_the_next_plan_is_made(strategy, words):
    async def work(planner):
        with pytest.raises(SystemFailure, match=words):
            await planner.plan(request(strategy()))
        return await planner.plan(request())

    assert run(work).migrations


def test_a_strategy_that_exceeds_the_timeout_is_aborted():
    async def work(planner):
        with pytest.raises(SystemFailure, match="took more than 1 s"):
            await planner.plan(request(Hangs()))
        planner.timeout = 60.0
        return await planner.plan(request())

    assert run(work, timeout=1.0).migrations


def test_plans_are_made_one_after_the_other():
    async def work(planner):
        return await asyncio.gather(*(planner.plan(request()) for _ in range(3)))

    first, second, third = run(work)
    assert first == second == third
