"""Random scripts of faults contain every kind."""

from __future__ import annotations

from random import Random

from tocsin.simulation.faults import AMID, KINDS, script
from tocsin.simulation.run import TROUBLE, script_of
from tocsin.simulation.scenario import STRATEGIES, draw
from tocsin.simulation.user_scenario import RULES, draw_users


def test_every_kind_of_fault_is_drawn_and_some_wait_for_a_migration():
    drawn = [fault for seed in range(200) for fault in script_of(seed)]
    assert {fault.kind for fault in drawn} == set(KINDS)
    assert {fault.kind for fault in drawn if fault.amid} == set(AMID)
    assert all(0 < fault.at <= TROUBLE for fault in drawn)


def test_a_script_is_in_the_order_of_its_times():
    for seed in range(20):
        times = [fault.at for fault in script_of(seed)]
        assert times == sorted(times)


def test_no_broker_is_removed_where_capacity_is_tight():
    drawn = [fault.kind for seed in range(200) for fault in script(Random(seed), TROUBLE, tight=True)]
    assert not {"retire", "drain"} & set(drawn)


def test_users_of_all_kinds_are_drawn_beside_anonymous_clients():
    drawn = [draw_users(Random(-seed), draw(Random(seed))) for seed in range(100)]
    clients = [client for each in drawn if each.users for client in each.clients]
    assert 20 < sum(each.users for each in drawn) < 60
    assert {bool(client.user) for client in clients} == {True, False}
    assert {(client.rest, client.forgetful) for client in clients if client.user} == {
        (rest, forgetful) for rest in (True, False) for forgetful in (True, False)
    }
    rules = [each.rules for each in drawn if each.users]
    assert None in rules and {rule for each in rules if each for rule in each.values()} == set(RULES)
    assert all(not client.rest for each in drawn for client in each.clients[:1])  # faults strike a client that is there


def test_scenarios_of_all_kinds_are_drawn():
    drawn = [draw(Random(seed)) for seed in range(300)]
    assert {each.coordinator.strategy for each in drawn} == {name for name, _ in STRATEGIES}
    assert {each.masked for each in drawn} == {True, False}
    assert {len(each.channels) for each in drawn} == {1, 2, 3}
    assert any(client.pace for each in drawn for client in each.clients)
    assert any(each.broker.limits.connections < 100 for each in drawn) and any(each.spare for each in drawn)
