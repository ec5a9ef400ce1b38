"""Figures 3 to 5 of Tao et al., on the paper's table and on two random ones, and the verdicts of broken versions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.balancing.strategies.tao2013.distribution import Distribution
from tocsin.experiments.outcome import Verdict, judge
from tocsin.experiments.tao2013.controls import SABOTAGES
from tocsin.experiments.tao2013.figures import FIGURES, steps
from tocsin.experiments.tao2013.runs import DEVELOPED, MAKERS, NONE, PEER, SLACK, TAO, Runs, table
from tocsin.simulation.deadlines.setup import paper
from tocsin.simulation.deadlines.world import World

#: The figures that depend on what is broken. Q-5 is about PEER, and compares it with Tao's needless migrations.
DEPENDENT = {
    "nothing is balanced": {"Q-3", "Q-4"},
    "the dynamic threshold is a static one": {"Q-3", "Q-4", "Q-5"},
    "priorities are reversed": {"Q-3"},
    "free capacity is relative": {"Q-3", "Q-4"},
    "choices are random": {"Q-3", "Q-4"},
    "PEER does nothing": {"Q-5"},
}


@pytest.fixture(scope="module")
def genuine() -> Runs:
    return Runs((1, 7))


def verdict(name: str, runs: Runs) -> Verdict:
    return judge(FIGURES[name].checks(runs))


@pytest.mark.parametrize("name", ["Q-3", "Q-4"])
def test_the_papers_strategy_reproduces_its_figure_to_the_second(name, genuine):
    assert verdict(name, genuine) is Verdict.REPRODUCED


def test_peer_acts_when_the_paper_says_but_not_between_the_papers_brokers(genuine):
    checks = FIGURES["Q-5"].checks(genuine)
    assert judge(checks) is Verdict.DIRECTION
    failed = {check.says for check in checks if not all(check.holds)}
    assert failed == {"both times between b0 and b2", "needlessly"}


def test_every_sabotage_has_its_figures():
    assert set(SABOTAGES) == set(DEPENDENT)


@pytest.mark.parametrize("broken", DEPENDENT)
def test_a_broken_part_reproduces_no_figure_that_depends_on_it(broken, genuine):
    runs = genuine.broken(SABOTAGES[broken])
    assert {name: verdict(name, runs) for name in DEPENDENT[broken]} == dict.fromkeys(DEPENDENT[broken], Verdict.NOT)


def test_runs_without_a_broken_part_are_not_made_again(genuine):
    assert genuine.broken(SABOTAGES["choices are random"]).paper(PEER) is genuine.paper(PEER)


@pytest.mark.parametrize(("seventh", "reserve"), [("10", 0.5), ("11", 0.25), ("11", 0.84)])
def test_figure_3_holds_for_the_values_that_its_verdict_names(seventh, reserve):
    setup = replace(paper(seventh), seconds=64)
    options = replace(MAKERS[TAO](setup), distribution=Distribution(setup.correlated, reserve))
    found = World(setup, options).run()
    (migration,) = found.migrations
    assert (migration.time, migration.units, migration.target) == (34.0, ("1",), "b0")
    assert found.waiting("b1", "8", 61) > 0.0 == found.waiting("b1", "8", 62)


def test_on_these_tables_our_strategy_misses_no_deadline_with_fewer_migrations(genuine):
    assert verdict("Q-slack", genuine) is Verdict.REPRODUCED
    assert genuine.paper(SLACK).missed == 0.0 < genuine.paper(NONE).missed


def test_no_figure_has_a_table_that_was_used_for_development():
    assert DEVELOPED >= 20 and table(1)[0] != table(2)[0]


def test_steps_count_every_run_once():
    assert steps([FIGURES["Q-3"], FIGURES["Q-4"]], 5) == 2 * 6
