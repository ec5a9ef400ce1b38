"""A clock that jumps ahead or back, in the process and between two runs."""

from __future__ import annotations

import pytest

from tocsin.steady_clock import JUMP, SteadyClock

DAY = 86_400.0
GRACE = 600.0


class Machine:
    """Its two clocks."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_000_000.0, 50.0

    def clock(self, last: float | None = None) -> SteadyClock:
        return SteadyClock(GRACE, last, lambda: self.wall, lambda: self.steady)

    def run(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_clock_that_goes_on_evenly_is_followed(machine: Machine) -> None:
    clock = machine.clock()
    machine.run(DAY)
    assert (clock.now(), clock.expiry(), clock.problem) == (machine.wall, machine.wall, "")


def test_small_corrections_are_followed_and_time_stamps_never_go_back(machine: Machine) -> None:
    clock = machine.clock()
    before = clock.now()
    machine.wall -= JUMP / 2
    assert clock.now() == before and clock.expiry() == machine.wall and clock.problem == ""
    machine.wall += JUMP
    assert clock.now() == machine.wall


@pytest.mark.parametrize("jump", [8 * DAY, -8 * DAY])
def test_neither_expiry_nor_time_stamps_follow_a_jump(machine: Machine, jump: float) -> None:
    clock = machine.clock()
    expected = machine.wall + 10.0
    machine.run(10.0)
    machine.wall += jump
    assert (clock.now(), clock.expiry(), clock.jump) == (expected, expected, jump)
    assert f"{jump:+.0f} s" in clock.problem
    machine.wall -= jump
    assert (clock.now(), clock.expiry(), clock.problem) == (expected, expected, "")


def test_a_jump_that_lasts_is_accepted_after_the_grace(machine: Machine) -> None:
    clock = machine.clock()
    machine.wall += 8 * DAY
    assert clock.problem
    machine.run(GRACE - 1)
    assert clock.expiry() < machine.wall - DAY
    machine.run(1)
    assert clock.expiry() == clock.now() == machine.wall and clock.problem == ""


def test_a_second_jump_begins_another_grace(machine: Machine) -> None:
    clock = machine.clock()
    machine.wall += 8 * DAY
    assert clock.problem
    machine.run(GRACE - 1)
    machine.wall += 8 * DAY
    assert clock.problem
    machine.run(GRACE - 1)
    assert clock.problem


def test_after_a_long_stop_expiry_goes_on_from_the_time_that_was_kept(machine: Machine) -> None:
    kept = machine.wall - 8 * DAY
    clock = machine.clock(kept)
    assert (clock.now(), clock.expiry()) == (machine.wall, kept)
    machine.run(GRACE)
    assert clock.expiry() == machine.wall


def test_a_short_stop_is_not_a_jump(machine: Machine) -> None:
    clock = machine.clock(machine.wall - JUMP / 2)
    assert clock.expiry() == machine.wall and clock.problem == ""
