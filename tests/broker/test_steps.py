"""Work in steps: what a step needs is performed, and what came of it goes back into the step."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from tocsin.broker.upstream.effects import Lost, Pause, Refused, Steps, insist, walk


class Performer:
    """Performs what the test says, and writes down the wishes."""

    def __init__(self, *outcomes: Any) -> None:
        self.outcomes = list(outcomes)
        self.wishes: list[Any] = []

    async def __call__(self, wish: Any) -> Any:
        self.wishes.append(wish)
        if isinstance(wish, Pause):
            return None
        found = self.outcomes.pop(0)
        if isinstance(found, Exception):
            raise found
        return found


def done(steps: Steps[Any], perform: Performer) -> Any:
    return asyncio.run(walk(steps, perform))


def test_what_was_lost_is_asked_again_after_growing_pauses():
    perform = Performer(Lost(), Lost(), Lost(), Lost(), "yes")
    assert done(insist("may I?", 1.0, 3.0, Random(1)), perform) == "yes"
    assert perform.wishes[::2] == ["may I?"] * 5
    pauses = [wish.seconds for wish in perform.wishes[1::2]]
    for pause, longest in zip(pauses, (1.0, 2.0, 3.0, 3.0), strict=True):
        assert longest / 2 <= pause <= longest


def test_a_refusal_is_an_answer():
    refusal = Refused({"kind": "channel", "message": "there is none", "hint": "make one", "code": "not_found"})
    perform = Performer(refusal)
    with pytest.raises(Refused) as caught:
        done(insist("may I?", 1.0, 3.0, Random(1)), perform)
    assert caught.value is refusal and perform.wishes == ["may I?"]
    assert refusal.no("channel") and not refusal.no("broker") and str(refusal) == "there is none"
    assert (refusal.problem.code, refusal.problem.hint) == ("not_found", "make one")
    assert not Refused({"kind": "channel"}, 409).no("channel")


def test_any_other_error_ends_the_work():
    def work() -> Steps[None]:
        yield "first"
        raise AssertionError("not reached")

    with pytest.raises(ZeroDivisionError):
        done(work(), Performer(ZeroDivisionError()))
