"""T62 to T69: a small version of each figure, and the broken components that the verdicts notice.

The small local run has the whole time in which subscribers join, and less of the steady state. The matrix is slow.
"""

from __future__ import annotations

import pytest

from tocsin.experiments.cheung2006.catalogue import FIGURES, variants
from tocsin.experiments.cheung2006.controls import SABOTAGES
from tocsin.experiments.cheung2006.figures import clusters, local
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
    assert [each.name for each in variants(list(FIGURES.values()))] == [LOCAL.name, CHAIN.name]


def test_where_nothing_moves_nothing_is_reproduced():
    """The whole time in which subscribers join is enough to see it."""
    runs = Runs((1,), small=True, sabotage="nothing moves")
    found = {name: FIGURES[name].outcome(runs).verdict for name in ("T-5.3", "T-5.4", "T-5.12")}
    assert set(found.values()) == {Verdict.NOT}


@pytest.mark.slow
@pytest.mark.parametrize(("sabotage", "names"), sorted(local.DEPENDENT.items()))
def test_a_broken_component_reproduces_no_figure_that_depends_on_it(sabotage, names):
    assert sabotage in SABOTAGES
    runs = Runs((1,), small=True, sabotage=sabotage)
    assert {name: FIGURES[name].outcome(runs).verdict for name in names} == dict.fromkeys(names, Verdict.NOT)


@pytest.mark.slow
def test_clusters_share_the_load():
    runs = Runs((1,), small=True)
    outcome = clusters.FIGURE.outcome(runs)
    assert outcome.rows and runs.one(CHAIN, 1).cluster_sessions
