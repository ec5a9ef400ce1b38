"""Queries that take long: they end with their clients and at their deadline, and leave room for channels."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection

import httpx
import msgspec
import pytest
from cluster_harness import ManualCluster, running_cluster

from cluster_server import serving
from eventually import eventually
from tocsin.cluster.spark import session
from tocsin.cluster.spark.session import SparkRuntime

SETUP = """
CREATE ACTIVE DATASET Reports (n bigint);
CREATE FEED f; CONNECT FEED f TO DATASET Reports; START FEED f;
CREATE BROKER b AT "http://127.0.0.1:9/";
CREATE CONTINUOUS CHANNEL c() { SELECT r.n FROM Reports r WHERE is_new(r) };
"""
ENDLESS = "SELECT count(*) AS n FROM range(1000000000000000) WHERE id * rand() < -1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark_runtime: SparkRuntime) -> Iterator[ManualCluster]:
    with running_cluster(tmp_path_factory.mktemp("queries"), spark_runtime) as made:
        made.execute(SETUP)
        made.me = made.subscribed("c")  # type: ignore[attr-defined]
        made.post("f", {"n": 0})
        made.wait_results("c", made.me, 1)  # type: ignore[attr-defined]
        yield made


@pytest.fixture(scope="module")
def url(cluster: ManualCluster) -> Iterator[str]:
    with serving(cluster, cluster.config) as address:
        yield address


@contextmanager
def settings(cluster: ManualCluster, **changed: object) -> Iterator[None]:
    runtime, before = cluster.context.runtime, cluster.context.runtime.config
    runtime.config = msgspec.structs.replace(before, **changed)
    try:
        yield
    finally:
        runtime.config = before


def tasks(cluster: ManualCluster) -> int:
    tracker = cluster.context.runtime.session.sparkContext.statusTracker()
    found = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(each.numActiveTasks for each in found if each)


def ask(url: str, path: str) -> httpx.Response:
    return httpx.post(url + path, content=ENDLESS, timeout=300)


def begin(url: str, path: str, count: int) -> list[HTTPConnection]:
    """Clients that have asked an endless query."""
    clients = [HTTPConnection(url.removeprefix("http://")) for _ in range(count)]
    for client in clients:
        client.request("POST", path, ENDLESS)
    return clients


def channel_goes_on(cluster: ManualCluster, n: int) -> None:
    before = len([item for group in cluster.results_of("c", cluster.me) for item in group])  # type: ignore[attr-defined]
    cluster.post("f", {"n": n})
    found = cluster.wait_results("c", cluster.me, before + 1)  # type: ignore[attr-defined]
    assert found[-1] == {"n": n}


@pytest.mark.parametrize("path", ["/query", "/sql"])
def test_eight_endless_queries_whose_clients_have_gone_are_cancelled(cluster, url, path):
    clients = begin(url, path, 8)
    eventually(lambda: tasks(cluster))
    for client in clients:
        client.close()
    channel_goes_on(cluster, 1)
    eventually(lambda: tasks(cluster) == 0)
    assert httpx.post(url + "/query", content="SELECT 1 AS x", timeout=120).json() == [{"x": 1}]


def test_a_query_ends_at_its_deadline_with_a_clear_error(cluster, url):
    with settings(cluster, query_seconds=2.0):
        refused = ask(url, "/query")
        within = ask(url, "/sql")
    assert refused.status_code == 408
    assert refused.json()["error"] == {
        "code": "query_timeout",
        "message": "the query took longer than 2 s and was cancelled",
        "hint": "make it smaller, or raise the setting query_seconds",
    }
    assert (within.status_code, within.json()["error"]["code"]) == (408, "query_timeout")
    eventually(lambda: tasks(cluster) == 0)


def test_a_channel_gets_its_cores_back_from_queries_whose_clients_wait(cluster, url):
    answers: list[httpx.Response] = []
    with settings(cluster, query_seconds=250.0):
        threads = [threading.Thread(target=lambda: answers.append(ask(url, "/query"))) for _ in range(3)]
        for each in threads:
            each.start()
        eventually(lambda: tasks(cluster) >= 2)
        channel_goes_on(cluster, 2)
        assert "channels waited" in eventually(lambda: answers)[0].json()["error"]["message"]
        assert answers[0].status_code == 503
        for work in list(cluster.context.runtime._work._running.values()):
            work.seconds = 0.0  # end the others
        for each in threads:
            each.join()


def test_more_queries_than_places_are_refused_and_definitions_go_on(cluster, url, monkeypatch):
    monkeypatch.setattr(session, "QUEUE_SECONDS", 0.1)
    clients = begin(url, "/query", cluster.config.query_threads)
    eventually(lambda: tasks(cluster))
    running = cluster.context.runtime._work._running
    eventually(lambda: sum(each.kind == "query" for each in list(running.values())) == len(clients))
    refused = ask(url, "/query")
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
    assert httpx.post(url + "/sql", content="CREATE DATASET Other (a int)", timeout=60).status_code == 200
    for client in clients:
        client.close()
    eventually(lambda: tasks(cluster) == 0)  # before the server ends, which would no longer see that they have gone
