"""What is kept for a user may get another number while no broker holds it: results of both are had, or announced."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_harness import at
from broker_lab import Broker, broker
from rest_user import RestUser, events, rows

from sparkless import Sparkless, sparkless
from tocsin.broker.core import instructions as do
from tocsin.broker.user_store import UserStore
from tocsin.wire.messages import DurableSubscription

ARGS = ["fire"]


class Kept:
    """A person who subscribed to fires; ``let_go`` kills their broker and has the data cluster forget it."""

    def __init__(self, home: Path, cluster: Sparkless, url: str) -> None:
        self.home, self.cluster, self.url = home, cluster, url
        self.broker = Broker(home, url)
        self.broker.event("ready")
        self.person = RestUser(self.broker.url)
        self.first = self.person.subscribe(ARGS[0])

    def find(self, *numbers: int) -> int:
        """One execution each; the number of the last."""
        return [self.cluster.found("OfKind", (ARGS, [{"n": number}])) for number in numbers][-1]

    def let_go(self) -> None:
        self.broker.kill()
        (held,) = self.cluster.subscriptions("OfKind", None, 0, 100)
        self.cluster.execute(f'UNSUBSCRIBE "{held["subscription"]}" FROM OfKind; DROP BROKER b;')

    def listed(self) -> dict[str, Any]:
        """Once it is subscribed to again."""
        while True:
            (held,) = self.person.http.get("/listsubscriptions").json()["subscriptions"]
            found = self.cluster.subscriptions("OfKind", None, 0, 100)
            if [each["subscription"] for each in found] == [held["subscription"]]:
                return dict(held)

    def renumbered(self) -> int:
        """It has another number now."""
        self.let_go()
        self.find(-1)
        self.broker.start()
        return int(self.listed()["subscription"])


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    with sparkless(tmp_path / "data") as (cluster, url):
        found = Kept(tmp_path / "b", cluster, url)
        yield found
        if not found.broker.killed:
            found.broker.end()


def gaps(found: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(gap["after"], gap["next"], gap["reason"]) for gap in found["gaps"]]


def test_results_of_the_number_it_had_are_delivered_and_what_nobody_had_is_a_gap(kept):
    two = kept.find(1, 2)
    number = kept.renumbered()
    last = kept.find(4)
    assert number != kept.first
    found = kept.person.results(number, limit=3)
    assert (rows(found), found["after"], found["subscription"]) == ([1, 2, 4], last, number)
    assert gaps(found) == [(two, two + 2, "released")]


def test_what_was_acknowledged_does_not_come_again_and_the_former_number_is_known_until_it_has_no_more(kept):
    one = kept.find(1)
    kept.find(2)
    assert kept.person.post("/ackresults", subscription=kept.first, execution=one).status_code == 200
    number = kept.renumbered()
    found = kept.person.results(kept.first)
    assert (rows(found), found["subscription"]) == ([2], number)
    # The gap is behind it too: what it gives as ``after`` can be acknowledged under either number.
    assert kept.person.post("/ackresults", subscription=kept.first, execution=found["after"]).status_code == 200
    again = kept.person.results(number)
    assert (rows(again), gaps(again)) == ([], [])
    last = kept.find(3)
    assert rows(kept.person.results(number, wait=20)) == [3]
    assert kept.person.post("/ackresults", subscription=number, execution=last).status_code == 200
    assert "previous_ids" not in kept.listed()
    assert kept.person.http.get("/getresults", params={"subscription": kept.first}).status_code == 404


def test_results_of_several_numbers_come_in_their_order(kept):
    one = kept.find(1)
    kept.renumbered()
    two = kept.find(2)
    number = kept.renumbered()
    found = kept.person.results(number)
    assert rows(found) == [1, 2]
    assert gaps(found) == [(one, two, "released"), (two, two + 2, "released")]


def test_who_goes_to_another_broker_too_late_gets_the_rest_there(kept):
    kept.find(1)
    kept.let_go()
    with broker(kept.home, kept.url, "other") as other:
        kept.person.http.base_url = other.url
        number = kept.listed()["subscription"]
        kept.find(2)
        assert number != kept.first and rows(kept.person.results(number, limit=2)) == [1, 2]


def test_a_users_stream_goes_on_where_it_was_under_the_former_number(kept):
    one = kept.find(1)
    kept.find(2)
    kept.renumbered()
    with kept.person.http.stream("GET", "/events", headers={"last-event-id": f"{kept.first}:{one}"}) as stream:
        found = [(event, data) for _, event, data in _until_live(stream)]
    assert [data["results"] for event, data in found if event == "notify"] == [[{"n": 2}]]
    assert [event for event, _ in found if event == "gap"] == ["gap"]


def test_a_stream_of_nobody_that_is_cut_within_its_former_number_gets_the_rest_of_it(tmp_path):
    query = {"channel": "OfKind", "kind": ARGS[0]}
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "b", url, grace=0.0) as b:
        with httpx.stream("GET", f"{b.url}/events", params=query, timeout=120) as stream:
            for n in (1, 2):
                cluster.found("OfKind", (ARGS, [{"n": n}]))
            mark, first = next(
                (mark, data["subscription"]) for mark, event, data in events(stream) if event == "notify"
            )
        while cluster.subscriptions("OfKind", None, 0, 100):
            httpx.get(f"{b.url}/healthz", timeout=60)  # it is let go at the next tick
        missed = cluster.found("OfKind")
        got: list[Any] = []
        for _ in range(3):  # cut after each event: the rest, the gap, the end
            headers = {"last-event-id": mark}
            with httpx.stream("GET", f"{b.url}/events", params=query, headers=headers, timeout=120) as stream:
                mark, event, data = next(events(stream))
            got.append(data.get("results") or event)
            number = data["subscription"]
        assert number != first
        assert got == [[{"n": 2}], "gap", "live"] and mark == f"{number}:{missed}"


def _until_live(stream: httpx.Response) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for found in events(stream):
        yield found
        if found[1] == "live":
            return


# -- the store


@pytest.fixture
def users(tmp_path: Path) -> Iterator[UserStore]:
    found = UserStore(tmp_path / "users.db", "b", 3600.0, lambda: 1_000.0)
    found.remember(do.Remember("ann", 7, "C", ["fire"], at(3)))
    yield found
    found.close()


def test_another_number_keeps_the_position_and_knows_the_one_before(users):
    users.acknowledge(do.Acknowledge("ann", {7: at(5)}))
    users.change_id(do.ChangeId("ann", 7, 9, at(12), at(20)))
    assert users.durable("ann").result(120) == [DurableSubscription(9, "C", ["fire"], 5, {7: 12})]


def test_a_position_ahead_of_the_channel_is_that_of_another_channel(users):
    users.change_id(do.ChangeId("ann", 7, 9, at(2), at(2)))
    assert users.durable("ann").result(120) == [DurableSubscription(9, "C", ["fire"], 2, {7: 2})]


def test_the_same_change_by_two_brokers_is_one(users):
    for until in (12, 15):
        users.change_id(do.ChangeId("ann", 7, 9, at(until), at(20)))
    assert users.durable("ann").result(120) == [DurableSubscription(9, "C", ["fire"], 3, {7: 12})]


def test_every_number_is_known_until_something_behind_it_is_acknowledged(users):
    users.change_id(do.ChangeId("ann", 7, 9, at(12), at(20)))
    users.change_id(do.ChangeId("ann", 9, 10, at(30), at(30)))
    assert users.durable("ann").result(120) == [DurableSubscription(10, "C", ["fire"], 3, {7: 12, 9: 30})]
    users.acknowledge(do.Acknowledge("ann", {10: at(12)}))
    assert users.durable("ann").result(120) == [DurableSubscription(10, "C", ["fire"], 12, {7: 12, 9: 30})]
    users.acknowledge(do.Acknowledge("ann", {10: at(31)}))
    assert users.durable("ann").result(120) == [DurableSubscription(10, "C", ["fire"], 31)]


def test_what_is_forgotten_has_no_numbers_any_more(users):
    users.change_id(do.ChangeId("ann", 7, 9, at(12), at(20)))
    users.forget(do.Forget("ann", 9))
    users.remember(do.Remember("ann", 9, "C", ["fire"], at(30)))
    assert users.durable("ann").result(120) == [DurableSubscription(9, "C", ["fire"], 30)]
