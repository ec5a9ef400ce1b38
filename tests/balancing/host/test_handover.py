"""Units whose members the target admits, advice, and questions to several peers at the same time."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest
from host_network import Items, Queue, composition

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import ActionKind, Migrate
from tocsin.balancing.host.exchanger import Silent
from tocsin.balancing.host.guards import WithinCapacity
from tocsin.balancing.host.host import Execute, Executed, Host, Received, Send, Tick, Trigger
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation, LoadState
from tocsin.balancing.host.load_model import Member
from tocsin.balancing.host.managers import Concern

GIVE = Migrate("a", "b", 1.0, "", ("u",))


@dataclass
class Groups(Items):
    """Each unit has two members; ``full`` refuses all."""

    full: bool = False
    weight: float = 1.0

    def members(self, action):
        return tuple(Member(f"{unit}{n}", ((n, 1.0),)) for unit in action.units for n in (1, 2))

    def appraised(self, criterion, action, members):
        return Migrate(action.source, action.target, self.weight, "", action.units)

    def refuses(self, action, members):
        return "it is full" if self.full else None

    def admit(self, action, members):
        return {each.name: f"permit of {each.name}" for each in members}


def made(peer: str, here: dict[str, float], *waiting: Migrate, advises: bool = False, **model: object) -> Host:
    queue = Queue(waiting=list(waiting))
    strategy = composition(
        concerns=[Concern("items", queue, queue)], exchanger=Silent(), guards=[WithinCapacity()], advises=advises
    )
    return Host(peer, Groups(here, **model), strategy, Random(1), ActionKind)


def one(out):
    (found,) = out
    return found


def test_a_request_names_the_members_and_the_acceptance_has_a_permit_for_each():
    source, target = made("a", {"u": 1.0}, GIVE), made("b", {})
    request = one(source.handle(Trigger(), 0.0)).message
    assert [each.name for each in request.members[0]] == ["u1", "u2"]
    assert request.information[0].peer == "a" and request.information[0].load == 1.0
    accept = one(target.handle(Received("a", request), 0.0)).message
    assert accept.permits == ({"u1": "permit of u1", "u2": "permit of u2"},)
    # The target knows the load of the source now, without having asked.
    assert target.registry.get_load_report("items", ["a"])[0].load == 1.0
    execute = one(source.handle(Received("b", accept), 0.0))
    assert isinstance(execute, Execute) and execute.permits == accept.permits[0]
    done = one(source.handle(Executed(execute.session, 0), 0.0))
    assert target.handle(Received("a", done.message), 0.0) == [] and len(target.sessions) == 0


@pytest.mark.parametrize("model", [{"full": True}, {"weight": 9.0, "most": 5.0}])
def test_the_target_decides_by_its_own_appraisal(model):
    source, target = made("a", {"u": 1.0}, GIVE), made("b", {}, **model)
    request = one(source.handle(Trigger(), 0.0)).message
    assert isinstance(one(target.handle(Received("a", request), 0.0)).message, ms.Decline)


def test_a_target_that_would_like_a_unit_advises_its_owner_to_ask():
    target = made("b", {}, GIVE)
    advice = one(target.handle(Trigger(), 0.0))
    assert (advice.to, type(advice.message)) == ("a", ms.Advise) and len(target.sessions) == 0
    source = made("a", {"u": 1.0})
    assert isinstance(one(source.handle(Received("b", advice.message), 0.0)).message, ms.Request)


def test_a_request_of_the_wrong_side_or_without_members_is_declined():
    source, target = made("a", {"u": 1.0}), made("b", {})
    wrong = source.handle(Received("b", ms.Request("b/0/1", "items", (GIVE,), (), ((),))), 0.0)
    assert "asks for the session" in one(wrong).message.reason
    bare = target.handle(Received("a", ms.Request("a/0/1", "items", (GIVE,))), 0.0)
    assert "does not say who would come" in one(bare).message.reason


def test_a_directory_advises_the_owner_and_advice_is_not_passed_on():
    directory = made("d", {}, GIVE, advises=True)
    advice = one(directory.handle(Trigger(), 0.0))
    assert advice == Send("a", ms.Advise("items", (GIVE,)))
    assert made("c", {}, advises=True).handle(Received("d", advice.message), 0.0) == []
    assert made("a", {}).handle(Received("d", advice.message), 0.0) == []  # it does not have the unit


def test_without_the_word_of_the_strategy_actions_of_others_are_refused():
    host = made("d", {}, GIVE)
    assert host.handle(Trigger(), 0.0) == [] and "does not concern" in host.refusals[0].reason


@dataclass
class AskTwo:
    """Asks two peers about the subject and keeps what it was told."""

    answers: list[tuple[str | None, list[str]]] = field(default_factory=list)
    actions = frozenset({ActionKind.MIGRATE})

    def make_decision(self, scope, criterion):
        return LoadState.NORMAL if scope.subject is None else LoadState.OVERLOADED

    def select_target(self, scope, criterion, state):
        if scope.answer is None:
            return Ask("p", also=("q",), seconds=5.0)
        self.answers.append((scope.subject, [each.peer for each in scope.answer]))
        return None

    def select_load_to_move(self, scope, criterion, state, target):
        return ()

    def rebalance(self, scope, criterion, state, target, load):
        return ()


def report(send: Send) -> Received:
    return Received(send.to, ms.Report(send.message.number, (LoadInformation(send.to, "items", 1.0),)))


@pytest.fixture
def asked():
    ask = AskTwo()
    strategy = composition(concerns=[Concern("items", ask, ask)], exchanger=Silent())
    host = Host("a", Items({}), strategy, Random(1), ActionKind)
    return host, ask, host.handle(Trigger("x", "items"), 0.0)


def test_the_iteration_goes_on_when_all_have_answered_with_its_subject(asked):
    host, ask, pulls = asked
    assert [each.to for each in pulls] == ["p", "q"]
    host.handle(report(pulls[1]), 1.0)
    assert ask.answers == []
    host.handle(report(pulls[0]), 2.0)
    assert ask.answers == [("x", ["q", "p"])]


def test_it_goes_on_with_the_answers_that_there_are_when_the_time_is_up(asked):
    host, ask, pulls = asked
    host.handle(report(pulls[1]), 1.0)
    assert host.next_due() <= 5.0
    host.handle(Tick(), 5.0)
    assert ask.answers == [("x", ["q"])]
    host.handle(report(pulls[0]), 6.0)
    assert len(ask.answers) == 1


def test_without_any_answer_nothing_goes_on(asked):
    host, ask, _ = asked
    host.handle(Tick(), 6.0)
    assert ask.answers == []


def test_a_random_walk_ends_however_long_it_was_meant_to_be():
    host = made("a", {})
    host.neighbours = ["b", "c"]
    (passed,) = host.handle(Received("b", ms.Pull(1, "b", 10**9)), 0.0)
    assert passed.message.ttl < 64
