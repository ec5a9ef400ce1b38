"""Brokers that balance among themselves: nothing is lost, every session ends, and planted bugs are found."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from tocsin.balancing.brokers.broker_load import BrokerLoad
from tocsin.balancing.brokers.strategies import STRATEGIES
from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.host import Composition, Execute, Host, Send
from tocsin.balancing.host.sessions import Sessions, SessionState
from tocsin.broker.core.balancing.peer_balancer import PeerBalancer
from tocsin.simulation.campaign import attempt, command
from tocsin.simulation.peers.faults import KINDS, STEPS, SessionFault
from tocsin.simulation.run import run, scenario_of, script_of
from tocsin.wire.tickets import TicketVerifier

#: Runs of `make test`; `make test-slow` makes more.
FEW = 8
#: A bug must be found within this many seeds.
MOST = 40

Patch = Callable[[pytest.MonkeyPatch], None]


def test_nothing_is_lost_or_duplicated_and_every_session_ends():
    found = [attempt(seed, peers=True) for seed in range(FEW)]
    assert [str(violation) for each in found for violation in each.violations] == []
    assert sum(each.moves for each in found) > FEW


def only_swaps(patch: pytest.MonkeyPatch) -> None:
    for name in [name for name in KINDS if name != "swap"]:
        patch.delitem(KINDS, name)


def test_swaps_of_components_in_the_middle_of_sessions_do_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fault is a swap; messages, load information and sessions of the previous strategy are on their way."""
    swapped: list[str] = []
    use = PeerBalancer.use

    def counted(self: PeerBalancer, event: Any, out: Any) -> None:
        swapped.append(event.balancing.strategy)
        use(self, event, out)

    monkeypatch.setattr(PeerBalancer, "use", counted)
    only_swaps(monkeypatch)
    found = [attempt(seed, peers=True) for seed in range(4)]
    assert [str(violation) for each in found for violation in each.violations] == []
    assert len(swapped) > 6 and len(set(swapped)) > 2


@pytest.mark.slow
def test_nothing_is_lost_in_many_networks_of_peers():
    begin = Random().randrange(10**9)
    for seed in range(begin, begin + 200):
        found = attempt(seed, peers=True)
        assert not found.violations, command(seed, peers=True)


def test_a_seed_replays_its_run():
    assert run(3, peers=True).events == run(3, peers=True).events
    assert command(3, [0], peers=True) == "tocsin simulate faults --peers --seed 3 --only 0 --trace"


def test_scenarios_and_faults_of_all_kinds_are_drawn():
    scenarios = [scenario_of(seed, peers=True) for seed in range(100)]
    assert {each.broker.balancing.strategy for each in scenarios} == set(STRATEGIES)
    assert {each.alone for each in scenarios} == {True, False}
    assert all(each.coordinator.balancing.mode == each.broker.balancing.mode == "peers" for each in scenarios)
    faults = [each for seed in range(300) for each in script_of(seed, peers=True) if isinstance(each, SessionFault)]
    steps = {(kind, step) for kind in KINDS for step in STEPS if kind != "replay" or step == "accept"}
    assert {(each.kind, each.step) for each in faults} == steps


# -- planted bugs


def it_executes_without_an_acceptance(patch: pytest.MonkeyPatch) -> None:
    begin = Host._begin

    def at_once(self: Host, scope: Any, criterion: str, action: Any) -> Any:
        out = begin(self, scope, criterion, action)
        for each in list(out):
            if isinstance(each, Send) and isinstance(each.message, ms.Request) and each.message.members:
                session = self.sessions.get(each.message.session, each.to)
                self.sessions.advance(session, SessionState.EXECUTING, scope.now)
                permits = {member.name: "none" for member in each.message.members[0]}
                out.append(Execute(session.number, 0, action, permits))
        return out

    patch.setattr(Host, "_begin", at_once)


def both_sides_think_that_the_other_executes(patch: pytest.MonkeyPatch) -> None:
    def wait(self: Host, sender: str, accept: ms.Accept, now: float) -> list[Any]:
        session = self.sessions.get(accept.session, sender)
        if session is not None and session.state is SessionState.REQUESTED:
            self.sessions.advance(session, SessionState.WAITING, now)
        return []

    patch.setattr(Host, "_accepted", wait)


def a_ticket_counts_twice(patch: pytest.MonkeyPatch) -> None:
    refuses = TicketVerifier.refuses

    def forgetful(self: TicketVerifier, text: str, subscriber: str) -> str | None:
        self._used.clear()
        return refuses(self, text, subscriber)

    patch.setattr(TicketVerifier, "refuses", forgetful)


def a_session_never_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Sessions, "late", lambda self, now: [])
    patch.setattr(Host, "_lost", lambda self, peer, now: [])


def a_departure_never_ends(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("tocsin.broker.core.model.departures.Departures.ended", lambda self, here, now: [])


def subscribers_migrate_to_and_fro(patch: pytest.MonkeyPatch) -> None:
    """No guard and no cool-down, and the heaviest group moves whether or not it fits."""
    patch.setattr("tocsin.balancing.host.guards.NeverAbove.objection", lambda *arguments: None)
    patch.setattr(BrokerLoad, "cool_down", property(lambda self: 0.0, lambda self, value: None), raising=False)
    patch.setattr(
        "tocsin.balancing.strategies.antoine2014.rao.virtual_server",
        lambda units, excess, room: next(iter(units), None),
    )


def the_source_closes_before_the_subscriber_has_joined(patch: pytest.MonkeyPatch) -> None:
    """The migration is a break before a make, and the order is lost with the connection."""
    from tocsin.wire import close_codes

    execute = PeerBalancer._execute

    def broken(self: PeerBalancer, it: Execute, out: Any) -> None:
        before = len(out)
        execute(self, it, out)
        for name in it.permits:
            peer = self._load_reports.sessions.by_subscriber.get(name)
            if peer is not None and len(out) > before:
                self._load_reports.sessions.close(peer, close_codes.LOGGED_OUT, "sent away", out)

    patch.setattr(PeerBalancer, "_execute", broken)


def a_swap_forgets_sessions(patch: pytest.MonkeyPatch) -> None:
    use = Host.use

    def broken(self: Host, strategy: Composition, now: float) -> None:
        use(self, strategy, now)
        self.sessions = Sessions(self.peer, strategy.timeout)

    patch.setattr(Host, "use", broken)


def a_swap_keeps_pulls(patch: pytest.MonkeyPatch) -> None:
    use = Host.use

    def broken(self: Host, strategy: Composition, now: float) -> None:
        asked = self.information._asked
        use(self, strategy, now)
        self.information._asked = asked

    patch.setattr(Host, "use", broken)


PLANTED = [
    (it_executes_without_an_acceptance, "both sides agree", 0),
    (both_sides_think_that_the_other_executes, "both sides agree", 0),
    (a_session_never_ends, "every session ends", 1),
    (a_departure_never_ends, "it settles", 0),
    (subscribers_migrate_to_and_fro, "it settles", 51),
    (the_source_closes_before_the_subscriber_has_joined, "no client is lost", 0),
    (a_ticket_counts_twice, "both sides agree", 4),
]


@pytest.mark.parametrize(("planted", "rule", "first"), PLANTED, ids=lambda value: getattr(value, "__name__", ""))
def test_the_campaign_finds_the_bug(monkeypatch: pytest.MonkeyPatch, planted: Patch, rule: str, first: int) -> None:
    planted(monkeypatch)
    seeds = range(first, first + MOST)
    found = (violation.invariant for seed in seeds for violation in attempt(seed, peers=True).violations)
    assert rule in found


@pytest.mark.parametrize("planted", [a_swap_forgets_sessions, a_swap_keeps_pulls])
def test_a_campaign_of_swaps_finds_the_bug(monkeypatch: pytest.MonkeyPatch, planted: Patch) -> None:
    """Swaps are one of many faults, and few of them meet what the bug breaks: here all faults are swaps."""
    only_swaps(monkeypatch)
    planted(monkeypatch)
    found = (violation.invariant for seed in range(MOST) for violation in attempt(seed, peers=True).violations)
    assert "swaps do no harm" in found
