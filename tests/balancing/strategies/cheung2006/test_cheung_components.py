"""T15: detector, exchanger, load model, offload algorithms and guard are separate, and each can be exchanged."""

from __future__ import annotations

import pytest

from tocsin.balancing.catalogue.places import EDGES, catalogue
from tocsin.balancing.strategies.cheung2006.components import blueprint, make
from tocsin.balancing.strategies.cheung2006.composition import (
    Composition,
    InputOffload,
    MatchOffload,
    OutputOffload,
    PressEstimator,
)
from tocsin.balancing.strategies.cheung2006.detection.indices import Offload
from tocsin.balancing.strategies.cheung2006.offload.guard import FIGURE, TEXT, InputNotAbove
from tocsin.errors import NotFound, UserError


def test_the_strategy_by_name_is_the_thesis_one():
    composition, parameters = make()
    default = Composition()
    assert composition.algorithms == default.algorithms and list(composition.guards) == list(default.guards)
    assert composition.detector == default.detector and isinstance(composition.estimator, PressEstimator)
    assert parameters.press_samples == 50


def test_one_offload_can_replace_another():
    composition, _ = make(components={"input_balancer": "match-offload"})
    assert isinstance(composition.algorithms[Offload.INPUT], MatchOffload)
    assert isinstance(composition.algorithms[Offload.MATCH], MatchOffload)
    assert isinstance(composition.algorithms[Offload.OUTPUT], OutputOffload)


def test_a_component_has_settings():
    composition, _ = make(components={"guards": [{"use": "input-not-above", "compares": FIGURE}]})
    assert list(composition.guards) == [InputNotAbove(FIGURE)]
    assert list(make(components={"guards": []})[0].guards) == []
    assert list(make()[0].guards) == [InputNotAbove(TEXT)]


def test_the_wait_for_stable_load_can_be_left_out():
    swap = {"input_detector": {"use": "two-steps", "stabilizing": 0}}
    assert not make(components=swap)[0].detector.stabilizing


@pytest.mark.parametrize("slot", blueprint().slots)
def test_every_place_takes_what_fits(slot):
    assert catalogue(EDGES).fitting(blueprint(), slot)


@pytest.mark.parametrize(
    ("settings", "components", "error"),
    [
        ({"speed": 1}, {}, "no parameter 'speed'"),
        ({}, {"balancer": "input-offload"}, "component"),
        ({}, {"input_balancer": "gsh"}, "balancer"),
        ({}, {"model": "crystal"}, "load model"),
        ({}, {"model": {"use": "press", "samples": 3}}, "no setting 'samples'"),
        ({}, {"guards": "input-not-above"}, "guards"),
        ({}, {"guards": [{"use": "input-not-above", "compares": "memory"}]}, "compares"),
    ],
)
def test_what_does_not_fit_is_refused(settings, components, error):
    with pytest.raises(UserError, match=error):
        make(settings=settings, components=components)


def test_an_unknown_strategy_is_refused():
    with pytest.raises(NotFound, match="peal"):
        make("peal")


def test_without_an_algorithm_an_action_is_never_taken():
    assert isinstance(make()[0].algorithms[Offload.INPUT], InputOffload)
    assert Composition({}).algorithms == {}
