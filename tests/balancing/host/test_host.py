from __future__ import annotations

from random import Random

import pytest
from host_network import Halve, Items, Network, composition, host, quiet

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import ActionKind, Migrate, Split, Swap
from tocsin.balancing.host.detector import Absolute, Relative
from tocsin.balancing.host.exchanger import PullFromRandom, PushToNeighbours, Silent
from tocsin.balancing.host.guards import AtOnce, CoolDown, NeverAbove, WithinCapacity
from tocsin.balancing.host.host import Composition, Received, Send, Tick, Trigger
from tocsin.balancing.host.load_balancer import Ask
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.managers import Concern
from tocsin.errors import UserError

GIVE = Migrate("a", "b", 1.0, "", ("u",))


def about(peer, load, criterion="items"):
    return LoadInformation(peer, criterion, load)


# Whole strategies.


def uneven(**fields):
    guards = [CoolDown(0.0), AtOnce(2), NeverAbove()]
    items = {f"p{i}": {f"u{i}.{j}": 1.0 + j % 3 for j in range(3 + i * i)} for i in range(6)}
    return Network(items, strategy=lambda: composition(guards=guards, **fields))


def test_hosts_balance_an_uneven_load_among_themselves():
    net = uneven()
    before = net.units
    for _ in range(600):
        net.tick()
        net.run()
    loads = [model.measure("items") for model in net.models.values()]
    assert max(loads) <= 1.2 * sum(loads) / len(loads)
    assert net.units == before and net.open == 0


def test_the_two_managers_have_their_own_clocks():
    made = host(strategy=composition(exchange_every=5.0, balance_every=50.0))
    made.neighbours = ["b"]
    exchanges, balances = [], []
    made.balancing.perform_one_load_balancing_iteration = lambda scope, only=None: balances.append(scope.now) or []
    for second in range(200):
        exchanges += [each for each in made.handle(Tick(), float(second)) if isinstance(each, Send)]
    assert 33 <= len(exchanges) <= 50 and 3 <= len(balances) <= 5


def test_a_trigger_starts_an_iteration_at_once_with_its_subject():
    subjects = []

    class Subject(Halve):
        def select_target(self, scope, criterion, state):
            subjects.append(scope.subject)

    made = host(model=Items({"u": 5.0}), strategy=quiet(concerns=[Concern("items", Absolute(1.0), Subject())]))
    made.handle(Trigger("an item"), 0.0)
    assert subjects == ["an item"]


def test_a_tick_is_due_at_the_next_clock_or_deadline():
    net = Network({"a": {"u": 1.0}, "b": {}})
    net.suggest("a", GIVE)
    made = net.hosts["a"]
    assert made.next_due() <= 30.0
    made.information.clock.due_at = made.balancing.clock.due_at = 99.0
    assert made.next_due() == 30.0


# Push and pull.


def test_what_is_pushed_is_registered_until_it_is_outdated():
    made = host(strategy=quiet(lifetime=30.0))
    made.handle(Received("b", ms.Push((about("b", 3.0),))), 0.0)
    assert made.registry.get_load_report("items") == [about("b", 3.0)]
    made.handle(Received("b", ms.Accept("b/0/1")), 31.0)  # any event
    assert made.registry.get_load_report("items") == []


def test_a_pull_is_answered_to_its_origin():
    made = host(model=Items({"u": 2.0}))
    [sent] = made.handle(Received("b", ms.Pull(7, "c")), 0.0)
    assert sent == Send("c", ms.Report(7, (about("a", 2.0),)))


def test_a_pull_with_a_ttl_goes_on_to_a_random_neighbour_but_never_back():
    made = host()
    made.neighbours = ["b", "c"]
    for _ in range(20):
        [sent] = made.handle(Received("b", ms.Pull(7, "c", ttl=2)), 0.0)
        assert sent == Send("b", ms.Pull(7, "c", ttl=1))
    made.neighbours = ["c"]
    [sent] = made.handle(Received("b", ms.Pull(7, "c", ttl=2)), 0.0)
    assert isinstance(sent.message, ms.Report)


def test_what_a_pull_brings_feeds_the_balancer_of_its_criterion():
    class Asks(Halve):
        def select_target(self, scope, criterion, state):
            return Ask("b") if scope.answer is None else scope.answer[0].peer

    concerns = [Concern("items", Absolute(1.0), Asks())]
    net = Network({"a": {"u": 1.0, "w": 5.0}, "b": {}}, strategy=lambda: quiet(concerns=concerns))
    net.put("a", Trigger())
    net.run()
    assert net.models["b"].here == {"u": 1.0}


def test_a_report_that_answers_no_pull_starts_nothing_and_is_not_registered():
    made = host(model=Items({"u": 9.0}))
    assert made.handle(Received("b", ms.Report(7, (about("b", 0.0),))), 0.0) == []
    assert len(made.registry) == 0


# Requests that must not work.


def refused(made, *actions, criterion="items", session="b/0/1", sender="b"):
    [sent] = made.handle(Received(sender, ms.Request(session, criterion, tuple(actions))), 0.0)
    assert len(made.sessions) == 0
    assert isinstance(sent.message, ms.Decline) and sent.to == sender
    return sent.message.reason


@pytest.mark.parametrize(
    ("actions", "reason"),
    [
        ([], "no single executor"),
        ([Migrate("a", "b", 1.0, "", ("invented",))], "invented is not here"),
        ([Migrate("b", "a", 1.0, "", ("u",))], "u is here already"),
        ([Swap("b", "a", 0.0, "", ("x",), ("invented",))], "invented is not here"),
        ([Migrate("a", "c", 1.0, "", ("u",))], "two peers of the session"),
        ([Migrate("c", "b", 1.0, "", ("u",))], "two peers of the session"),
        ([Migrate("a", "a", 1.0, "", ("u",))], "two peers of the session"),
        ([Migrate("a", "b", float("nan"), "", ("u",))], "its load is nan"),
        ([Migrate("a", "b", -1.0, "", ("u",))], "its load is -1.0"),
        ([Migrate("a", "b", 1.0, "", ("u", "u"))], "a unit twice"),
        ([GIVE, GIVE], "the same unit"),
        ([GIVE, Migrate("b", "a", 1.0, "", ("x",))], "no single executor"),
        ([Split("a", "b", 1.0)], "cannot split"),
    ],
)
def test_a_request_that_cannot_be_right_is_declined_with_the_reason(actions, reason):
    made = host(model=Items({"u": 1.0, "w": 1.0}), strategy=quiet(), executes={ActionKind.MIGRATE})
    assert reason in refused(made, *actions)


def test_a_request_for_a_criterion_that_is_not_balanced_is_declined():
    assert "does not balance cpu" in refused(host(model=Items({"u": 1.0})), GIVE, criterion="cpu")


@pytest.mark.parametrize("session", ["a/0/1", "c/0/1", "", "b"])
def test_a_request_with_a_number_of_another_peer_is_ignored(session):
    made = host(model=Items({"u": 1.0}), strategy=quiet())
    assert made.handle(Received("b", ms.Request(session, "items", (GIVE,))), 0.0) == []


def test_actions_of_one_request_are_weighed_together():
    made = host(model=Items({}, most=3.0), strategy=quiet(guards=[WithinCapacity()]))
    actions = [Migrate("b", "a", 2.0, "", (unit,)) for unit in ("x", "y")]
    assert "would be 4 of 3" in refused(made, *actions)


def test_what_open_sessions_bring_counts_for_the_capacity():
    made = host(model=Items({}, most=3.0), strategy=quiet(guards=[WithinCapacity()]))
    first = ms.Request("b/0/1", "items", (Migrate("b", "a", 2.0, "", ("x",)),))
    second = ms.Request("b/0/2", "items", (Migrate("b", "a", 2.0, "", ("y",)),))
    assert made.handle(Received("b", first), 0.0)[0].message == ms.Accept("b/0/1")
    assert isinstance(made.handle(Received("b", second), 0.0)[0].message, ms.Decline)


def test_a_partner_that_claims_an_execution_that_is_not_its_own_is_not_believed():
    net = Network({"a": {"u": 1.0}, "b": {}}, strategy=lambda: quiet(guards=[CoolDown(60.0)]))
    net.suggest("a", GIVE)
    number = next(iter(net.hosts["a"].sessions)).number
    net.wire.clear()
    net.put("a", Received("b", ms.Done(number, (0,))))
    assert net.open == 0 and net.models["a"].holds("u")
    net.suggest("a", GIVE)  # it has not moved, so it does not cool down
    net.run()
    assert net.models["b"].holds("u")


# Learning.


def test_a_balancer_learns_what_was_refused_and_why():
    balancers = {}

    def strategy():
        balancer = Halve()
        balancers[len(balancers)] = balancer
        return quiet(concerns=[Concern("items", Relative(), balancer)], guards=[WithinCapacity()])

    net = Network({"a": {"u": 5.0}, "b": {}}, strategy=strategy, most=1.0)
    net.suggest("a", Migrate("a", "b", 5.0, "", ("u",)))
    net.run()
    [(action, reason)] = balancers[0].refusals
    assert action.units == ("u",) and reason == "the load would be 5 of 1"
    assert [(each.by, each.reason) for each in net.hosts["a"].refusals] == [("b", reason)]


def test_a_balancer_learns_of_failures_losses_and_time_outs():
    for cause, words in (("fail", "it failed"), ("lose", "is gone"), ("late", "time-out while requested")):
        balancer = Halve()
        net = Network(
            {"a": {"u": 5.0}, "b": {}}, strategy=lambda b=balancer: quiet(concerns=[Concern("items", Relative(), b)])
        )
        net.suggest("a", Migrate("a", "b", 5.0, "", ("u",)))
        if cause == "fail":
            net.deliver()
            net.deliver()
            net.finish(ok=False)
        elif cause == "lose":
            net.lose("b")
        else:
            net.wire.clear()
            net.tick(31.0)
        net.wire.clear()
        assert len(balancer.refusals) == 1 and words in balancer.refusals[0][1], cause


# Exchanging components at run time.


class Asking(Halve):
    """Asks b, then moves the unit of its name there."""

    def __init__(self, unit):
        super().__init__()
        self.unit = unit

    def select_target(self, scope, criterion, state):
        return Ask("b") if scope.answer is None else scope.answer[0].peer

    def select_load_to_move(self, scope, criterion, state, target):
        return [self.unit]


def asking(unit, criterion="items"):
    return quiet(concerns=[Concern(criterion, Absolute(0.5), Asking(unit))])


def test_an_answer_to_the_previous_strategy_starts_nothing_in_the_next():
    net = Network({"a": {"u": 1.0, "w": 1.0}, "b": {}}, strategy=lambda: asking("u"))
    net.put("a", Trigger())
    net.deliver()  # the pull; its report is in transit
    net.hosts["a"].use(asking("w"), net.now)
    net.run()
    assert net.models["b"].here == {}
    net.put("a", Trigger())
    net.run()
    assert net.models["b"].here == {"w": 1.0}


def test_a_stale_report_does_not_answer_a_pull_of_the_next_strategy():
    net = Network({"a": {"u": 1.0, "w": 1.0}, "b": {}}, strategy=lambda: asking("u"))
    net.put("a", Trigger())
    net.deliver()
    [stale] = net.wire
    net.hosts["a"].use(asking("w"), net.now)
    net.wire.clear()
    net.put("a", Trigger())
    net.wire = [stale]
    net.run()
    assert net.models["b"].here == {}


def test_a_restarted_host_does_not_take_an_answer_to_its_earlier_life():
    numbers = set()
    for seed in range(5):
        made = host(model=Items({"u": 1.0}), strategy=asking("u"), rng=Random(seed))
        numbers |= {each.message.number for each in made.handle(Trigger(), 0.0)}
    assert len(numbers) == 5


def test_information_of_the_previous_strategy_in_transit_does_no_harm():
    made = host(model=Items({"u": 1.0}, ("items", "cpu")), strategy=quiet())
    made.use(quiet(concerns=[Concern("cpu", Relative(), Halve())]), 0.0)
    made.handle(Received("b", ms.Push((about("b", 1e9), about("b", 2.0, "cpu")))), 1.0)
    assert made.registry.get_load_report("items") == []
    assert [each.load for each in made.registry.get_load_report("cpu")] == [2.0]
    [sent] = made.handle(Received("b", ms.Request("b/0/1", "items", (GIVE,))), 1.0)
    assert isinstance(sent.message, ms.Decline)


@pytest.mark.parametrize("delivered", range(4))
def test_an_open_session_ends_after_the_components_were_exchanged(delivered):
    net = Network({"a": {"u": 1.0}, "b": {}})
    net.suggest("a", GIVE)
    for _ in range(min(delivered, 2)):
        net.deliver()
    if delivered == 3:
        net.finish()
    for each in net.hosts.values():
        each.use(quiet(guards=[CoolDown(1e9), AtOnce(0)]), net.now)
    net.run()
    net.tick(31.0)
    net.run()
    assert net.open == 0
    assert net.models["b"].holds("u") is (delivered > 0)


def test_components_can_be_exchanged_while_a_whole_network_balances():
    net = uneven()
    kinds = [PushToNeighbours(), Silent(), PullFromRandom(2)]
    rng = Random(3)
    before = net.units
    for second in range(500):
        net.tick()
        if second % 20 == 5:
            peer = rng.choice(sorted(net.hosts))
            detector = rng.choice([Relative(1.05, 0.9), Relative(1.3, 0.5), Absolute(20.0)])
            guards = [AtOnce(rng.randint(1, 3)), NeverAbove()]
            made = composition(
                concerns=[Concern("items", detector, Halve())], exchanger=rng.choice(kinds), guards=guards
            )
            net.hosts[peer].use(made, net.now)
        for _ in range(rng.randint(0, 6)):
            if net.wire:
                net.deliver(rng.randrange(len(net.wire)))
        while net.executing:
            net.finish()
        net.check()
    net.run()
    for _ in range(3):
        net.now += 31.0
        for each in net.hosts.values():
            each.use(quiet(balance_every=1e9), net.now)
        net.tick(0.0)
        net.run()
    assert net.units == before and net.open == 0


# Combinations that cannot work.


def test_a_combination_that_cannot_work_is_refused_with_what_would_fit():
    with pytest.raises(UserError, match="no criterion") as error:
        host(strategy=Composition([], Silent()))
    assert "items" in error.value.hint
    with pytest.raises(UserError, match="does not measure 'cpu'") as error:
        host(strategy=quiet(concerns=[Concern("cpu", Relative(), Halve())]))
    assert "items" in error.value.hint
    with pytest.raises(UserError, match="can migrate") as error:
        host(executes={ActionKind.SPLIT})
    assert "split" in error.value.hint


def test_a_combination_that_is_refused_at_run_time_changes_nothing():
    made = host()
    strategy = made.strategy
    with pytest.raises(UserError):
        made.use(quiet(concerns=[Concern("cpu", Relative(), Halve())]), 0.0)
    assert made.strategy is strategy
