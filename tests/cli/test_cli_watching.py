"""How far a long command is, where nobody watches."""

from __future__ import annotations

import pytest

from tocsin.cli.progress import EVERY, Lines, span, watching


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_comes_only_now_and_then_and_says_how_long_it_will_take(capsys):
    clock = Clock()
    lines = Lines(200.0, clock)
    lines.tell(10.0, "the first")
    clock.now += EVERY
    lines.tell(50.0, "a quarter")
    lines.tell(51.0, "too early")
    clock.now += EVERY
    lines.tell(100.0, "the half")
    assert capsys.readouterr() == (
        "",
        "a quarter: 25% after 30 s, about 2 min left\nthe half: 50% after 60 s, about 60 s left\n",
    )


def test_what_has_hardly_begun_says_nothing_of_what_is_left(capsys):
    clock = Clock()
    lines = Lines(10.0, clock)
    for done in (0.0, 1e-9):
        clock.now += EVERY
        lines.tell(done, "it begins")
    assert capsys.readouterr().err == "it begins: 0% after 30 s\nit begins: 0% after 60 s\n"


def test_what_is_over_soon_says_nothing(capsys):
    with watching(1) as watch:
        watch(1.0, "done")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3_600, "60 min"), (9_000, "2.5 h")]
)
def test_a_span_is_as_long_as_a_person_says_it(seconds, text):
    assert span(seconds) == text
