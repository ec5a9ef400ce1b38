"""The campaign of heads and edges finds bugs: each test plants one, and some seed must break a rule."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from seeds import few
from tocsin.content import poset
from tocsin.content.condition import intersects
from tocsin.overlay.content import messages as ms
from tocsin.overlay.content import router as machine
from tocsin.overlay.content.clients import Clients
from tocsin.overlay.content.link.link import Link
from tocsin.overlay.content.link.links import Links
from tocsin.overlay.content.link.outbox import Outbox
from tocsin.overlay.content.router import Router
from tocsin.overlay.content.routing.covering_set import Changes, CoveringSet
from tocsin.overlay.content.routing.routing import Routing
from tocsin.overlay.content.routing.space import Space
from tocsin.overlay.content.topology import Topology
from tocsin.simulation.content.run import attempt

#: Each bug is found within this many seeds; in every run, a search begins shortly before the one that finds it.
MOST, FEW = 60, 4

Patch = Callable[[pytest.MonkeyPatch], None]


def a_covered_subscription_is_not_forwarded_when_the_covering_one_ends(patch: pytest.MonkeyPatch) -> None:
    remove = CoveringSet.remove

    def removed(self: CoveringSet, key: Any) -> None:
        before = dict(self._new)
        remove(self, key)
        self._new = before

    patch.setattr(CoveringSet, "remove", removed)


def a_withdrawal_is_forwarded_before_what_it_uncovers(patch: pytest.MonkeyPatch) -> None:
    """Brokers on the way drop publications in between."""
    changes = Space.changes

    def reversed_changes(self: Space) -> Iterator[Any]:
        yield from reversed(list(changes(self)))

    patch.setattr(Space, "changes", reversed_changes)


def publications_sent_again_are_not_recognised(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Router, "_publication", lambda self, source, publication: self._route(publication, source))


def a_link_delivers_what_arrives_twice(patch: pytest.MonkeyPatch) -> None:
    receive = Link.receive

    def received(self: Link, frame: ms.Frame) -> Iterator[ms.Body]:
        again = frame.body is not None and frame.number < self._expected
        yield from receive(self, frame)
        if again and frame.body is not None:
            yield frame.body

    patch.setattr(Link, "receive", received)
    publications_sent_again_are_not_recognised(patch)


def a_link_does_not_put_messages_into_order(patch: pytest.MonkeyPatch) -> None:
    def receive(self: Link, frame: ms.Frame) -> Iterator[ms.Body]:
        self.last_received = self._context.now
        for number in [each for each in self._window if each <= frame.acknowledged]:
            del self._window[number]
        if frame.body is not None:
            self._owes_ack = True
            if frame.number >= self._expected:
                self._expected = frame.number + 1
                yield frame.body
        self.pump()

    patch.setattr(Link, "receive", receive)


def covering_is_too_eager(patch: pytest.MonkeyPatch) -> None:
    """What only intersects counts as covered."""
    patch.setattr(poset, "covers", lambda ours, theirs: intersects(ours, theirs) and repr(ours) < repr(theirs))


def advertisements_are_not_flooded_on_a_new_link(patch: pytest.MonkeyPatch) -> None:
    add = Space.add_neighbour

    def added(self: Space, name: str) -> None:
        advertisements, self.advertisements = self.advertisements, {}
        add(self, name)
        self.advertisements = advertisements

    patch.setattr(Space, "add_neighbour", added)


def an_unadvertisement_overtakes_publications(patch: pytest.MonkeyPatch) -> None:
    put = Outbox.put

    def putting(self: Outbox, body: ms.Body) -> bool:
        if isinstance(body, ms.Unadvertise):
            self._control.append(body)
            return True
        return put(self, body)

    patch.setattr(Outbox, "put", putting)


def nothing_is_sent_again(patch: pytest.MonkeyPatch) -> None:
    tick = Link.tick

    def ticking(self: Link) -> None:
        window, self._window = self._window, {}
        tick(self)
        self._window = window

    patch.setattr(Link, "tick", ticking)


def messages_in_flight_are_lost_with_their_session(patch: pytest.MonkeyPatch) -> None:
    restart = Outbox.restart
    patch.setattr(Outbox, "restart", lambda self, in_flight: restart(self, ()))


def publications_that_wait_are_lost_with_their_session(patch: pytest.MonkeyPatch) -> None:
    def restart(self: Outbox, in_flight: Any) -> None:
        self._control.clear()
        self._data = deque()

    patch.setattr(Outbox, "restart", restart)


def a_client_that_disconnects_stays_subscribed(patch: pytest.MonkeyPatch) -> None:
    def detach(self: Router, event: Any) -> None:
        del self.clients.all[event.client]

    patch.setattr(Router, "_detach", detach)


def what_ended_while_a_link_was_down_stays(patch: pytest.MonkeyPatch) -> None:
    missing = Routing.missing

    def only_new(self: Routing, name: str, inventory: ms.Inventory) -> Any:
        return [each for each in missing(self, name, inventory) if isinstance(each[1], ms.Announcement)]

    patch.setattr(Routing, "missing", only_new)


def tables_are_not_compared_after_a_break(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Routing, "differs", lambda self, name, digest: not self.neighbours[name])


def subscriptions_go_to_all_neighbours(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Space, "_attracts", lambda self, neighbour, condition: True)


def publications_go_to_all_neighbours(patch: pytest.MonkeyPatch) -> None:
    route = Routing.route

    def everywhere(self: Routing, publication: Any, source: str = "") -> Any:
        return [name for name in self.neighbours if name != source], route(self, publication, source)[1]

    patch.setattr(Routing, "route", everywhere)


def unless(reason: str, patch: pytest.MonkeyPatch) -> None:
    """Links are not refused for this reason."""
    problem = Links._problem

    def other_problem(self: Links, source: str, hello: Any, link: Any) -> Any:
        found = problem(self, source, hello, link)
        return None if found is not None and found.fields["reason"] == reason else found

    patch.setattr(Links, "_problem", other_problem)


def cycles_are_not_refused(patch: pytest.MonkeyPatch) -> None:
    unless("cycle", patch)
    patch.setattr(Links, "_own_problem", lambda self, name, side: None)
    patch.setattr(Topology, "superfluous", lambda self: [])


def a_namesake_replaces_a_broker_that_runs(patch: pytest.MonkeyPatch) -> None:
    unless("name", patch)


def clients_stay_when_a_role_changes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Clients, "migrate", lambda self, role, at_once=False: None)


def roles_do_not_follow_the_topology(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(machine.roles, "role_of", lambda neighbours, brokers: "both")


def brokers_that_left_are_remembered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Topology, "prune", lambda self, now, after: None)


def a_new_run_of_a_broker_is_taken_for_the_old_one(patch: pytest.MonkeyPatch) -> None:
    learn = Topology.learn

    def learned(self: Topology, record: ms.Record) -> bool:
        known = self.records.get(record.name)
        return (known is None or known.version < record.version) and learn(self, record)

    patch.setattr(Topology, "learn", learned)


def an_advertisement_is_withdrawn_by_its_earlier_unadvertisement(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Outbox, "_cancel", lambda self, id: None)


def a_neighbour_that_has_left_keeps_its_announcements(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Space, "remove_neighbour", lambda self, name: self.neighbours.pop(name, None))


def a_demoted_subscription_stays_at_the_next_broker(patch: pytest.MonkeyPatch) -> None:
    changes = CoveringSet.changes
    patch.setattr(CoveringSet, "changes", lambda self: Changes(changes(self).announced, ()))


BUGS: dict[Patch, int] = {
    a_covered_subscription_is_not_forwarded_when_the_covering_one_ends: 1,
    a_withdrawal_is_forwarded_before_what_it_uncovers: 10,
    publications_sent_again_are_not_recognised: 8,
    a_link_does_not_put_messages_into_order: 1,
    covering_is_too_eager: 1,
    advertisements_are_not_flooded_on_a_new_link: 4,
    an_unadvertisement_overtakes_publications: 36,
    nothing_is_sent_again: 5,
    messages_in_flight_are_lost_with_their_session: 15,
    what_ended_while_a_link_was_down_stays: 1,
    subscriptions_go_to_all_neighbours: 1,
    publications_go_to_all_neighbours: 1,
    cycles_are_not_refused: 3,
    a_namesake_replaces_a_broker_that_runs: 27,
    a_link_delivers_what_arrives_twice: 1,
    publications_that_wait_are_lost_with_their_session: 15,
    a_client_that_disconnects_stays_subscribed: 1,
    tables_are_not_compared_after_a_break: 6,
    clients_stay_when_a_role_changes: 1,
    roles_do_not_follow_the_topology: 1,
    brokers_that_left_are_remembered: 1,
    a_demoted_subscription_stays_at_the_next_broker: 1,
    a_new_run_of_a_broker_is_taken_for_the_old_one: 6,
    an_advertisement_is_withdrawn_by_its_earlier_unadvertisement: 39,
    a_neighbour_that_has_left_keeps_its_announcements: 4,
}


@pytest.mark.parametrize("bug", few(list(BUGS), 14), ids=lambda each: each.__name__)
def test_the_campaign_finds(bug, monkeypatch):
    bug(monkeypatch)
    assert any(attempt(seed).violations for seed in range(BUGS[bug], BUGS[bug] + FEW))


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda each: each.__name__)
def test_the_campaign_finds_from_the_first_seed_on(bug, monkeypatch):
    bug(monkeypatch)
    assert any(attempt(seed).violations for seed in range(1, MOST + 1))
