"""Links between brokers: refused ones, broken ones, and what happens again after a break."""

from __future__ import annotations

from random import Random

import pytest
from overlays import advertise, bodies, overlay, publish, subscribe, table

from tocsin.errors import Conflict
from tocsin.overlay.content import events as ev
from tocsin.overlay.content import messages as ms
from tocsin.overlay.content.context import Context
from tocsin.overlay.content.instructions import Discarded, LinkRefused, Send
from tocsin.overlay.content.link.link import Link
from tocsin.overlay.content.link.outbox import Outbox
from tocsin.overlay.content.settings import Settings
from tocsin.simulation.content.loopback import Loopback


def refused(loopback: Loopback) -> list[tuple[str, str, str]]:
    """(broker, neighbour, reason) of all links that were refused."""
    return [
        (name, each.neighbour, each.error.fields["reason"])
        for name, each in loopback.done
        if isinstance(each, LinkRefused)
    ]


def links(loopback: Loopback) -> set[frozenset[str]]:
    """Over which messages flow."""
    return {
        frozenset((name, link.name))
        for name, router in loopback.routers.items()
        for link in router.links.joined
        if link.established
    }


# -- an acyclic overlay


def test_a_link_that_closes_a_cycle_is_refused_and_affects_no_other():
    loopback = overlay("A B", "B C", "C D")
    before = links(loopback)
    loopback.event("A", ev.Connect("D"))
    loopback.run(15)
    assert refused(loopback) == [("A", "D", "cycle")]
    assert links(loopback) == before == {frozenset("AB"), frozenset("BC"), frozenset("CD")}


def test_a_refused_link_says_what_to_do():
    loopback = overlay("A B", "B C")
    (instruction,) = loopback.event("A", ev.Connect("C"))
    assert isinstance(instruction.error, Conflict)
    assert "would close a cycle" in instruction.error.message
    assert "end a link on the way" in instruction.error.hint


def test_a_refused_link_is_made_when_the_cycle_is_open():
    loopback = overlay("A B", "B C")
    loopback.event("A", ev.Connect("C"))
    loopback.event("B", ev.Disconnect("A"))
    loopback.run(12)
    assert links(loopback) == {frozenset("BC"), frozenset("AC")}


def test_two_links_that_close_a_cycle_together_leave_one():
    """Neither side can know of the other link when it accepts its own."""
    loopback = overlay("A B", "C D")
    held = [
        (other, ev.Received(one, each.message))
        for one, other in (("B", "C"), ("D", "A"))
        for each in loopback.routers[one].handle(ev.Connect(other), 0.0)
    ]
    answers = [
        (each.target, ev.Received(name, each.message))
        for name, event in held
        for each in loopback.routers[name].handle(event, 0.0)
        if isinstance(each, Send)
    ]
    for name, event in answers:
        loopback.event(name, event)
    loopback.run(15)
    assert links(loopback) in (
        {frozenset("AB"), frozenset("CD"), frozenset("BC")},
        {frozenset("AB"), frozenset("CD"), frozenset("AD")},
    )
    assert {reason for _, _, reason in refused(loopback)} == {"cycle"}


def test_a_broker_is_not_its_own_neighbour():
    loopback = overlay("A B")
    loopback.event("A", ev.Connect("A"))
    assert refused(loopback) == [("A", "A", "itself")]
    assert links(loopback) == {frozenset("AB")}


def test_a_second_broker_with_the_name_of_a_neighbour_is_refused_while_the_first_runs():
    loopback = overlay("A B")
    twin = Loopback().start("A", epoch=2)
    (hello,) = twin.handle(ev.Connect("B"), 0.0)
    (answer,) = loopback.routers["B"].handle(ev.Received("A", hello.message), 0.0)
    (instruction,) = twin.handle(ev.Received("B", answer.message), 0.0)
    assert instruction.error.fields["reason"] == "name"
    assert links(loopback) == {frozenset("AB")}


def test_a_second_broker_with_the_name_of_a_distant_one_is_refused():
    loopback = overlay("A B", "B C")
    twin = Loopback().start("A", epoch=2)
    (hello,) = twin.handle(ev.Connect("C"), 0.0)
    (answer,) = loopback.routers["C"].handle(ev.Received("A", hello.message), 0.0)
    assert answer.message.reason == "name"
    assert links(loopback) == {frozenset("AB"), frozenset("BC")}


def test_two_overlays_that_both_have_a_name_are_not_joined():
    one, other = overlay("A B"), overlay("C D")
    second = other.start("A", epoch=5)
    other.event("A", ev.Connect("C"))
    assert len(second.topology) == 3
    (hello,) = [each for each in other.routers["D"].handle(ev.Connect("B"), 0.0) if isinstance(each, Send)]
    (answer,) = one.routers["B"].handle(ev.Received("D", hello.message), 0.0)
    assert answer.message.reason == "name"
    assert "two brokers with the name A" in answer.message.message


def test_a_link_that_the_operator_ended_is_not_accepted_again():
    loopback = overlay("A B")
    loopback.event("B", ev.Disconnect("A"))
    loopback.run(30)
    assert links(loopback) == set()
    assert refused(loopback) == [("A", "B", "ended")]
    loopback.event("B", ev.Connect("A"))
    assert links(loopback) == {frozenset("AB")}


def test_an_unknown_link_cannot_be_ended():
    loopback = overlay("A B")
    (instruction,) = loopback.event("A", ev.Disconnect("C"))
    assert instruction.error.code == "not_found"
    assert links(loopback) == {frozenset("AB")}


def test_a_broker_that_leaves_takes_its_announcements_along():
    loopback = overlay("B A", "C B")
    advertise(loopback, "A", "publisher", "a > 1")
    subscribe(loopback, "C", "sub", "a > 5")
    loopback.event("C", ev.Leave())
    topology = loopback.routers["A"].topology
    assert table(loopback.routers["A"]) == set()
    assert [name for name, _ in topology.distances()] == ["A", "B"]
    loopback.run(61)
    assert set(topology.records) == {"B"}


# -- broken links


def test_what_was_published_while_a_link_was_broken_arrives_once_and_in_order():
    loopback = overlay("B A", "C B")
    advertise(loopback, "A", "publisher", "a > 1")
    subscribe(loopback, "C", "sub", "a > 5")
    publish(loopback, "A", "publisher", a=10)
    loopback.broken.add(frozenset("AB"))
    for a in range(11, 200):
        publish(loopback, "A", "publisher", a=a)
    loopback.run(20)
    loopback.broken.clear()
    loopback.run(5)
    assert [values["a"] for _, values in loopback.delivered] == list(range(10, 200))


def test_only_what_differs_is_exchanged_after_a_break():
    loopback = overlay("B A", "C B")
    advertise(loopback, "A", "publisher", "a > 1")
    for number in range(20):
        subscribe(loopback, "C", f"s{number}", f"a = {number + 2}")
    loopback.broken.add(frozenset("BC"))
    loopback.event("C", ev.Detach("s3"))
    subscribe(loopback, "C", "new", "a = 100")
    loopback.run(2)
    loopback.event("C", ev.Broken("B"))
    loopback.broken.clear()
    loopback.sent.clear()
    loopback.run(5)
    changes = [body for body in bodies(loopback, object, source="C") if hasattr(body, "id")]
    assert [type(each) for each in changes] == [ms.Subscribe, ms.Unsubscribe]
    assert bodies(loopback, ms.Advertise) == []
    assert ("B", "a = 100") in table(loopback.routers["A"])
    assert ("B", "a = 5") not in table(loopback.routers["A"])


def test_equal_tables_are_not_exchanged_after_a_break():
    loopback = overlay("B A", "C B")
    advertise(loopback, "A", "publisher", "a > 1")
    subscribe(loopback, "C", "sub", "a > 5")
    loopback.sent.clear()
    loopback.event("C", ev.Broken("B"))
    loopback.run(2)
    assert len(bodies(loopback, ms.Summary)) == 2
    assert not bodies(loopback, ms.Inquiry)
    assert not bodies(loopback, ms.Inventory)


@pytest.mark.parametrize("who", ["A", "B", "C"])
def test_a_broker_that_starts_again_gets_all_tables_again(who):
    loopback = overlay("B A", "C B")

    def announce() -> None:
        for broker, client, make in (("A", "publisher", advertise), ("C", "sub", subscribe)):
            if client not in loopback.routers[broker].clients.all:
                make(loopback, broker, client, "a > 1")

    announce()
    neighbour = {"A": "", "B": "A", "C": "B"}[who]
    loopback.start(who, epoch=2, pin="both")
    if neighbour:
        loopback.event(who, ev.Connect(neighbour))
    announce()
    loopback.run(10)
    publish(loopback, "A", "publisher", a=10)
    assert loopback.delivered == [("sub", {"a": 10})]
    assert table(loopback.routers["A"]) == {("B", "a > 1")}
    assert table(loopback.routers["B"]) == {("C", "a > 1")}


def test_a_neighbour_that_is_silent_for_long_is_forgotten_and_comes_back():
    loopback = overlay("B A", "C B")
    advertise(loopback, "A", "publisher", "a > 1")
    subscribe(loopback, "C", "sub", "a > 5")
    loopback.broken.add(frozenset("BC"))
    loopback.run(30)
    assert table(loopback.routers["A"]) == {("B", "a > 5")}
    loopback.run(40)
    assert table(loopback.routers["A"]) == set()
    assert table(loopback.routers["C"], "advertisements") == set()
    loopback.broken.clear()
    loopback.run(5)
    assert table(loopback.routers["A"]) == {("B", "a > 5")}


def test_publications_sent_again_to_a_neighbour_that_has_them_are_not_duplicated():
    """Their acknowledgement was lost, and the link begins a new session."""
    loopback = overlay("B A", "C B")
    advertise(loopback, "A", "publisher", "a > 1")
    subscribe(loopback, "C", "sub", "a > 5")
    loopback.now += 1
    for each in loopback.routers["A"].handle(ev.Publish("publisher", "publisher", {"a": 10}), loopback.now):
        if isinstance(each, Send):  # what B answers is lost
            sent = loopback.routers["B"].handle(ev.Received("A", each.message), loopback.now)
            for forward in sent:
                if isinstance(forward, Send) and forward.target == "C":
                    loopback.event("C", ev.Received("B", forward.message))
    loopback.sent.clear()
    loopback.event("B", ev.Broken("A"))
    loopback.run(3)
    assert len(bodies(loopback, ms.Publication, source="A")) == 1
    assert loopback.delivered == [("sub", {"a": 10})]


def test_a_path_stays_until_the_publications_before_an_unadvertisement_have_passed():
    loopback = overlay("B A", "C B")
    advertise(loopback, "A", "publisher", "a > 1")
    subscribe(loopback, "C", "sub", "a > 5")
    loopback.broken.add(frozenset("AB"))
    for a in range(10, 110):  # more than one window
        publish(loopback, "A", "publisher", a=a)
    loopback.event("A", ev.Detach("publisher"))
    loopback.run(5)
    loopback.broken.clear()
    loopback.run(5)
    assert [values["a"] for _, values in loopback.delivered] == list(range(10, 110))
    assert table(loopback.routers["C"], "advertisements") == set()


def test_more_publications_than_may_wait_are_discarded_with_an_instruction():
    loopback = Loopback()
    for name in "AB":
        loopback.start(name, pin="both", settings=Settings(window=4, most_waiting=10))
    loopback.event("B", ev.Connect("A"))
    advertise(loopback, "A", "publisher", "a > 1")
    subscribe(loopback, "B", "sub", "a > 5")
    loopback.broken.add(frozenset("AB"))
    for a in range(10, 30):
        publish(loopback, "A", "publisher", a=a)
    lost = [each.id.sequence for _, each in loopback.done if isinstance(each, Discarded)]
    assert lost == [15, 16, 17, 18, 19, 20]
    loopback.broken.clear()
    loopback.run(5)
    assert [values["a"] for _, values in loopback.delivered] == list(range(10, 24))


# -- one link


def pair(window: int = 4) -> tuple[Context, Link, Context, Link]:
    settings = Settings(window=window)
    contexts = [Context(name, 1, settings, Random(1)) for name in "AB"]
    one, other = (Link(name, context, wanted=True) for name, context in zip("BA", contexts, strict=True))
    one.meet(other.session)
    other.meet(one.session)
    one.joined = other.joined = one.confirmed = other.confirmed = True
    return contexts[0], one, contexts[1], other


def publication(sequence: int) -> ms.Publication:
    return ms.Publication(ms.PublicationId("A", 1, sequence), "feed", {})


@pytest.mark.parametrize("seed", range(20))
def test_a_link_is_an_ordered_stream_over_a_network_that_loses_repeats_and_reorders(seed):
    context, one, opposite, other = pair()
    rng = Random(seed)
    got: list[int] = []
    wire: list[tuple[Link, ms.Frame]] = []
    for step in range(4_000):
        context.now = opposite.now = step * 0.1
        if step < 100:
            one.offer(publication(step))
        one.tick()
        other.tick()
        other.flush()
        for where, target in ((context, other), (opposite, one)):
            for each in where.out:
                wire += [(target, each.message)] * rng.choice((0, 1, 1, 2))
            where.out.clear()
        rng.shuffle(wire)
        for _ in range(min(len(wire), 3)):
            target, frame = wire.pop()
            bodies = list(target.receive(frame))
            got += [body.id.sequence for body in bodies if target is other]
        if len(got) == 100 and not one.waiting:
            break
    assert got == list(range(100))
    assert one.waiting == 0


def test_no_more_messages_are_in_flight_than_the_window_allows():
    context, one, _, _ = pair()
    for number in range(10):
        one.offer(publication(number))
    assert len(context.out) == 4
    assert one.waiting == 10


def test_control_messages_overtake_publications_that_wait():
    outbox = Outbox(100)
    for number in range(3):
        outbox.put(publication(number))
    outbox.put(ms.Unsubscribe(7))
    outbox.put(ms.Inquiry())
    taken = [outbox.take() for _ in range(len(outbox))]
    assert [type(each).__name__ for each in taken] == ["Unsubscribe", "Inquiry"] + ["Publication"] * 3


def test_an_unadvertisement_waits_for_the_publications_before_it():
    outbox = Outbox(100)
    outbox.put(publication(1))
    outbox.put(ms.Unadvertise(7))
    outbox.put(publication(2))
    taken = [outbox.take() for _ in range(len(outbox))]
    assert [type(each).__name__ for each in taken] == ["Publication", "Unadvertise", "Publication"]


def test_an_advertisement_cancels_its_own_unadvertisement_that_waits():
    outbox = Outbox(100)
    outbox.put(publication(1))
    outbox.put(ms.Unadvertise(7))
    outbox.put(ms.Unadvertise(8))
    outbox.put(ms.Advertise(7, "space", None))
    taken = [outbox.take() for _ in range(len(outbox))]
    assert [getattr(each, "id", None) for each in taken] == [7, publication(1).id, 8]
