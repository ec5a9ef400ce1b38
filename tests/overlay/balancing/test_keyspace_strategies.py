from __future__ import annotations

from random import Random

import pytest

from tocsin.balancing.host.managers import Concern
from tocsin.balancing.strategies.antoine2014 import byers, gupta
from tocsin.errors import NotFound, UserError
from tocsin.overlay.balancing import strategies
from tocsin.overlay.balancing.balanced_peer import BalancedPeer
from tocsin.overlay.balancing.item_load import ItemLoad
from tocsin.overlay.keyspace.chord.chord import Chord
from tocsin.overlay.keyspace.model.settings import Settings
from tocsin.overlay.keyspace.peer import Peer


def peer() -> Peer:
    return Peer("p", {"r": Chord()}, Settings(), Random(1))


@pytest.mark.parametrize("name", strategies.STRATEGIES)
def test_every_strategy_starts_with_its_defaults_if_its_key_space_can_do_what_it_needs(name):
    made = strategies.make(name, peer(), "r")
    if name == "gupta":
        with pytest.raises(UserError, match="replicate"):
            BalancedPeer(peer(), made, Random(1))
    else:
        assert BalancedPeer(peer(), made, Random(1)).host.strategy is made.composition


def test_an_unknown_strategy_is_refused_with_those_that_exist():
    with pytest.raises(NotFound) as found:
        strategies.make("rao", peer(), "r")
    assert "rao-one-to-one" in str(found.value.hint)


def test_an_unknown_setting_is_refused_with_those_that_exist():
    with pytest.raises(UserError) as found:
        strategies.make("gupta", peer(), "r", {"slack": 1.0})
    assert "k" in str(found.value.hint)


@pytest.mark.parametrize(("name", "bad"), [("bharambe", {"alpha": 1.0}), ("gupta", {"k": 0}), ("byers", {"d": 0})])
def test_a_setting_that_cannot_work_is_refused(name, bad):
    with pytest.raises(UserError):
        strategies.make(name, peer(), "r", bad)


def test_items_are_redirected_only_where_they_have_several_places():
    one = strategies.make("rao-one-to-one", peer(), "r")
    model = ItemLoad(peer(), "r")
    one.composition.concerns = [Concern("items", gupta.OnJoin(), byers.Shedding(model))]
    with pytest.raises(UserError, match="redirect"):
        BalancedPeer(peer(), one, Random(1))
