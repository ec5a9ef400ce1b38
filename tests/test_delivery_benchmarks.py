"""The benchmarks of connections, churn and commit to last delivery run at a small size, with correct counts."""

from __future__ import annotations

import pytest
from benchmarks import churn, commit_to_last, connections
from benchmarks.fanout.broker import Tocsin
from benchmarks.fanout.counter import Counter
from benchmarks.holder import Holder


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in (
        (connections, "TIMED", 30),
        (connections, "WARM", 5),
        (connections, "WATCHED", 0.1),
        (churn, "CONNECTIONS", 3),
        (churn, "PAIRS", 20),
        (churn, "TOPICS", 4),
        (churn, "AT_ONCE", 10),
        (churn, "CPU", 0.001),
        (commit_to_last, "WARM", 1),
    ):
        monkeypatch.setattr(module, name, value)


def test_the_benchmark_holds_the_connections_of_several_processes():
    processes, held, *_, spread, beat, _idle = connections.measured(2, 1, 60, 0.0)
    assert (processes, held, beat) == (2, 60, "none")
    assert sum(int(part) for part in spread.split(" + ")) == 60


def test_connections_that_answer_heartbeats_stay_open():
    with Tocsin(None, heartbeat=2) as broker:
        openings = [broker.opening(0, [0])] * 5
        with Holder(broker.endpoint, openings) as holder:
            with holder.pinged:  # four each: more than a silent connection receives
                assert holder.pinged.wait_for(lambda: holder.pings >= 20, 300)
            assert holder.alive
            assert connections.connections(broker.facts[0]["inside"]) == 5


def test_every_subscribe_and_unsubscribe_of_the_churn_is_answered():
    with Tocsin(None) as server, churn.keeping(server):
        openings = churn.churning(server)
        assert openings[0].answers == 41 and len(openings) == 3
        assert all(figure > 0 for figure in churn.churned(server, openings))
        assert server.cluster.channel(server.channel)["subscriptions"] == 4


def test_new_be_subscriptions_expire_at_the_end_of_the_churn():
    (row,) = churn.new(0.1).rows
    assert row[0] > 0 and row[3] > 0


def test_every_resumed_subscriber_receives_what_it_missed():
    with Tocsin(None, limits_cache_results=3) as server:
        churn.away(server, [server.opening(0, [0])] * 20)
        for missed in (0, 2, 5):
            openings = churn.resuming(server, 20, missed)
            with Counter(server.endpoint, openings) as counter:
                counter.expect(20 * missed)
                counter.met()
                server.cluster.found(server.channel, ([0], [{"n": 1}]))
                counter.expect(20)
                assert counter.met().deliveries == 20 * (missed + 1)


def test_an_execution_reaches_the_last_subscriber_by_push_and_by_pull():
    table = commit_to_last.measure(20, 2)
    assert [row[0] for row in table.rows][2:] == ["committed, push channel", "committed, pull channel"]
    assert all(row[1] <= row[2] <= row[3] for row in table.rows)
