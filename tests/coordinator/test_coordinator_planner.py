"""Plans made in a process of their own: the same plans, whatever the strategy does to the process."""

from __future__ import annotations

import asyncio
import os

import pytest
from odd_strategies import Broods, Chats, Closed, Dies, Fails

from tocsin.balancing.balancer import Balancer, answer
from tocsin.balancing.model.load import Load
from tocsin.balancing.plan_request import PlanRequest
from tocsin.balancing.strategies import registry
from tocsin.coordinator.planner import Planner
from tocsin.errors import SystemTrouble


def question(strategy=None) -> PlanRequest:
    load = Load()
    for broker in range(3):
        load.broker(broker)
    load.rates(range(6), [10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
    for u in range(60):
        load.join(u, 0, [u % 6, (u + 1) % 6])
    return Balancer(load, strategy or registry.make("peal")).question(0.0)


def run(work, **settings):
    """``work`` with a planner that answers nothing itself."""

    async def main():
        planner = Planner(**{"small": 0} | settings)
        try:
            return await work(planner)
        finally:
            planner.close()

    return asyncio.run(main())


def test_the_other_process_makes_the_same_plan():
    async def work(planner):
        return [await planner.answer(question(registry.make(name))) for name in ("peal", "multistage")]

    assert run(work) == [answer(question(registry.make(name))) for name in ("peal", "multistage")]


def test_it_is_another_process_and_what_a_strategy_prints_does_no_harm():
    plan = run(lambda planner: planner.answer(question(Chats())))
    assert int(plan.moves[0].why) != os.getpid()


def test_what_is_small_is_answered_here():
    plan = run(lambda planner: planner.answer(question(Chats())), small=1_000)
    assert int(plan.moves[0].why) == os.getpid()


@pytest.mark.parametrize(("strategy", "words"), [(Fails, "by no brokers"), (Dies, "broke off"), (Closed, "broke off")])
def test_trouble_is_told_and_the_next_question_is_answered(strategy, words):
    async def work(planner):
        with pytest.raises(SystemTrouble, match=words):
            await planner.answer(question(strategy()))
        return await planner.answer(question())

    assert run(work).moves


def test_a_strategy_that_does_not_end_is_given_up():
    async def work(planner):
        with pytest.raises(SystemTrouble, match="given up"):
            await planner.answer(question(Broods()))
        planner.patience = 60.0
        return await planner.answer(question())

    assert run(work, patience=1.0).moves


def test_questions_are_answered_one_after_the_other():
    async def work(planner):
        return await asyncio.gather(*(planner.answer(question()) for _ in range(3)))

    first, second, third = run(work)
    assert first == second == third
