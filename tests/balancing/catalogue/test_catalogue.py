"""Components by name: what exists, what fits together, and what is refused with what would fit."""

from __future__ import annotations

import inspect
import pkgutil
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

import tocsin.experiments
from tocsin.balancing import central_guards
from tocsin.balancing.brokers import components as of_brokers
from tocsin.balancing.brokers import drain as broker_drain
from tocsin.balancing.brokers import strategies as brokers
from tocsin.balancing.catalogue import places
from tocsin.balancing.catalogue.blueprint import MAIN, Blueprint, StageParts
from tocsin.balancing.catalogue.component import Component, Kind, Reach
from tocsin.balancing.catalogue.places import BROKERS, COORDINATOR, PLACES, catalogue, registered
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.host import detector, exchanger, guards
from tocsin.balancing.host.actions import ActionKind
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.strategies import detectors, registry
from tocsin.balancing.strategies.antoine2014 import bharambe, byers, rao
from tocsin.balancing.strategies.strategy import StagedStrategy
from tocsin.errors import NotFound, UserError

#: What a component of each kind has.
METHODS = {
    Kind.DETECTOR: "make_decision",
    Kind.BALANCER: "rebalance",
    Kind.EXCHANGER: "exchange_load_information",
    Kind.GUARD: "objection",
}
#: Brokers have no capacity that limits them; a guard for some criteria is made of another guard. Zones and items are
#: moved by peers of a key space, whose strategies are in ``overlay.balancing``.
LEFT_OUT = {guards.WithinCapacity, guards.NeverAbove, broker_drain.For}
LEFT_OUT |= {bharambe.LeaveAndRejoin, byers.Shedding, byers.Stealing}


def made(component: Component) -> type:
    """The class of what it makes."""
    make = component.make.func if isinstance(component.make, partial) else component.make
    return make if inspect.isclass(make) else inspect.signature(make, eval_str=True).return_annotation or type(None)


# What exists.


@pytest.mark.parametrize(
    "module",
    [detector, exchanger, guards, central_guards, detectors, broker_drain, rao, bharambe, byers, of_brokers],
    ids=lambda module: module.__name__,
)
def test_every_component_is_in_a_catalogue(module: ModuleType) -> None:
    known = {base for place in PLACES for each in catalogue(place) for base in made(each).__mro__}
    for each in vars(module).values():
        own = inspect.isclass(each) and each.__module__ == module.__name__ and not getattr(each, "_is_protocol", False)
        if own and any(hasattr(each, method) for method in METHODS.values()):
            assert each in known | LEFT_OUT, f"{each.__name__} has no name"


@pytest.mark.parametrize("place", PLACES)
def test_every_component_says_in_one_line_what_it_is(place: str) -> None:
    for each in catalogue(place):
        assert each.description.endswith(".") and "\n" not in each.description, each.name
        assert not each.description.startswith(f"{each.make}"), "the text that a dataclass gets by itself"
        # The coordinator has no peers to exchange with: its exchanger says when brokers report.
        central = (place, each.kind) == (COORDINATOR, Kind.EXCHANGER)
        assert each.fixed or hasattr(made(each), "next_report" if central else METHODS[each.kind])


def test_settings_have_types_and_defaults() -> None:
    found = catalogue(BROKERS).component(Kind.DETECTOR, "absolute").settings
    assert [(each.name, each.type, each.default) for each in found.values()] == [
        ("threshold", float, None),
        ("k1", float, 1.0),
        ("k2", float, 0.0),
    ]


@pytest.mark.parametrize("name", sorted(registry.BUILT_IN))
def test_a_strategy_of_the_coordinator_is_a_composition_of_names(name: str) -> None:
    strategy = registry.make(name)
    assert isinstance(strategy, StagedStrategy) and len(strategy.blueprint.stages) == len(strategy.stages)
    again = catalogue(COORDINATOR).build(strategy.blueprint).concerns
    assert [type(each.balancer) for each in again] == [type(each.balancer) for each in strategy.stages]


def test_what_exists_does_not_depend_on_what_was_imported() -> None:
    before = ([each.name for place in PLACES for each in catalogue(place)], registry.names())
    for each in pkgutil.walk_packages(tocsin.experiments.__path__, "tocsin.experiments."):
        import_module(each.name)
    assert ([each.name for place in PLACES for each in catalogue(place)], registry.names()) == before


# What is refused.

COV = Blueprint((StageParts(MAIN, "load", use("cov"), use("ldm")),))


@pytest.mark.parametrize(
    ("components", "error", "hint"),
    [
        ({"detector": "psychic"}, "no detector 'psychic'", "there are: always, cov, draining"),
        ({"balancer": "one-to-one"}, "no balancer 'one-to-one'", "there are: drain, gsh"),
        ({"criterion": "cpu"}, "no criterion 'cpu'", "there are: load, draining"),
        ({"exchanger": "silent"}, "no component 'exchanger'", "has: criterion, detector, balancer"),
        ({"migrate_detector": "cov"}, "no component 'migrate_detector'", "has: criterion, detector, balancer"),
        (
            {"detector": "draining"},
            "works on draining, and not on load",
            "as detector would fit: always, cov, newcomer",
        ),
        ({"balancer": "drain"}, "works on draining, and not on load", "as balancer would fit: gsh, join, ldm"),
        ({"criterion": "draining"}, "cov works on load, and not on draining", "as criterion would fit: load"),
        ({"detector": {"use": "cov", "gamma": 1.0}}, "no setting 'gamma'", "it has: alpha, beta"),
        ({"detector": {"use": "cov", "alpha": "much"}}, "is a number, not 'much'", "its default is 0.15"),
        ({"detector": {"use": "cov", "alpha": True}}, "is a number, not True", ""),
        ({"detector": {"use": "cov", "alpha": float("nan")}}, "is a number, not nan", ""),
        ({"detector": {"alpha": 0.3}}, "no component that uses them", "write a name"),
        ({"detector": ["cov"]}, "names no component", "write a name"),
        ({"detector": 3.0}, "names no component", "write a name"),
        ({"balancer": {"use": "regroup", "rest": -1.0}}, "rest of peal is -1", "use 0 or more"),
    ],
)
def test_what_does_not_fit_at_the_coordinator_is_refused_with_what_would(components, error, hint):
    with pytest.raises(UserError) as refused:
        catalogue(COORDINATOR).compose(COV, components)
    assert error in refused.value.message and hint in refused.value.hint


@pytest.mark.parametrize(
    ("strategy", "components", "error", "hint"),
    [
        (
            "rao-one-to-one",
            {"detector": "relative"},
            "at every peer, where exchanger silent",
            "as exchanger would fit: pull-from-random, push-to-neighbours, sampling",
        ),
        ("rao-one-to-one", {"detector": {"use": "absolute", "threshold": 9.0}}, "never finds", "heavy-or-light"),
        ("rao-one-to-one", {"detector": "absolute"}, "needs its setting threshold", "threshold = …"),
        ("rao-one-to-one", {"detector": "on-insertion"}, "works on subscribers", "heavy-or-light"),
        ("rao-one-to-one", {"balancer": "half-the-difference"}, "does not work with the detector", "one-to-one"),
        (
            "rao-one-to-one",
            {"balancer": "many-to-many"},
            "at directories, where exchanger silent",
            "as exchanger would fit: all-to-directory",
        ),
        ("rao-one-to-many", {"exchanger": "silent"}, "does not work with the exchanger", "light-to-directory"),
        (
            "rao-many-to-many",
            {"exchanger": "light-to-directory"},
            "at directories",
            "as exchanger would fit: all-to-directory",
        ),
        ("bharambe", {"exchanger": "silent"}, "local-load needs the load of all peers", "push-to-neighbours, sampling"),
        ("bharambe", {"detector": {"use": "local-load", "alpha": 1.0}}, "α is 1", "√2"),
        ("byers", {"detector": "relative"}, "no component 'detector'", "newcomers_detector"),
        ("byers", {"newcomers_balancer": "one-to-one"}, "does not work with the detector", "least-loaded"),
        ("byers", {"drain_balancer": "one-to-one"}, "no component 'drain_balancer'", "newcomers_balancer"),
        ("byers", {"guards": "at-once"}, "guards is 'at-once'", "write a list"),
        ("byers", {"guards": ["never"]}, "no guard 'never'", "at-once, cool-down, never-above"),
        ("byers", {"guards": [{"use": "at-once", "sessions": 0}]}, "sessions is 0", "1 or more"),
        ("byers", {"guards": [{"use": "at-once", "sessions": 1.5}]}, "a whole number, not 1.5", "default is 1"),
        ("byers", {"exchanger": {"use": "pull-from-random", "count": 0}}, "0 peers", "1 or more"),
    ],
)
def test_what_does_not_fit_at_brokers_is_refused_with_what_would(strategy, components, error, hint):
    with pytest.raises(UserError) as refused:
        brokers.make(strategy, {}, components)
    assert error in refused.value.message and hint in refused.value.hint


@dataclass
class Cut:
    """Cuts the range of a peer."""

    actions = frozenset({ActionKind.SPLIT})


def test_a_balancer_whose_actions_the_host_cannot_execute_is_refused_with_those_that_fit():
    with registered(BROKERS, Component(Kind.BALANCER, "cut", Cut)), pytest.raises(UserError) as refused:
        brokers.make("rao-one-to-one", {}, {"balancer": "cut"})
    assert "a host that can split" in refused.value.message
    assert refused.value.hint == "this host can: migrate; as balancer would fit: one-to-one"


def test_a_swap_that_needs_another_one_is_accepted_together_with_it():
    made = brokers.make("rao-one-to-one", {}, {"detector": "relative", "exchanger": "push-to-neighbours"})
    assert made.concerns[-1].detector == detector.Relative() and made.exchanger == exchanger.PushToNeighbours()


def test_a_component_with_a_parameter_that_no_configuration_can_give_is_refused():
    def strange(view: object, share: float = 1.0) -> Calm:
        return Calm()

    with registered(COORDINATOR, Component(Kind.DETECTOR, "strange", strange)), pytest.raises(UserError) as refused:
        catalogue(COORDINATOR).compose(COV, {"detector": "strange"})
    assert refused.value.message == "detector strange cannot be made without view"
    assert "as detector would fit: always, cov, newcomer" in refused.value.hint


def test_what_always_runs_cannot_be_chosen():
    with pytest.raises(UserError, match="guard room cannot be chosen"):
        catalogue(COORDINATOR).guards([use("room")])


def test_an_unknown_place_is_refused():
    with pytest.raises(NotFound) as refused:
        catalogue("moon")
    assert refused.value.hint == "strategies run at: coordinator, brokers"


# What fits.


def test_components_get_the_parts_that_they_ask():
    made = brokers.make("rao-one-to-many", {"slack": 0.2})
    assert made.concerns[-1].balancer.exchanger is made.exchanger
    assert made.exchanger.detector is made.concerns[-1].detector and made.exchanger.detector.slack == 0.2


def test_a_swap_changes_one_component_and_leaves_the_others():
    before = brokers.make("rao-one-to-one", {})
    after = brokers.make("rao-one-to-one", {}, {"detector": {"use": "absolute", "threshold": 9.0, "k2": 0.5}})
    assert after.concerns[-1].detector == detector.Absolute(9.0, 1.0, 0.5) == after.concerns[-1].balancer.detector
    assert (after.threshold, after.units) == (9.0, True)
    assert after.guards == before.guards and after.exchanger == before.exchanger
    assert [each.criterion for each in after.concerns] == [each.criterion for each in before.concerns]


def test_guards_replace_those_of_the_strategy():
    made = brokers.make("byers", {}, {"guards": [{"use": "at-once", "sessions": 7.0}, "cool-down"]})
    assert made.guards == [guards.AtOnce(7), guards.CoolDown(60.0)]
    assert brokers.make("byers", {}, {"guards": []}).guards == ()


def test_what_a_balancer_needs_of_reports_comes_with_it():
    made = brokers.make("rao-one-to-one", {}, {"balancer": "many-to-many", "exchanger": "all-to-directory"})
    assert made.units and made.advises


# Other packages.


@dataclass
class Calm:
    """Nothing is ever wrong."""

    def make_decision(self, scope, criterion):
        return LoadState.NORMAL


def test_a_component_of_another_program_has_a_name():
    with registered(COORDINATOR, Component(Kind.DETECTOR, "calm", Calm)):
        _, parts = catalogue(COORDINATOR).compose(COV, {"detector": "calm"})
    assert parts.concerns[0].detector == Calm()
    with pytest.raises(NotFound):
        catalogue(COORDINATOR).component(Kind.DETECTOR, "calm")


def test_a_package_adds_components_as_entry_points(monkeypatch):
    points = [
        EntryPoint("brokers.detector.calm", f"{__name__}:Calm", places.GROUP),
        EntryPoint("brokers.exchanger.loud", f"{__name__}:LOUD", places.GROUP),
        EntryPoint("coordinator.detector.calm", f"{__name__}:Calm", places.GROUP),
    ]
    monkeypatch.setattr(places, "entry_points", lambda group: points)
    places.from_packages.cache_clear()
    try:
        found = catalogue(BROKERS)
    finally:
        monkeypatch.undo()
        places.from_packages.cache_clear()
    assert found.component(Kind.DETECTOR, "calm").description == "Nothing is ever wrong."
    assert found.component(Kind.EXCHANGER, "loud") is LOUD


LOUD = Component(Kind.EXCHANGER, "loud", exchanger.PushToNeighbours, reach=Reach.EVERY_PEER)


@pytest.mark.parametrize("name", ["brokers", "brokers.detector", "brokers.psychic.calm", "brokers.detector."])
def test_an_entry_point_without_place_kind_and_name_is_refused(name):
    with pytest.raises(UserError, match="names no component"):
        places.loaded(EntryPoint(name, f"{__name__}:Calm", places.GROUP))
