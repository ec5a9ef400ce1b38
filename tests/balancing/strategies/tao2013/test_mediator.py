"""The overlay manager of a head: it asks for its edges, knows their phases, counts clients, and ends everything."""

from __future__ import annotations

from edge_tables import B0, filled, overloaded

from tocsin.balancing.host import messages as ms
from tocsin.balancing.host.actions import Migrate
from tocsin.balancing.strategies.tao2013.broker_report import report
from tocsin.balancing.strategies.tao2013.mediator import DOMAINS, INQUIRIES, Forward, Mediator

EDGES, OTHERS = ("b0", "b1", "b2", "b3"), ("h2", "h3")
MOVE = Migrate("b1", "b0", 0.1, "", ("1",))


def mediator(**more) -> Mediator:
    found = Mediator("bh", lambda: EDGES, lambda: OTHERS, **more)
    for edge, table in (("b0", filled(B0, 3.0)), ("b1", overloaded()), ("b2", filled(B0, 2.0)), ("b3", overloaded())):
        assert found.handle(edge, "bh", ms.Push(report(edge, table)), 0.0) == []
    return found


def request(session: str = "b1/0/1", source: str = "b1", target: str = "b0") -> ms.Request:
    return ms.Request(session, "queue depth", (Migrate(source, target, 0.1, "", ("1",)),))


def test_it_asks_the_edges_in_status_low_and_answers_with_all_of_their_reports():
    head = mediator()
    asked = head.handle("b1", "bh", ms.Pull(7, "b1"), 1.0)
    assert [each.to for each in asked] == ["b0", "b2"]
    first, second = (each.message for each in asked)
    assert head.handle("b0", "bh", ms.Report(first.number, report("b0", filled(B0, 3.0))), 1.0) == []
    (answer,) = head.handle("b2", "bh", ms.Report(second.number, report("b2", filled(B0, 2.0))), 1.0)
    assert (answer.sender, answer.to, answer.message.number) == ("bh", "b1", 7)
    assert {each.peer for each in answer.message.information} == {"b0", "b2"}


def test_other_heads_are_asked_on_request_only():
    head = mediator()
    assert [each.to for each in head.handle("b1", "bh", ms.Pull(8, "b1", 1), 1.0)] == ["b0", "b2", "h2", "h3"]
    # Another head asks about the edges here, and does not start a flood.
    assert [each.to for each in head.handle("h2", "bh", ms.Pull(9, "h2", 1), 1.0)] == ["b0", "b2"]


def test_an_answer_says_that_other_clusters_were_asked():
    head = Mediator("bh", lambda: ("b1",))
    (answer,) = head.handle("b1", "bh", ms.Pull(8, "b1", 1), 1.0)
    assert [(each.criterion, each.load) for each in answer.message.information] == [(DOMAINS, 0.0)]
    (answer,) = head.handle("b1", "bh", ms.Pull(9, "b1", 0), 1.0)
    assert answer.message == ms.Report(9, ())


def test_an_inquiry_ends_without_those_that_do_not_answer():
    head = mediator(locating=1.0)
    asked = head.handle("b1", "bh", ms.Pull(7, "b1"), 1.0)
    head.handle("b0", "bh", ms.Report(asked[0].message.number, report("b0", filled(B0, 3.0))), 1.5)
    assert head.tick(1.9) == []
    (answer,) = head.tick(2.0)
    assert {each.peer for each in answer.message.information} == {"b0"}
    assert head.handle("b2", "bh", ms.Report(asked[1].message.number, ()), 2.1) == [] and head.tick(9.0) == []


def test_a_flood_of_inquiries_is_bounded():
    head = mediator()
    for number in range(10 * INQUIRIES):
        head.handle("b1", "bh", ms.Pull(number, "b1"), 1.0)
    assert len(head._inquiries) <= 2 * INQUIRIES
    head.tick(5.0)
    assert not head._inquiries


def test_a_broker_takes_part_in_one_balancing_at_a_time():
    head = mediator()
    assert head.handle("b1", "b0", request(), 1.0) == [Forward("b1", "b0", request())]
    second = request("b3/0/1", "b3")
    (answer,) = head.handle("b3", "b0", second, 1.0)
    assert answer == Forward("b0", "b3", ms.Decline("b3/0/1", "b0 is in a balancing phase"))
    assert head.candidates() == ["b2"]  # b0 is in one
    head.handle("b1", "b0", ms.Done("b1/0/1", (0,)), 2.0)
    assert head.handle("b3", "b0", second, 3.0) == [Forward("b3", "b0", second)]


def test_a_declined_request_ends_the_phase():
    head = mediator()
    head.handle("b1", "b0", request(), 1.0)
    head.handle("b0", "b1", ms.Decline("b1/0/1", "full"), 1.0)
    assert head.phases == {}


def test_it_counts_the_clients_that_have_migrated():
    head = mediator()
    head.handle("b1", "b0", request(), 1.0)
    head.ordered("b1/0/1", ["1/0", "1/1"])
    assert [head.confirmed("b1/0/1", client) for client in ("1/0", "1/0", "1/9", "1/1")] == [False, False, False, True]
    assert not head.confirmed("unknown", "1/0")


def test_a_phase_ends_even_if_clients_never_confirm():
    head = mediator(timeout=30.0)
    head.handle("b1", "b0", request(), 1.0)
    head.ordered("b1/0/1", ["1/0"])
    assert head.tick(30.9) == []
    ended = head.tick(31.0)
    assert {(each.sender, each.to) for each in ended} == {("b0", "b1"), ("b1", "b0")} and head.phases == {}
    assert all(isinstance(each.message, ms.Done) for each in ended)


def test_reports_about_others_and_of_strangers_are_ignored():
    head = Mediator("bh", lambda: EDGES)
    head.handle("b0", "bh", ms.Push(report("b2", filled(B0, 1.0))), 0.0)
    head.handle("stranger", "bh", ms.Push(report("stranger", filled(B0, 1.0))), 0.0)
    assert head.candidates() == []
