"""Whole runs: a seed gives the same run, to the byte; every invariant holds in 25 of them, or thousands (slow)."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pytest

from tocsin.simulation.campaign import attempt, last_lines, outcomes
from tocsin.simulation.network.trace import Trace
from tocsin.simulation.run import Outcome, run

RUNS = 25


def traced(seed: int) -> Outcome:
    return run(seed, trace=lambda clock: Trace(clock, True))


@cache
def ran() -> list[Outcome]:
    return list(outcomes(1, RUNS))


def test_every_invariant_holds():
    broken = [each for each in ran() if each.violations]
    assert [(each.seed, str(each.violations[0])) for each in broken] == []


@pytest.mark.parametrize("seed", [287, 1404, 1339, 1_000_054, 8549])
def test_seeds_that_once_failed_stay_fixed(seed):
    """Migrations refused forever with a retention below the heartbeat; an execution running while a subscription was
    made again; a network considered idle too early; a coordinator that died before it executed a command.
    """
    assert not attempt(seed).violations


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("part", range(20))
def test_every_invariant_holds_in_many_runs(part, exploration_seed):
    """Replay a seed that it prints with ``tocsin simulate faults --seed SEED --trace``."""
    first = 1_000_000 * (exploration_seed % 1_000_000) + part * 1_000
    broken = [each for each in outcomes(first, 1_000, jobs=2) if each.violations]
    assert [(each.seed, str(each.violations[0])) for each in broken] == []


def test_the_same_seed_gives_the_same_run_to_the_byte():
    first, second = traced(11), traced(11)
    assert first == second
    assert len(first.lines) > 200 and first.fingerprint != traced(12).fingerprint


@pytest.mark.parametrize("hashes", ["0", "4242"])
def test_a_run_is_the_same_in_every_process(hashes):
    script = (
        "from tocsin.simulation.run import run; from tocsin.simulation.network.trace import Trace;"
        "print(*[run(seed, trace=lambda clock: Trace(clock, True)).fingerprint for seed in (3, 11, 20)])"
    )
    env = os.environ | {"PYTHONHASHSEED": hashes}
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=env, check=True)
    assert ran.stdout.split() == [traced(seed).fingerprint for seed in (3, 11, 20)]


def test_a_trace_changes_nothing():
    quiet, loud = run(15), traced(15)
    assert (quiet.events, quiet.notifications, quiet.moves) == (loud.events, loud.notifications, loud.moves)


def test_a_trace_contains_time_sender_receiver_and_message():
    lines = traced(11).lines
    assert any("c1 → b" in line and "subscribe channel=" in line for line in lines)
    assert any("→ c" in line and "notify #" in line for line in lines)
    assert any(line.split()[1] == "FAULT" for line in lines)
    times = [float(line.split()[0]) for line in lines]
    assert times == sorted(times)
    assert last_lines(11) == lines[-len(last_lines(11)) :]


def test_a_run_without_faults_keeps_every_invariant():
    outcome = attempt(11, only=[])
    assert (outcome.faults, outcome.violations) == ({}, [])


def test_the_campaign_causes_faults_migrations_duplicates_and_gaps():
    """Networks without migrations and faults would keep any invariant."""
    found = ran()
    kinds = {kind for each in found for kind in each.faults}
    assert len(kinds) > 15
    assert sum(each.moves for each in found) > 25
    assert sum(each.duplicates for each in found) > 0
    assert sum(each.gaps for each in found) > 0
    assert sum(each.notifications for each in found) > 5_000


def test_the_campaign_has_users_who_poll_and_are_revoked():
    found = [each for each in ran() if each.users]
    assert 5 <= len(found) < RUNS
    assert sum(each.polls for each in found) > 200
    assert sum(each.revocations for each in found) > 5


def test_outcomes_of_parallel_seeds_are_in_order():
    assert [each.seed for each in outcomes(1, 9, jobs=2)] == list(range(1, 10))
