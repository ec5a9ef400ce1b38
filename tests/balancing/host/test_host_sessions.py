"""Sessions: every interleaving of small cases, and many random ones with lost, repeated, late and forged messages."""

from __future__ import annotations

import copy
import pickle
from random import Random

import pytest
from host_network import Network

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import Migrate, Split, Swap
from tocsin.balancing.host.host import Executed, Received
from tocsin.balancing.host.sessions import ENDED, UNREPORTED, Sessions, SessionState

GIVE = Migrate("a", "b", 1.0, "", ("u",))
SWAP = Swap("a", "b", 1.0, "", ("u",), ("v",))


def network():
    return Network({"a": {"u": 1.0}, "b": {"v": 1.0}})


def at_rest(net: Network) -> None:
    """All executions are reported and all deadlines pass: every session must have ended."""
    for _ in range(4):
        while net.executing:
            net.finish()
        net.wire.clear()
        net.tick(31.0)
    assert net.open == 0, "a session does not end"
    net.check()
    assert net.units == {"u", "v"}


def key(net: Network) -> bytes:
    """What the future depends on."""
    sessions = {
        peer: [(each.number, each.state, each.deadline - net.now, each.done, each.failed) for each in host.sessions]
        for peer, host in net.hosts.items()
    }
    ended = {peer: sorted(host.sessions._ended) for peer, host in net.hosts.items()}
    here = {peer: sorted(model.here) for peer, model in net.models.items()}
    wire = sorted(repr(each) for each in net.wire)
    return pickle.dumps((sessions, ended, here, wire, [repr(each) for each in net.executing]))


def moves(net: Network, faults: int, ticks: int):
    """Everything that can happen next: its price in faults and ticks, and how."""
    for place in range(len(net.wire)):
        yield 0, 0, lambda net, place=place: net.deliver(place)
        yield 1, 0, lambda net, place=place: net.wire.pop(place)
        yield 1, 0, lambda net, place=place: net.deliver(place, keep=True)
    for place in range(len(net.executing)):
        yield 0, 0, lambda net, place=place: net.finish(place)
        yield 1, 0, lambda net, place=place: net.finish(place, ok=False)
    yield 0, 1, lambda net: net.tick(31.0)
    yield 1, 0, lambda net: net.lose("b")


def explored(net: Network, faults: int, ticks: int) -> int:
    """Goes every way with so many faults and ticks; returns the number of states."""
    seen: set[tuple[bytes, int, int]] = set()
    ways = [(net, faults, ticks)]
    while ways:
        here, faults, ticks = ways.pop()
        now = (key(here), faults, ticks)
        if now in seen:
            continue
        seen.add(now)
        here.check()
        for fault, tick, move in moves(here, faults, ticks):
            if fault <= faults and tick <= ticks:
                there = copy.deepcopy(here)
                move(there)
                ways.append((there, faults - fault, ticks - tick))
        at_rest(here)
    return len(seen)


CASES = {
    "the source asks": [("a", GIVE)],
    "the target asks": [("b", GIVE)],
    "a swap": [("a", SWAP)],
    "both ask for the same": [("a", GIVE), ("b", GIVE)],
}


def states(case: str, faults: int) -> int:
    net = network()
    for peer, action in CASES[case]:
        net.suggest(peer, action)
    return explored(net, faults, ticks=1)


@pytest.mark.parametrize("case", CASES)
def test_every_interleaving_of_a_session_ends_and_executes_at_most_once(case):
    assert states(case, faults=1 if len(CASES[case]) == 1 else 0) > 30


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_every_interleaving_with_another_fault_ends_too(case):
    assert states(case, faults=2 if len(CASES[case]) == 1 else 1) > 100


def forged(net: Network, rng: Random) -> ms.Message:
    """A message of a peer that lies: about numbers, units and results."""
    numbers = [each.number for host in net.hosts.values() for each in host.sessions]
    number = rng.choice([*numbers, "c/0/1", f"c/x/{rng.randrange(1_000)}", "a/0/1"])
    source, target = rng.sample(["a", "b", "c"], 2)
    unit = rng.choice(["u", "v", "w", "u1", "invented"])
    actions = [
        Migrate(source, target, rng.choice([1.0, -1.0, float("nan"), float("inf")]), "", (unit,)),
        Migrate(source, target, 1.0, "", (unit, unit)),
        Swap(source, target, 0.0, "", (unit,), (rng.choice(["u", "v", "w"]),)),
        Split(source, target, 1.0),
    ]
    chosen = tuple(rng.choices(actions, k=rng.randint(0, 2)))
    return rng.choice(
        [
            ms.Request(number, rng.choice(["items", "unknown"]), chosen),
            ms.Accept(number),
            ms.Decline(number, "no"),
            ms.Done(number, (0, -1, 99)),
            ms.Advise("items", chosen),
            ms.Report(rng.randrange(10), ()),
        ]
    )


def random_run(seed: int, steps: int = 60) -> Network:
    rng = Random(seed)
    net = Network({"a": {"u": 1.0, "u1": 2.0}, "b": {"v": 1.0}, "c": {"w": 1.0}})
    everything = net.units
    for _ in range(steps):
        kind = rng.choice(["suggest", "deliver", "deliver", "drop", "repeat", "finish", "fail", "tick", "lie", "lose"])
        if kind == "suggest":
            source, target = rng.sample("abc", 2)
            unit = rng.choice(sorted(everything))
            net.suggest(rng.choice([source, target]), Migrate(source, target, 1.0, "", (unit,)))
        elif kind in ("deliver", "drop", "repeat") and net.wire:
            place = rng.randrange(len(net.wire))
            if kind == "drop":
                net.wire.pop(place)
            else:
                net.deliver(place, keep=kind == "repeat")
        elif kind in ("finish", "fail") and net.executing:
            net.finish(rng.randrange(len(net.executing)), ok=kind == "finish")
        elif kind == "tick":
            net.tick(rng.choice([1.0, 10.0, 31.0]))
        elif kind == "lie":
            net.put(rng.choice("ab"), Received("c", forged(net, rng)))
        elif kind == "lose" and rng.random() < 0.2:
            net.lose(rng.choice("abc"))
        net.check()
    for _ in range(4):
        while net.executing:
            net.finish()
        net.wire.clear()
        net.tick(31.0)
    assert net.open == 0 and net.units == everything
    return net


@pytest.mark.parametrize("part", range(4))
def test_no_unit_is_executed_twice_or_lost_whatever_the_network_and_a_liar_do(part):
    for seed in range(part * 100, part * 100 + 100):
        random_run(seed)


@pytest.mark.slow
def test_no_unit_is_executed_twice_or_lost_in_thousands_of_runs():
    for seed in range(1_000, 11_000):
        random_run(seed, steps=120)


def test_a_request_that_is_repeated_after_the_session_has_ended_opens_none():
    net = Network({"a": {}, "b": {}})
    net.suggest("a", Split("a", "b", 1.0))
    request = net.wire[0]
    net.run()
    assert net.open == 0
    net.wire.append(request)
    net.run()
    assert net.open == 0 and not net.executing


def test_a_request_that_arrives_after_its_end_opens_no_session():
    net = network()
    net.suggest("b", GIVE)  # b asks a, which would execute
    net.tick(31.0)
    [request, done] = net.wire
    net.wire = [done, request]
    net.run()
    assert net.open == 0 and net.models["a"].holds("u")


def test_a_session_that_takes_too_long_keeps_its_units_until_the_driver_reports():
    net = Network({"a": {"u": 1.0}, "b": {}, "c": {}})
    net.suggest("a", GIVE)
    net.deliver()  # request
    net.deliver()  # accept
    net.tick(31.0)
    assert [each.state for each in net.hosts["a"].sessions] == [SessionState.LATE]
    net.suggest("a", Migrate("a", "c", 1.0, "", ("u",)))
    assert "another session" in net.hosts["a"].refusals[-1].reason
    net.finish()
    assert net.models["b"].holds("u")
    assert len(net.hosts["a"].sessions) == 0


def test_an_execution_that_is_never_reported_is_given_up():
    net = network()
    net.suggest("a", GIVE)
    net.deliver()
    net.deliver()
    net.executing.clear()
    net.tick(31.0)
    net.tick(UNREPORTED)
    assert net.open == 0


def test_a_driver_that_reports_twice_or_an_unknown_position_changes_nothing():
    net = network()
    net.suggest("a", GIVE)
    net.deliver()
    net.deliver()
    peer, execute = net.executing[0]
    for position in (-1, 1, 99):
        net.put(peer, Executed(execute.session, position))
    net.put(peer, Executed("a/0/99", 0))
    assert net.open == 2
    net.finish()
    net.put(peer, Executed(execute.session, 0))
    net.run()
    assert net.open == 0


def test_numbers_of_ended_sessions_are_remembered_within_bounds():
    sessions = Sessions("a")
    for number in range(ENDED + 10):
        sessions.void(f"b/0/{number}")
    assert not sessions.knows("b/0/0") and sessions.knows(f"b/0/{ENDED + 9}") and len(sessions._ended) == ENDED


def test_the_partner_learns_the_result_even_if_the_message_was_lost():
    net = network()
    net.suggest("a", GIVE)
    net.deliver()
    net.deliver(keep=True)  # accept, which will be repeated
    net.finish()
    done = next(place for place, (_, _, message) in enumerate(net.wire) if isinstance(message, ms.Done))
    net.wire.pop(done)
    net.run()
    assert net.open == 0
    assert net.hosts["b"].refusals == []


def test_a_unit_that_has_left_before_the_answer_is_not_executed():
    net = network()
    net.suggest("a", GIVE)
    net.deliver()
    del net.models["a"].here["u"]
    net.run()
    assert net.open == 0 and net.hosts["a"].refusals[-1].reason == "u has left"


ANSWERS = [ms.Accept, lambda number: ms.Decline(number, "no"), lambda number: ms.Done(number, (0,))]


@pytest.mark.parametrize("answer", ANSWERS, ids=["accept", "decline", "done"])
def test_an_answer_of_another_peer_than_the_partner_changes_nothing(answer):
    net = Network({"a": {"u": 1.0}, "b": {}, "c": {}})
    net.suggest("a", GIVE)
    session = next(iter(net.hosts["a"].sessions))
    net.put("a", Received("c", answer(session.number)))
    assert session.state is SessionState.REQUESTED and len(net.hosts["a"].sessions) == 1 and not net.executing
