"""The catalogues of edges and heads: what fits, and what is refused."""

from __future__ import annotations

import pytest
from edge_scope import model, scope
from edge_tables import overloaded

from tocsin.balancing.catalogue.component import Kind
from tocsin.balancing.catalogue.places import DEADLINE_EDGES, DEADLINE_HEADS, catalogue
from tocsin.balancing.deadlines.components import OfHeads, Settle
from tocsin.balancing.deadlines.strategies import make, make_head
from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.host.guards import InFlight
from tocsin.errors import TocsinError, UserError


def test_both_places_have_all_that_a_strategy_needs():
    kinds = set(Kind) - {Kind.GUARD}
    for place in (DEADLINE_EDGES, DEADLINE_HEADS):
        assert {each.kind for each in catalogue(place)} >= kinds


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ({"queue_detector": "static-threshold"}, "works on downlink and matching and uplink, and not on queue depth"),
        ({"queue_criterion": "uplink"}, "detector dynamic-threshold works on queue depth, and not on uplink"),
        ({"queue_balancer": "even-out"}, "balancer even-out works on"),
        ({"downlink_detector": "load-difference"}, "load of all peers"),
        ({"exchanger": "silent"}, "no exchanger 'silent'"),
        ({"queue_detector": "psychic"}, "no detector 'psychic'"),
        ({"queue_detector": {"use": "deadline-slack", "horizon": -1}}, "horizon is -1"),
        ({"downlink_detector": {"use": "static-threshold", "low": 0.99}}, "the lower threshold is 0.99"),
        ({"guards": [{"use": "at-once", "sessions": 0}]}, "sessions is 0"),
        ({"uplink_detector": "static-threshold"}, "no component 'uplink_detector'"),
    ],
)
def test_what_does_not_fit_is_refused(components, error):
    with pytest.raises(TocsinError, match=error):
        make("tao", components)


def test_offload_needs_a_detector_that_can_judge_what_has_not_been_measured():
    with pytest.raises(UserError, match="does not work with the detector"):
        make("peer", {"difference_balancer": "offload"})


def test_what_fits_is_a_line_of_configuration():
    assert make("tao", {"queue_detector": "deadline-slack"}).concerns == make("slack").concerns
    static = make("tao", {"queue_criterion": "uplink", "queue_detector": "static-threshold"})
    assert static.concerns[0].criterion == "uplink"


def test_heads_have_no_queue_and_push_nothing():
    with pytest.raises(TocsinError, match="no criterion 'queue depth'"):
        make_head({"uplink_criterion": "queue depth"})
    assert OfHeads().recipients(scope(model(overloaded()))) == ()


def test_loads_settle_after_a_migration():
    here, action = scope(model(overloaded())), Migrate("b1", "b0", 0.1, "", ("1",))
    here.now = 10.0
    assert Settle(1.5).objection(here, "uplink", action, InFlight(0, {"7": 8.5})) is None
    assert "less than 1.5 s ago" in str(Settle(1.5).objection(here, "uplink", action, InFlight(0, {"7": 8.6})))
    with pytest.raises(UserError, match="seconds"):
        Settle(-1.0)
