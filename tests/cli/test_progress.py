"""The progress of a long command without a terminal."""

from __future__ import annotations

import pytest

from tocsin.cli.progress import EVERY, Lines, span, track


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_comes_every_thirty_seconds_and_estimates_the_remaining_time(capsys):
    clock = Clock()
    lines = Lines(200.0, clock)
    lines.update(10.0, "the first")
    clock.now += EVERY
    lines.update(50.0, "a quarter")
    lines.update(51.0, "too early")
    clock.now += EVERY
    lines.update(100.0, "the half")
    assert capsys.readouterr() == (
        "",
        "a quarter: 25% after 30 s, about 2 min left\nthe half: 50% after 60 s, about 60 s left\n",
    )


def test_the_remaining_time_is_not_estimated_at_the_beginning(capsys):
    clock = Clock()
    lines = Lines(10.0, clock)
    for done in (0.0, 1e-9):
        clock.now += EVERY
        lines.update(done, "it begins")
    assert capsys.readouterr().err == "it begins: 0% after 30 s\nit begins: 0% after 60 s\n"


def test_a_short_command_prints_no_progress(capsys):
    with track(1) as update:
        update(1.0, "done")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3_600, "60 min"), (9_000, "2.5 h")]
)
def test_a_span_of_time_has_a_readable_unit(seconds, text):
    assert span(seconds) == text
