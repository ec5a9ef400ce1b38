"""Registry, exchangers, detectors, and strategies by name."""

from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from tocsin.balancing import strategies
from tocsin.balancing.components import LoadInformation, LoadState
from tocsin.balancing.criteria import CRITERIA
from tocsin.balancing.detectors import Absolute, Always, Relative, Spread
from tocsin.balancing.exchangers import Direct, Modelled
from tocsin.balancing.ldm import LDM
from tocsin.balancing.load import Load
from tocsin.balancing.managers import LoadInformationManager
from tocsin.balancing.registry import Registry
from tocsin.errors import NotFound, UserError


def told(peer: str, load: float, time: float = 0.0, criterion: str = "volume", capacity: float = 1.0):
    return LoadInformation(peer, criterion, load, time, capacity)


def registry(**loads: float) -> Registry:
    made = Registry()
    for peer, load in loads.items():
        made.register(told(peer, load))
    return made


def test_the_freshest_come_first_and_the_outdated_not_at_all():
    made = Registry(lifetime=10)
    for peer, time in [("a", 1.0), ("b", 5.0), ("c", 3.0)]:
        made.register(told(peer, 1.0, time))
    assert [info.peer for info in made.get_load_report("volume", 8.0)] == ["b", "c", "a"]
    assert [info.peer for info in made.get_load_report("volume", 12.5)] == ["b", "c"]
    assert [info.peer for info in made.get_load_report("volume", 12.5, ["c", "x"])] == ["c"]
    assert made.get_load_report("queue", 12.5) == []
    made.forget("b")
    assert [info.peer for info in made.get_load_report("volume", 12.5)] == ["c"]


def test_news_that_were_overtaken_are_ignored():
    made = Registry()
    assert made.register(told("a", 2.0, 5.0)) and not made.register(told("a", 1.0, 4.0))
    assert made.get_load_report("volume", 5.0)[0].load == 2.0


def test_peers_push_and_pull():
    theirs = Registry()
    mine = Registry()
    exchanger = Direct({"b": (theirs, lambda now: told("b", 7.0, now))})
    manager = LoadInformationManager(exchanger, mine, lambda now: ["b"], lambda now: [told("a", 3.0, now)])
    assert manager.perform_load_information_exchange(1.0) == 1
    assert [info.load for info in theirs.get_load_report("volume", 1.0)] == [3.0]
    assert {info.peer: info.load for info in manager.get_load_report("volume", 1.0)} == {"a": 3.0, "b": 7.0}


def test_the_model_speaks_for_every_broker_and_criterion():
    load = Load()
    load.broker(0, 2.0)
    load.broker(1)
    load.rate(0, 5.0)
    load.join(0, 0, [0])
    heard = list(Modelled(load, list(CRITERIA.values()), "b{}".format).exchange_load_information((), None, 3.0))
    assert {(info.criterion, info.peer): info.load for info in heard if info.load} == {
        ("volume", "b0"): 10.0,
        ("incoming", "b0"): 5.0,
        ("outgoing", "b0"): 5.0,
        ("connections", "b0"): 1.0,
    }
    assert {info.relative for info in heard if info.criterion == "volume"} == {5.0, 0.0}


def test_spread_speaks_up_above_alpha_and_falls_silent_at_settle():
    detector = Spread(alpha=0.2, beta=1.0, settle=0.5)

    def state(a, b):
        return detector.make_decision("volume", registry(a=a, b=b), 0.0)

    assert state(10, 8) is LoadState.NORMAL  # cov 0.11
    assert state(10, 5) is LoadState.OVERLOADED  # 0.33
    assert state(10, 8) is LoadState.OVERLOADED
    assert state(10, 9) is LoadState.NORMAL  # 0.05
    assert state(10, 8) is LoadState.NORMAL
    assert state(0.1, 0.01) is LoadState.NORMAL  # below beta
    assert detector.make_decision("volume", Registry(), 0.0) is LoadState.NORMAL


def test_absolute_looks_at_its_own_load_only():
    detector = Absolute("a", high=10, low=2, settle=0.8)
    states = [detector.make_decision("volume", registry(a=a, b=100.0), 0.0) for a in (9, 11, 9, 7, 1, 2.4, 5)]
    assert [state.value for state in states] == [
        "normal", "overloaded", "overloaded", "normal", "underloaded", "underloaded", "normal",
    ]  # fmt: skip
    assert detector.make_decision("volume", Registry(), 0.0) is LoadState.NORMAL


def test_relative_compares_with_the_mean():
    detector = Relative("a", factor=1.5)
    states = [detector.make_decision("volume", registry(a=a, b=10.0), 0.0) for a in (10, 40, 2)]
    assert states == [LoadState.NORMAL, LoadState.OVERLOADED, LoadState.UNDERLOADED]
    assert detector.make_decision("volume", registry(b=1.0), 0.0) is LoadState.NORMAL
    assert Always().make_decision("volume", Registry(), 0.0) is LoadState.OVERLOADED


def test_a_strategy_is_made_by_name_with_its_parameters():
    assert strategies.make("ldm", alpha=0.3) == LDM(0.3, 0.0)
    assert strategies.parameters("ldm") == {"alpha": 0.15, "beta": 0.0}
    assert {"ldm", "sdm", "gsh", "multistage", "drain", "join"} <= set(strategies.names())


def test_a_wrong_name_or_parameter_is_refused_with_what_there_is():
    with pytest.raises(NotFound, match=r"there are: .*gsh"):
        strategies.make("nothing")
    with pytest.raises(UserError, match=r"no parameter gamma.*alpha, beta"):
        strategies.make("ldm", gamma=1)
    with pytest.raises(UserError, match="ldm or sdm"):
        strategies.make("multistage", scheme="xdm")


def test_others_add_strategies_by_entry_point_or_by_call(monkeypatch):
    point = EntryPoint("theirs", "tocsin.balancing.sdm:SDM", strategies.GROUP)
    monkeypatch.setattr(strategies, "entry_points", lambda **wanted: EntryPoints([point]).select(**wanted | {}))
    assert "theirs" in strategies.names() and type(strategies.make("theirs")).__name__ == "SDM"
    monkeypatch.setattr(strategies, "_registered", {})
    strategies.register("mine", LDM)
    assert "mine" in strategies.names() and strategies.make("mine") == LDM()
