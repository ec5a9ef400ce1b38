"""A broker's part in a session, with the test as the other broker."""

from __future__ import annotations

import pytest
from broker_harness import BrokerHarness

from tocsin.balancing.brokers.broker_load import LOAD, SUBSCRIBERS
from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.host.load_information import LoadInformation
from tocsin.balancing.host.load_model import Member
from tocsin.broker.core import events as ev
from tocsin.broker.core import instructions as do
from tocsin.broker.core.balancing.peer_balancer import check, reconfigured
from tocsin.config import BrokerBalancing, BrokerConfig
from tocsin.errors import NotFound, UserError
from tocsin.wire import messages as wire
from tocsin.wire.reports import PeerAddress

OTHER = PeerAddress("http://c", "http://c-inside")
SETTINGS = {"balance_every": 5.0, "exchange_every": 5.0, "choices": 1}


@pytest.fixture
def harness() -> BrokerHarness:
    return made()


def made(strategy: str = "rao-one-to-one", **settings: float) -> BrokerHarness:
    found = BrokerHarness(balancing=BrokerBalancing("peers", strategy, SETTINGS | settings))
    found.handle(ev.PeersKnown({"c": OTHER}))
    return found


def subscribers(harness: BrokerHarness, *names: str) -> None:
    for number, name in enumerate(names):
        harness.handle(ev.Opened(name))
        harness.handle(ev.Received(name, [wire.Hello(1, subscriber=f"subscriber-of-{name}")]))
        harness.subscribe(name, f"kind{number}", id=number + 1)
        harness.took(name)


def say(harness: BrokerHarness, message: ms.Message, sender: str = "c") -> list[ms.Message]:
    out = harness.handle(ev.PeerMessage(sender, message))
    return [each.message for each in out if isinstance(each, do.SendToPeer)]


def advised(harness: BrokerHarness, name: str) -> ms.Request:
    """The other broker would like this subscriber; this one asks for a session."""
    unit = harness.state.balancing.load.unit(f"subscriber-of-{name}")
    action = Migrate("b", "c", 0.0, "", (unit,))
    heavy = LoadInformation("c", SUBSCRIBERS, 0.0)
    say(harness, ms.Push((heavy,)))
    (request,) = say(harness, ms.Advise(SUBSCRIBERS, (action,)))
    assert isinstance(request, ms.Request)
    return request


def tick(harness: BrokerHarness, seconds: float = 1.0) -> list[ms.Message]:
    harness.now += seconds
    return [each.message for each in harness.handle(ev.Tick()) if isinstance(each, do.SendToPeer)]


def test_an_accepted_group_gets_orders_with_the_tickets_of_the_target(harness):
    subscribers(harness, "p", "q", "r")
    request = advised(harness, "p")
    assert [each.name for each in request.members[0]] == ["subscriber-of-p"]
    say(harness, ms.Accept(request.session, ({"subscriber-of-p": "the ticket"},)))
    (order,) = [each for each in harness.took("p") if isinstance(each, wire.Migrate)]
    assert (order.broker, order.url, order.ticket) == ("c", "http://c", "the ticket")
    (departing,) = harness.did(do.Departing)
    assert departing.session == request.session
    assert harness.state.load_reports.changes(1, harness.now, full=True).sent == {"subscriber-of-p": "c"}
    harness.handle(ev.Closed("p"))
    (done,) = [each for each in tick(harness) if isinstance(each, ms.Done)]
    assert (done.session, done.done) == (request.session, (0,))
    assert harness.state.balancing_view().migrated == 1


def test_a_subscriber_that_refuses_stays(harness):
    subscribers(harness, "p", "q", "r")
    request = advised(harness, "p")
    say(harness, ms.Accept(request.session, ({"subscriber-of-p": "the ticket"},)))
    harness.handle(ev.Received("p", [wire.MigrationFailed("the ticket", "no")]))
    (done,) = [each for each in tick(harness) if isinstance(each, ms.Done)]
    assert done.done == () and harness.state.balancing_view().migrated == 0
    assert harness.state.load_reports.changes(1, harness.now, full=True).outcomes == []


def test_permits_for_others_than_the_agreed_members_move_nothing(harness):
    subscribers(harness, "p", "q", "r")
    request = advised(harness, "p")
    say(harness, ms.Accept(request.session, ({"subscriber-of-q": "forged"},)))
    assert not harness.did(do.Departing) and not harness.took("q") and not harness.took("p")


@pytest.mark.parametrize(
    "message",
    [
        ms.Accept("b/unknown/1", ({"subscriber-of-p": "forged"},)),
        ms.Done("b/unknown/1", (0,)),
        ms.Decline("b/unknown/1", "no"),
        ms.Advise(LOAD, (Migrate("b", "c", 1.0, "", ("no such unit",)),)),
        ms.Advise(LOAD, (Migrate("d", "c", 1.0, "", ("u",)),)),
        ms.Advise("another criterion", (Migrate("b", "c", 1.0, "", ("u",)),)),
        ms.Request("c/0/9", LOAD, (Migrate("b", "c", 1.0, "", ("u",)),)),
        ms.Request("c/0/9", LOAD, (Migrate("c", "b", float("inf"), "", ("u",)),), (), ((),)),
        ms.Request("c/0/9", LOAD, ()),
        ms.Report(7, (LoadInformation("b", LOAD, 1e12),)),
    ],
)
def test_a_broker_that_lies_moves_nothing(harness, message):
    subscribers(harness, "p", "q")
    say(harness, message)
    say(harness, message, sender="stranger")
    assert not harness.did(do.Departing) and not harness.took("p")
    assert not [each for each in harness.did(do.SendToPeer) if isinstance(each.message, ms.Accept)]


def test_it_admits_members_with_tickets_of_its_own_that_count_once():
    tickets = []

    harness = made()
    harness.state.balancing.load.permit = lambda name, seconds: tickets.append(name) or f"ticket of {name}"
    members = (Member("subscriber-from-c", ((7, 5.0),)),)
    heavy = LoadInformation("c", LOAD, 1_000.0)
    action = Migrate("c", "b", 5.0, "", ("u",))
    (accept,) = say(harness, ms.Request("c/0/1", LOAD, (action,), (heavy,), (members,)))
    assert accept == ms.Accept("c/0/1", ({"subscriber-from-c": "ticket of subscriber-from-c"},))
    assert say(harness, ms.Request("c/0/1", LOAD, (action,), (heavy,), (members,))) == []  # repeated
    assert tickets == ["subscriber-from-c"]


def test_it_declines_what_would_make_it_heavier_than_the_source(harness):
    members = (Member("subscriber-from-c", ((7, 5.0),)),)
    light = LoadInformation("c", LOAD, 9.0)
    action = Migrate("c", "b", 5.0, "", ("u",))
    (decline,) = say(harness, ms.Request("c/0/1", LOAD, (action,), (light,), (members,)))
    assert isinstance(decline, ms.Decline) and "the target would have 10" in decline.reason


def test_a_drained_broker_takes_nothing_and_gives_everything(harness):
    subscribers(harness, "p", "q")
    harness.handle(ev.DrainSelf())
    say(harness, ms.Push((LoadInformation("c", SUBSCRIBERS, 50.0), LoadInformation("c", LOAD, 9.0))))
    members = (Member("subscriber-from-c", ((7, 5.0),)),)
    request = ms.Request("c/0/1", LOAD, (Migrate("c", "b", 5.0, "", ("u",)),), (), (members,))
    (decline,) = say(harness, request)
    assert "drained" in decline.reason
    sent = [each for _ in range(7) for each in tick(harness)]
    assert [each.name for it in sent if isinstance(it, ms.Request) for m in it.members for each in m] != []
    harness.handle(ev.DrainSelf(undo=True))
    assert not harness.state.balancing_view().draining


def test_newcomers_are_compared_at_two_brokers_and_redirected_to_the_less_loaded():
    harness = made("byers", choices=2)
    subscribers(harness, "p", "q", "r")
    pulls = [each for each in tick(harness) if isinstance(each, ms.Pull)]
    assert pulls
    found = say(harness, ms.Report(pulls[0].number, (LoadInformation("c", SUBSCRIBERS, 0.0),)))
    (request,) = [each for each in found if isinstance(each, ms.Request)]
    assert len(request.members[0]) == 1


def test_one_that_comes_with_a_ticket_is_not_a_newcomer():
    harness = made("byers", choices=2)
    harness.state.sessions.refuses_ticket = lambda ticket, subscriber: None
    harness.handle(ev.Opened("p"))
    harness.handle(ev.Received("p", [wire.Hello(1, subscriber="subscriber-of-p", ticket="good")]))
    assert harness.state.context.newcomers == []


def test_users_stay_where_no_coordinator_has_their_store(harness):
    subscribers(harness, "p")
    peer = harness.state.sessions.by_subscriber["subscriber-of-p"]
    harness.state.context.sessions[peer].user = "ann"
    assert list(harness.state.balancing.load.population.movable()) == []


def test_a_user_over_rest_migrates_where_the_coordinator_has_the_store_and_answers():
    harness = BrokerHarness(balancing=BrokerBalancing("peers", settings=SETTINGS), coordinator="http://coordinator")
    harness.handle(ev.PeersKnown({"c": OTHER}))
    harness.handle(ev.OpenedForUser("call", "ann"))
    harness.subscribed("call", 9, position=9, kind="storm")
    harness.took("call")
    population = harness.state.balancing.load.population
    assert list(population.movable()) == ["ann"]
    harness.handle(ev.UsersAway(True))
    assert list(population.movable()) == []
    harness.handle(ev.UsersAway(False))
    unit = harness.state.balancing.load.unit("ann")
    say(harness, ms.Push((LoadInformation("c", SUBSCRIBERS, 0.0),)))
    (request,) = say(harness, ms.Advise(SUBSCRIBERS, (Migrate("b", "c", 0.0, "", (unit,)),)))
    assert request.members == ((Member("ann", ((9, 0.0),)),),)
    say(harness, ms.Accept(request.session, ({"ann": "the ticket"},)))
    assert [each.broker for each in harness.took("call") if isinstance(each, wire.Migrate)] == ["c"]


def test_a_broker_that_cannot_be_reached_ends_its_sessions(harness):
    subscribers(harness, "p", "q", "r")
    advised(harness, "p")
    assert harness.state.balancing_view().sessions == 1
    harness.handle(ev.PeerUnreachable("c"))
    assert harness.state.balancing_view().sessions == 0
    assert [each.reachable for each in harness.state.balancing_view().peers] == [False]


def test_what_it_learns_is_saved_once_and_offered_to_clients_without_a_coordinator(harness):
    assert [each.peers for each in harness.did(do.SavePeers)] == [{"c": OTHER}]
    harness.handle(ev.PeersKnown({"c": OTHER}))
    assert not harness.did(do.SavePeers)
    assert harness.state.context.alternatives == {"c": "http://c"}


def test_the_same_events_give_the_same_instructions():
    def run() -> list[do.Instruction]:
        harness = made()
        subscribers(harness, "p", "q")
        return [it for _ in range(20) for it in [*tick(harness)]]

    assert run() == run()


def test_unknown_strategies_and_settings_are_refused_at_start():
    with pytest.raises(NotFound, match="peal"):
        check(BrokerConfig(balancing=BrokerBalancing("peers", "peal")))
    with pytest.raises(UserError, match="no setting"):
        check(BrokerConfig(balancing=BrokerBalancing("peers", "bharambe", {"slack": 1.0})))
    with pytest.raises(UserError, match="mode is coordinator"):
        check(BrokerConfig(balancing=BrokerBalancing(peers=("http://x",))))
    check(BrokerConfig())


def test_a_broker_of_a_coordinator_says_so():
    view = BrokerHarness().state.balancing_view()
    assert (view.mode, view.strategy, view.peers) == ("coordinator", "", [])


# Other components.


@pytest.mark.parametrize(
    ("balancing", "words"),
    [
        (BrokerBalancing("peers", components={"detector": "psychic"}), "there are: absolute"),
        (BrokerBalancing("peers", components={"detector": "relative"}), "as exchanger would fit: pull-from-random"),
        (BrokerBalancing("peers", "byers", components={"detector": "relative"}), "newcomers_detector"),
        (BrokerBalancing("peers", components={"guards": "at-once"}), "write a list"),
        (BrokerBalancing("coordinator", components={"detector": "relative"}), 'balancing.mode = "peers"'),
    ],
)
def test_components_that_do_not_fit_are_refused_at_start_and_at_run_time(balancing, words):
    for refuse in (check, reconfigured):
        if refuse is reconfigured and balancing.mode != "peers":
            continue
        with pytest.raises(UserError) as refused:
            refuse(BrokerConfig(balancing=balancing))
        assert words in refused.value.hint


def test_the_mode_cannot_change_while_the_broker_runs():
    with pytest.raises(UserError, match="mode cannot change"):
        reconfigured(BrokerConfig())


def test_another_strategy_is_used_at_once_with_its_settings(harness):
    swap = {"detector": "relative", "exchanger": "push-to-neighbours"}
    settings = SETTINGS | {"cool_down": 7.0, "choices": 2, "exchange_every": 1.0}
    harness.handle(ev.UseStrategy(BrokerBalancing("peers", "rao-one-to-one", settings, swap)))
    assert any(isinstance(each, ms.Push) for _ in range(3) for each in tick(harness))
    state = harness.state
    assert state.balancing.load.cool_down == 7.0 and state.context.newcomers == []
    assert state.balancing_view().settings["cool_down"] == 7.0
    found = state.balancing_components()
    assert (found.strategy, found.running["detector"].use) == ("rao-one-to-one", "relative")
    harness.handle(ev.UseStrategy(BrokerBalancing("peers", "rao-one-to-one", SETTINGS)))
    assert state.context.newcomers is None


def test_a_strategy_that_is_refused_at_run_time_changes_nothing(harness):
    before = harness.state.balancing.host.strategy
    with pytest.raises(UserError):
        harness.handle(ev.UseStrategy(BrokerBalancing("peers", "rao-one-to-one", SETTINGS, {"detector": "relative"})))
    assert harness.state.balancing.host.strategy is before
    assert harness.state.balancing_view().strategy == "rao-one-to-one"


def test_a_session_of_the_previous_strategy_goes_on(harness):
    subscribers(harness, "p", "q", "r")
    request = advised(harness, "p")
    harness.handle(ev.UseStrategy(BrokerBalancing("peers", "bharambe", SETTINGS)))
    say(harness, ms.Accept(request.session, ({"subscriber-of-p": "the ticket"},)))
    assert [each for each in harness.took("p") if isinstance(each, wire.Migrate)] != []


def test_a_broker_without_peers_lists_what_exists_and_runs_none_of_it():
    found = BrokerHarness().state.balancing_components()
    assert found.running == {} and "relative" in [each.name for each in found.components]
