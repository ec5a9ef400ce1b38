"""Effects are performed, and their outcome goes back into the generator."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tocsin.broker.core.instructions import Command
from tocsin.broker.upstream.effects import Lost, Refused, retry
from tocsin.effects import Effects, Pause, run_effects

REQUEST = Command()


class Performer:
    """Returns the outcomes of the test, and records the effects."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.effects: list[Any] = []

    async def __call__(self, effect: Any) -> Any:
        self.effects.append(effect)
        if isinstance(effect, Pause):
            return None
        found = self.outcomes.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def done(effects: Effects[Any], perform: Performer) -> Any:
    return asyncio.run(run_effects(effects, perform))


def test_a_lost_request_is_retried_after_growing_pauses():
    perform = Performer(*[Lost()] * 8, "yes")
    assert done(retry(REQUEST, Random(1)), perform) == "yes"
    assert perform.effects[::2] == [REQUEST] * 9
    pauses = [effect.seconds for effect in perform.effects[1::2]]
    for pause, longest in zip(pauses, (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0), strict=True):
        assert longest / 2 <= pause <= longest


def test_a_refusal_is_an_answer():
    refusal = Refused({"kind": "channel", "message": "there is none", "hint": "make one", "code": "not_found"})
    perform = Performer(refusal)
    with pytest.raises(Refused) as caught:
        done(retry(REQUEST, Random(1)), perform)
    assert caught.value is refusal and perform.effects == [REQUEST]
    assert refusal.no("channel") and not refusal.no("broker") and str(refusal) == "there is none"
    assert (refusal.problem.code, refusal.problem.hint) == ("not_found", "make one")
    assert not Refused({"kind": "channel"}, 409).no("channel")


def test_any_other_error_ends_the_generator():
    def work() -> Effects[None]:
        yield "first"
        raise AssertionError("not reached")

    with pytest.raises(ZeroDivisionError):
        done(work(), Performer(ZeroDivisionError()))


def test_a_generator_is_closed_when_its_caller_is_cancelled():
    ended: list[str] = []

    def work() -> Effects[None]:
        try:
            yield "forever"
        finally:
            ended.append("closed")

    async def cancelled() -> None:
        waiting = asyncio.Event()

        async def perform(effect: Any) -> None:
            waiting.set()
            await asyncio.Event().wait()

        task = asyncio.create_task(run_effects(work(), perform))
        await waiting.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert ended == ["closed"]

    asyncio.run(cancelled())
