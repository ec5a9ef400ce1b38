"""A durable subscription may get a new id while no broker holds it: results of both ids arrive, or a gap does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_lab import Broker, Speaker, broker
from rest_user import RestUser, events, rows

from sparkless import Sparkless, sparkless

ARGS = ["fire"]


class DurableUser:
    """A user who subscribed to fires; ``release`` kills their broker and drops it at the data cluster."""

    def __init__(self, home: Path, cluster: Sparkless, url: str) -> None:
        self.home, self.cluster, self.url = home, cluster, url
        self.broker = Broker(home, url)
        self.broker.event("ready")
        self.person = RestUser(self.broker.url)
        self.first = self.person.subscribe(ARGS[0])

    def find(self, *values: int) -> int:
        """One execution each; returns the last execution."""
        return [self.cluster.found("OfKind", (ARGS, [{"n": value}])) for value in values][-1]

    def release(self) -> None:
        self.broker.kill()
        (held,) = self.cluster.subscriptions("OfKind", "b", 0, 100)
        self.cluster.execute(f'UNSUBSCRIBE "{held["subscription"]}" FROM OfKind; DROP BROKER b;')

    def listed(self) -> dict[str, Any]:
        """The durable subscription, once the broker has subscribed again."""
        while True:
            (held,) = self.person.http.get("/listsubscriptions").json()["subscriptions"]
            found = self.cluster.subscriptions("OfKind", None, 0, 100)
            if [each["subscription"] for each in found] == [held["subscription"]]:
                return dict(held)

    def new_id(self) -> int:
        """Releases and restores the subscription; returns its new id."""
        self.release()
        self.find(-1)
        self.broker.start()
        return int(self.listed()["subscription"])


@pytest.fixture
def user(tmp_path: Path) -> Iterator[DurableUser]:
    with sparkless(tmp_path / "data") as (cluster, url):
        found = DurableUser(tmp_path / "b", cluster, url)
        yield found
        if not found.broker.killed:
            found.broker.end()


def gaps(found: dict[str, Any]) -> list[tuple[int, int, str]]:
    return [(gap["after"], gap["next"], gap["reason"]) for gap in found["gaps"]]


def test_results_of_the_previous_id_are_delivered_and_the_time_without_an_id_is_a_gap(user):
    two = user.find(1, 2)
    id_ = user.new_id()
    last = user.find(4)
    assert id_ != user.first
    found = user.person.results(id_, limit=3)
    assert (rows(found), found["after"], found["subscription"]) == ([1, 2, 4], last, id_)
    assert gaps(found) == [(two, two + 2, "released")]


def test_a_previous_id_is_valid_until_all_its_results_are_acknowledged(user):
    one = user.find(1)
    user.find(2)
    assert user.person.post("/ackresults", subscription=user.first, execution=one).status_code == 200
    id_ = user.new_id()
    found = user.person.results(user.first)
    assert (rows(found), found["subscription"]) == ([2], id_)
    # ``after`` includes the gap, and can be acknowledged under either id.
    assert user.person.post("/ackresults", subscription=user.first, execution=found["after"]).status_code == 200
    again = user.person.results(id_)
    assert (rows(again), gaps(again)) == ([], [])
    last = user.find(3)
    assert rows(user.person.results(id_, wait=20)) == [3]
    assert user.person.post("/ackresults", subscription=id_, execution=last).status_code == 200
    assert "previous_ids" not in user.listed()
    assert user.person.http.get("/getresults", params={"subscription": user.first}).status_code == 404


def test_results_of_several_ids_arrive_in_order(user):
    one = user.find(1)
    user.new_id()
    two = user.find(2)
    id_ = user.new_id()
    found = user.person.results(id_)
    assert rows(found) == [1, 2]
    assert gaps(found) == [(one, two, "released"), (two, two + 2, "released")]


def test_a_user_receives_results_of_a_previous_id_at_another_broker(user):
    user.find(1)
    user.release()
    with broker(user.home, user.url, "other") as other:
        user.person.http.base_url = other.url
        id_ = user.listed()["subscription"]
        user.find(2)
        assert id_ != user.first and rows(user.person.results(id_, limit=2)) == [1, 2]


def test_a_users_stream_resumes_with_a_position_of_the_previous_id(user):
    one = user.find(1)
    user.find(2)
    user.new_id()
    with user.person.http.stream("GET", "/events", headers={"last-event-id": f"{user.first}:{one}"}) as stream:
        found = [(event, data) for _, event, data in _until_live(stream)]
    assert [data["results"] for event, data in found if event == "notify"] == [[{"n": 2}]]
    assert [event for event, _ in found if event == "gap"] == ["gap"]


def test_a_previous_id_of_other_arguments_gives_nothing_of_it(user):
    """An id is easy to guess: only a subscription with the same arguments gets its results."""
    user.find(1, 2)
    with broker(user.home / "other", user.url, "other") as other:
        for first in (user.first, 999_999):  # one that exists, and one that never did
            attacker = Speaker(other.url)
            attacker.ask("subscribe", channel="OfKind", args=["guess"], after=0, subscription=first)
            assert attacker.next("live") and attacker.next("gap")["reason"] == "released"
            assert [each for each in attacker.waiting if each["type"] == "notify"] == []
            attacker.close()
        query, mark = {"channel": "OfKind", "kind": "guess"}, {"last-event-id": f"{user.first}:0"}
        with httpx.stream("GET", f"{other.url}/events", params=query, headers=mark, timeout=120) as stream:
            assert "notify" not in [event for _, event, _ in _until_live(stream)]
        user.release()
        attacker = Speaker(other.url)
        attacker.ask("subscribe", channel="OfKind", args=["another guess"], after=0, subscription=user.first)
        assert attacker.next("live")
        assert [each for each in attacker.waiting if each["type"] == "notify"] == []
        attacker.close()
        owner = Speaker(other.url)
        owner.ask("subscribe", channel="OfKind", args=ARGS, after=0, subscription=user.first)
        assert [owner.next("notify")["results"] for _ in range(2)] == [[{"n": 1}], [{"n": 2}]]
        owner.close()


def test_an_anonymous_stream_resumes_within_its_previous_id(tmp_path):
    query = {"channel": "OfKind", "kind": ARGS[0]}
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "b", url, grace=0.0) as b:
        with httpx.stream("GET", f"{b.url}/events", params=query, timeout=120) as stream:
            for n in (1, 2):
                cluster.found("OfKind", (ARGS, [{"n": n}]))
            mark, first = next(
                (mark, data["subscription"]) for mark, event, data in events(stream) if event == "notify"
            )
        while cluster.subscriptions("OfKind", None, 0, 100):
            httpx.get(f"{b.url}/healthz", timeout=60)  # it expires at the next tick
        missed = cluster.found("OfKind")
        got: list[Any] = []
        for _ in range(3):  # cut after each event: the rest, the gap, the end
            headers = {"last-event-id": mark}
            with httpx.stream("GET", f"{b.url}/events", params=query, headers=headers, timeout=120) as stream:
                mark, event, data = next(events(stream))
            got.append(data.get("results") or event)
            id_ = data["subscription"]
        assert id_ != first
        assert got == [[{"n": 2}], "gap", "live"] and mark == f"{id_}:{missed}"


def _until_live(stream: httpx.Response) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for found in events(stream):
        yield found
        if found[1] == "live":
            return
