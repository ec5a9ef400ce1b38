"""Questions to peers end: with an answer, or after a bounded number of attempts."""

from __future__ import annotations

from random import Random

from tocsin.overlay.keyspace.context import Context
from tocsin.overlay.keyspace.messages import Alive, Busy, Failed, Ping, Reply
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.requests import Requests


class Asking:
    def __init__(self) -> None:
        self.context = Context("me", Settings(timeout=1.0, attempts=3), Random(1))
        self.requests = Requests(self.context)
        self.answers: list[object] = []

    def ask(self) -> None:
        self.requests.ask("other", "r", "m", Ping(), lambda body, hops: self.answers.append(body))

    def wait(self, seconds: float) -> None:
        self.context.now += seconds
        self.requests.tick()

    @property
    def sent(self) -> int:
        return len(self.context.out)


def test_a_question_without_an_answer_fails_after_its_attempts():
    it = Asking()
    it.ask()
    for _ in range(5):
        it.wait(1.0)
    assert it.sent == 3 and len(it.answers) == 1 and isinstance(it.answers[0], Failed)


def test_an_answer_ends_the_question_and_a_repeated_one_is_ignored():
    it = Asking()
    it.ask()
    for _ in range(2):
        it.requests.answered(Reply(1, Alive()))
    it.wait(9.0)
    assert it.sent == 1 and len(it.answers) == 1 and len(it.requests) == 0


def test_an_answer_to_nothing_is_ignored():
    it = Asking()
    it.requests.answered(Reply(99, Alive()))
    assert it.answers == []


def test_a_busy_peer_is_asked_again():
    it = Asking()
    it.ask()
    it.requests.answered(Reply(1, Busy()))
    assert it.answers == []
    it.wait(1.0)
    it.requests.answered(Reply(1, Alive()))
    assert it.sent == 2 and isinstance(it.answers[0], Alive)
