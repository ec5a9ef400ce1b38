"""T-4.1 and T-4.2: the worked examples of chapter 4, and what breaks them."""

from __future__ import annotations

import pytest

from tocsin.experiments.cheung2006.catalogue import FIGURES
from tocsin.experiments.cheung2006.controls import SABOTAGES
from tocsin.experiments.cheung2006.figures import t4_2
from tocsin.experiments.cheung2006.figures.t4_2 import Scenario
from tocsin.experiments.cheung2006.runs import Runs
from tocsin.experiments.outcome import Verdict

GENUINE = Runs((1,))


def broken(name: str) -> Runs:
    assert name in SABOTAGES
    return Runs((1,), sabotage=name)


@pytest.mark.parametrize("name", ["T-4.1", "T-4.2"])
def test_the_example_is_reproduced(name):
    assert FIGURES[name].outcome(GENUINE).verdict is Verdict.REPRODUCED


@pytest.mark.parametrize(("name", "sabotage"), [("T-4.1", "PRESS returns noise"), ("T-4.2", "no guard")])
def test_a_broken_component_does_not_reproduce_it(name, sabotage):
    assert FIGURES[name].outcome(broken(sabotage)).verdict is Verdict.NOT


def test_figure_4_8_does_not_end_the_loop():
    assert len(t4_2.found(GENUINE)["with the guard as figure 4.8 prints it"]) == t4_2.ROUNDS


@pytest.mark.parametrize(("source", "outputs"), [("B1", (0.3, 0.7)), ("B2", (0.5, 0.5))])
def test_the_scenario_expects_what_the_tables_say(source, outputs):
    found = Scenario(SABOTAGES["no guard"], heavy_at=source).pair(source)
    found.offload(0, 1)
    assert (found.ours.output_ratio, found.theirs.output_ratio) == pytest.approx(outputs)
    inputs = found.ours.input_ratio, found.theirs.input_ratio
    if source == "B1":
        assert inputs == pytest.approx((0.5, 0.5), abs=0.03)
    else:
        assert inputs[1] - inputs[0] > 0.1
