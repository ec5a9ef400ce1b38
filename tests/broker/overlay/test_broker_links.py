"""Links between broker processes: roles, cycles, names, breaks, and bytes that are no messages."""

from __future__ import annotations

import pytest
from overlay_lab import free_port, overlay, roles, up


def test_roles_convert_when_the_third_broker_joins_and_a_cycle_is_refused(tmp_path):
    with overlay(tmp_path) as net:
        net.start("a")
        net.start("b", "a")
        net.until("a", lambda view: up(view) == {"b"})
        assert set(roles(net.view("b")).values()) == {"both"}
        net.start("c", "b")
        net.until_known("a", "b", "c")
        for name in "abc":
            net.until(name, lambda view: roles(view) == {"a": "edge", "b": "head", "c": "edge"})
        net.start("d", "a", "c")  # the second of them would close a cycle
        view = net.until("d", lambda view: len(up(view)) == 1 and view["problems"])
        (problem,) = view["problems"].values()
        assert "would close a cycle" in problem and "leave it out" in problem
        assert len(net.until("b", lambda view: up(view) == {"a", "c"})["brokers"]) == 4


@pytest.mark.slow
def test_a_link_heals_when_the_broker_in_the_middle_is_killed(tmp_path):
    with overlay(tmp_path) as net:
        net.start("a")
        net.start("b", "a")
        net.start("c", "b")
        net.until_known("a", "b", "c")
        before = net.view("b")["epoch"]
        net.brokers["b"].kill()
        net.until("a", lambda view: not up(view))
        net.brokers["b"].start()
        for name, neighbours in (("a", {"b"}), ("b", {"a", "c"}), ("c", {"b"})):
            net.until(name, lambda view, expected=neighbours: up(view) == expected)
        assert net.view("b")["epoch"] > before


@pytest.mark.slow
def test_two_brokers_with_one_name_are_refused(tmp_path):
    with overlay(tmp_path) as net:
        net.start("a")
        net.start("b", "a")
        net.until("a", lambda view: up(view) == {"b"})
        net.inside["again"] = net.inside.pop("b")
        twin = net.brokers.pop("b")
        net.brokers["first"] = twin
        net.start("b", "a", home="other")
        view = net.until("b", lambda view: view["problems"])
        assert "another broker is known as b" in str(view["problems"]) and "choose another name" in str(
            view["problems"]
        )
        assert up(net.view("a")) == {"b"} and up(net.view("first")) == {"a"}


@pytest.mark.slow
def test_a_broker_is_not_its_own_neighbour(tmp_path):
    with overlay(tmp_path) as net:
        net.inside["a"] = free_port()
        net.start("a", "a")
        view = net.until("a", lambda view: view["problems"])
        assert "known as a" in str(view["problems"])
