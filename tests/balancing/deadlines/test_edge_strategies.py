"""The strategies of edges as names of components."""

from __future__ import annotations

import pytest

from tocsin.balancing.deadlines.strategies import STRATEGIES, make, make_head, strategy
from tocsin.balancing.strategies.tao2013.metrics import METRICS, QUEUE, UPLINK, Role
from tocsin.errors import NotFound


@pytest.mark.parametrize("name", STRATEGIES)
def test_each_is_made_of_the_criteria_of_an_edge(name):
    composition = make(name)
    assert {concern.criterion for concern in composition.concerns} <= set(METRICS[Role.EDGE])
    assert [each.detector for each in composition.concerns]


def test_tao_has_no_upper_threshold_of_the_uplink_and_peer_none_of_queues():
    of = {name: {stage.criterion for stage in strategy(name).blueprint.stages} for name in STRATEGIES}
    assert UPLINK not in of["tao"] and UPLINK not in of["slack"] and QUEUE not in of["peer"]


def test_peer_is_configured_as_the_thesis():
    peer = strategy("peer")
    assert peer.smoothing == 0.75 and not peer.distributes and peer.static_uplink


def test_heads_have_static_thresholds_on_both_links():
    assert [concern.criterion for concern in make_head().concerns] == list(METRICS[Role.HEAD])


def test_an_unknown_strategy_is_refused_with_those_that_exist():
    with pytest.raises(NotFound) as error:
        make("magic")
    assert "tao, peer, slack" in str(error.value.hint)
