from __future__ import annotations

import pytest
from peer_scope import about, scope

from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadState
from tocsin.balancing.host.messages import Key
from tocsin.balancing.strategies.antoine2014.rao import (
    Directory,
    HeavyOrLight,
    LightToDirectory,
    ManyToMany,
    OneToMany,
    OneToOne,
    assignment,
    best_fit,
    virtual_server,
)
from tocsin.errors import UserError

HEAVY, LIGHT = LoadState.OVERLOADED, LoadState.UNDERLOADED


@pytest.mark.parametrize(("load", "state"), [(9.9, LIGHT), (10.0, LIGHT), (10.1, HEAVY)])
def test_a_peer_is_heavy_above_its_threshold_and_light_otherwise(load, state):
    assert HeavyOrLight(10.0).make_decision(scope(servers={"v": load}), "load") is state


def test_without_a_threshold_the_mean_of_all_known_peers_counts_with_slack():
    at = scope(servers={"v": 10.0}, known=[about("p", 8.0), about("q", 9.0)])
    assert HeavyOrLight(slack=0.1).limit(at, "load") == pytest.approx(9.9)
    assert HeavyOrLight(slack=0.1).make_decision(at, "load") is HEAVY
    assert HeavyOrLight(slack=0.2).make_decision(at, "load") is LIGHT


def test_a_peer_that_knows_nothing_is_light():
    assert HeavyOrLight().make_decision(scope(servers={"v": 1e9}), "load") is LIGHT


@pytest.mark.parametrize(("threshold", "slack"), [(-1.0, 0.1), (None, -0.1)])
def test_negative_thresholds_are_refused(threshold, slack):
    with pytest.raises(UserError, match="0 or more"):
        HeavyOrLight(threshold, slack)


@pytest.mark.parametrize(
    ("excess", "room", "chosen"),
    [
        (3.0, 10.0, "c"),  # the lightest that is enough
        (3.0, 3.5, "b"),  # nothing that fits is enough: the heaviest
        (9.0, 10.0, "d"),
        (1.0, 0.5, None),
    ],
)
def test_which_virtual_server_moves(excess, room, chosen):
    units = [("a", 1.0), ("b", 2.0), ("c", 4.0), ("d", 8.0), ("e", 0.0)]
    found = virtual_server(units, excess, room)
    assert (found and found[0]) == chosen


class TestOneToOne:
    balancer = OneToOne(HeavyOrLight(10.0))

    def test_a_light_peer_asks_a_random_one(self):
        at = scope(servers={"v": 2.0})
        asked = self.balancer.select_target(at, "load", LIGHT)
        assert isinstance(asked, Ask) and asked.recipient in at.neighbours
        assert self.balancer.select_target(at, "load", HEAVY) is None

    def test_in_a_key_space_it_asks_for_a_random_id(self):
        balancer = OneToOne(HeavyOrLight(10.0), probe=lambda scope: Key(scope.rng.randrange(100)))
        asked = balancer.select_target(scope(servers={"v": 2.0}), "load", LIGHT)
        assert isinstance(asked, Ask) and isinstance(asked.recipient, Key)

    def test_one_virtual_server_comes_from_a_heavy_peer(self):
        heavy = about("p", 14.0, threshold=10.0, units=(("x", 9.0), ("y", 4.0), ("z", 1.0)))
        at = scope(servers={"v": 2.0}, answer=[heavy])
        assert self.balancer.select_target(at, "load", LIGHT) == "p"
        assert self.balancer.select_load_to_move(at, "load", LIGHT, "p") == ("y",)
        (action,) = self.balancer.rebalance(at, "load", LIGHT, "p", ["y"])
        assert (action.source, action.target, action.moved, action.load) == ("p", "me", ("y",), 4.0)

    def test_nothing_comes_from_a_light_peer(self):
        at = scope(servers={"v": 2.0}, answer=[about("p", 9.0, threshold=10.0, units=(("x", 9.0),))])
        assert self.balancer.select_target(at, "load", LIGHT) is None

    def test_nothing_comes_that_would_make_this_peer_heavy(self):
        at = scope(servers={"v": 9.0}, answer=[about("p", 14.0, units=(("x", 4.0),))])
        assert self.balancer.select_load_to_move(at, "load", LIGHT, "p") == ()

    def test_a_peer_without_neighbours_asks_none(self):
        assert self.balancer.select_target(scope(neighbours=()), "load", LIGHT) is None


class TestOneToMany:
    exchanger = LightToDirectory(HeavyOrLight(10.0), locate=lambda scope, number: "r")

    def test_only_light_peers_push_to_the_directory(self):
        light, heavy = scope(servers={"v": 2.0}), scope(servers={"v": 12.0})
        pushed = list(self.exchanger.exchange_load_information(light, ["r"], [light.own("load")]))
        assert [to for to, _ in pushed] == ["r"]
        assert not list(self.exchanger.exchange_load_information(heavy, ["r"], [heavy.own("load")]))

    def test_a_directory_answers_with_all_that_it_knows(self):
        at = scope("r", {"v": 2.0}, [about("p", 3.0)])
        assert [each.peer for each in self.exchanger.reported(at, [at.own("load")])] == ["r", "p"]
        assert self.exchanger.recipients(at) == ()

    def test_a_heavy_peer_asks_the_directory_and_gives_the_heaviest_that_fits_to_the_best_fit(self):
        balancer, servers = OneToMany(self.exchanger), {"x": 7.0, "y": 4.0, "z": 1.0}
        assert balancer.select_target(scope(servers=servers), "load", HEAVY) == Ask("r")
        at = scope(servers=servers, answer=[about("p", 1.0), about("q", 5.0), about("s", 9.5)])
        assert balancer.select_target(at, "load", HEAVY) == "p"
        assert balancer.select_load_to_move(at, "load", HEAVY, "p") == ("x",)
        (action,) = balancer.rebalance(at, "load", HEAVY, "p", ["x"])
        assert (action.source, action.target, action.load) == ("me", "p", 7.0)

    def test_a_heavy_directory_asks_itself(self):
        at = scope("r", {"x": 7.0, "y": 6.0}, [about("p", 4.5)])
        balancer = OneToMany(self.exchanger)
        assert balancer.select_target(at, "load", HEAVY) is None  # nothing fits
        at = scope("r", {"x": 7.0, "y": 6.0}, [about("p", 4.0)])
        assert balancer.select_target(at, "load", HEAVY) == "p"

    def test_no_directory_is_no_choice(self):
        with pytest.raises(UserError, match="0 directories"):
            LightToDirectory(directories=0)


class TestManyToMany:
    def test_a_directory_works_where_heavy_and_light_peers_have_reported(self):
        detector = Directory(HeavyOrLight(10.0))
        assert detector.make_decision(scope(servers={"v": 1.0}), "load") is LoadState.NORMAL
        assert detector.make_decision(scope(servers={"v": 1.0}, known=[about("p", 2.0)]), "load") is LoadState.NORMAL
        assert detector.make_decision(scope(servers={"v": 1.0}, known=[about("p", 12.0)]), "load") is HEAVY

    def test_it_assigns_servers_of_many_heavy_peers_to_many_light_ones(self):
        everyone = [
            about("p", 14.0, units=(("x", 9.0), ("y", 5.0))),
            about("q", 13.0, units=(("u", 10.0), ("v", 3.0))),
            about("r", 6.0),
            about("s", 4.0),
        ]
        found = list(assignment(everyone, dict.fromkeys("pqrs", 10.0)))
        assert [(each.source, each.target, each.moved) for each in found] == [("p", "s", ("y",)), ("q", "r", ("v",))]

    def test_no_light_peer_becomes_heavy(self):
        everyone = [about("p", 30.0, units=tuple((f"u{n}", 3.0) for n in range(10))), about("r", 5.0), about("s", 9.0)]
        found = list(assignment(everyone, dict.fromkeys("prs", 10.0)))
        assert [each.target for each in found] == ["r"]

    def test_the_solution_includes_the_directory_itself(self):
        at = scope(servers={"a": 1.0}, known=[about("p", 12.0, units=(("x", 3.0),))])
        balancer = ManyToMany(HeavyOrLight(10.0))
        (action,) = balancer.rebalance(at, "load", HEAVY, "me", ())
        assert (action.source, action.target) == ("p", "me")


def test_the_best_fit_leaves_the_least_room():
    assert best_fit([("x", 3.0), ("y", 9.0)], {"p": 4.0, "q": 3.0, "r": 8.0}) == ("q", "x")
    assert best_fit([("x", 3.0)], {"p": 2.0}) is None
