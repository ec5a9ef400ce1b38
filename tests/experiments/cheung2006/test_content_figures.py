"""T62 to T69: a small version of each figure, and the broken components that the verdicts notice.

The small local run has the whole time in which subscribers join, and less of the steady state. The matrix is slow.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from tocsin.experiments.cheung2006.catalogue import FIGURES, variants
from tocsin.experiments.cheung2006.controls import DEPENDENT, SABOTAGES
from tocsin.experiments.cheung2006.figures import clusters, local, micro
from tocsin.experiments.cheung2006.figures.clusters import CHAIN
from tocsin.experiments.cheung2006.runs import LOCAL, Runs
from tocsin.experiments.outcome import Verdict

OF_LOCAL = [figure.id for figure in local.FIGURES]


@pytest.fixture(scope="module")
def genuine() -> Runs:
    return Runs((1,), small=True)


@pytest.mark.parametrize("name", OF_LOCAL)
def test_the_small_figure_has_checks_rows_and_a_verdict(name, genuine):
    outcome = FIGURES[name].outcome(genuine)
    assert outcome.checks and outcome.rows and all(len(row) == len(outcome.columns) for row in outcome.rows)
    assert outcome.data["time"] and len({len(column) for column in outcome.data.values()}) == 1
    assert all(panel.series for chart in outcome.charts for panel in chart.panels)


@pytest.mark.parametrize("name", ["T-5.3", "T-5.4", "T-5.12"])
def test_the_small_figure_is_reproduced(name, genuine):
    assert FIGURES[name].outcome(genuine).verdict in (Verdict.REPRODUCED, Verdict.DIRECTION)


def test_a_run_is_made_once(genuine):
    assert genuine.one(LOCAL, 1) is genuine.one(LOCAL, 1)
    assert [each.name for each in variants([*local.FIGURES, clusters.FIGURE])] == [LOCAL.name, CHAIN.name]


def test_every_broken_component_has_its_figures():
    assert set(DEPENDENT) == set(SABOTAGES) and all(DEPENDENT.values())


@pytest.mark.slow
@pytest.mark.parametrize(("sabotage", "names"), sorted(DEPENDENT.items()))
def test_a_broken_component_reproduces_no_figure_that_depends_on_it(sabotage, names):
    runs = Runs((1,), small=True, sabotage=sabotage)
    assert {name: FIGURES[name].outcome(runs).verdict for name in names} == dict.fromkeys(names, Verdict.NOT)


@pytest.mark.slow
def test_clusters_share_the_load():
    runs = Runs((1,), small=True)
    outcome = clusters.FIGURE.outcome(runs)
    assert outcome.rows and runs.one(CHAIN, 1).cluster_sessions


def test_a_micro_experiment_has_a_row_for_each_point():
    """Two points of one; the others differ only in what changes."""
    sweep = replace(micro.PERIODS, points=micro.PERIODS.points[:2], judged=lambda sweep, runs: [])
    outcome = sweep.figure().outcome(Runs((1,), small=True))
    assert [row[0] for row in outcome.rows] == ["20", "30"] and len(outcome.charts[0].panels) == 3
    assert all(len(row) == len(outcome.columns) for row in outcome.rows)


def test_every_point_has_a_run_of_its_own():
    names = [variant.name for figure in micro.FIGURES for variant in figure.variants]
    assert len(set(names)) == len(names) == 22
    assert all(variant.small is not None for figure in micro.FIGURES for variant in figure.variants)


@pytest.mark.slow
@pytest.mark.parametrize("name", [figure.id for figure in micro.FIGURES])
def test_every_micro_experiment_is_judged(name):
    outcome = FIGURES[name].outcome(Runs((1, 2), small=True))
    assert outcome.checks and all(len(check.holds) == 2 for check in outcome.checks)
