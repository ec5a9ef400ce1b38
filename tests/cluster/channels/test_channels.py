from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster_harness import Listener, ManualCluster, running_cluster

from eventually import eventually
from tocsin.cluster.ops import kill_points
from tocsin.cluster.spark.session import SparkRuntime
from tocsin.errors import NotFound

REPORTS = """
CREATE ACTIVE DATASET Reports (id string, kind string, place string, lat double, lon double, severity int);
CREATE FEED ReportFeed; CONNECT FEED ReportFeed TO DATASET Reports; START FEED ReportFeed;
CREATE BROKER b AT "http://127.0.0.1:9/";
"""
HOURLY = 'PERIOD duration("PT1H")'


def report(
    id: str, kind: str = "fire", place: str = "north", lat: float = 0.0, lon: float = 0.0, severity: int = 1
) -> dict:
    return {"id": id, "kind": kind, "place": place, "lat": lat, "lon": lon, "severity": severity}


@pytest.fixture
def cluster(tmp_path: Path, spark_runtime: SparkRuntime) -> Iterator[ManualCluster]:
    with running_cluster(tmp_path / "home", spark_runtime) as made:
        made.execute(REPORTS)
        yield made


@pytest.fixture
def listener() -> Iterator[Listener]:
    made = Listener()
    yield made
    made.close()


def test_each_subscription_gets_what_its_parameters_ask_for(cluster: ManualCluster) -> None:
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c(kind string, place string) {HOURLY} "
        "{ SELECT r.id FROM Reports r WHERE is_new(r) AND r.kind = kind AND r.place = place }"
    )
    fire, flood = cluster.subscribed("c", "fire", "north"), cluster.subscribed("c", "flood", "south")
    unmatched = cluster.subscribed("c", "fire", "west")
    cluster.post("ReportFeed", report("1"), report("2", "flood", "south"), report("3", "flood", "north"), report("4"))
    run = cluster.run_channel("c")
    assert run.execution is not None
    assert (run.execution.number, run.execution.rows, run.execution.subscriptions) == (1, 3, 2)
    assert sorted(item["id"] for item in cluster.results_of("c", fire)[0]) == ["1", "4"]
    assert cluster.results_of("c", flood) == [[{"id": "2"}]]
    assert cluster.results_of("c", unmatched) == []


def test_an_execution_sees_only_records_since_the_last_one(cluster: ManualCluster) -> None:
    cluster.execute(f"CREATE REPETITIVE CHANNEL c() {HOURLY} {{ SELECT r.id FROM Reports r WHERE is_new(r) }}")
    me = cluster.subscribed("c")
    cluster.post("ReportFeed", report("1"))
    cluster.run_channel("c")
    assert cluster.run_channel("c").outcome == "skipped"
    cluster.post("ReportFeed", report("2"))
    cluster.run_channel("c")
    assert cluster.results_of("c", me) == [[{"id": "1"}], [{"id": "2"}]]


def test_records_from_before_the_channel_are_not_new(cluster: ManualCluster) -> None:
    cluster.post("ReportFeed", report("old"))
    cluster.execute(f"CREATE REPETITIVE CHANNEL c() {HOURLY} {{ SELECT r.id FROM Reports r WHERE is_new(r) }}")
    me = cluster.subscribed("c")
    cluster.post("ReportFeed", report("new"))
    cluster.run_channel("c")
    assert cluster.results_of("c", me) == [[{"id": "new"}]]


def test_a_repetitive_channel_without_is_new_sees_all_data_each_time(cluster: ManualCluster) -> None:
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} "
        "{ SELECT count(*) AS n FROM Reports r WHERE r.kind = kind }"
    )
    fire, flood = cluster.subscribed("c", "fire"), cluster.subscribed("c", "flood")
    cluster.post("ReportFeed", report("1"), report("2"))
    cluster.run_channel("c")
    cluster.run_channel("c")
    assert cluster.results_of("c", fire) == [[{"n": 2}], [{"n": 2}]]
    assert cluster.results_of("c", flood) == [[{"n": 0}], [{"n": 0}]]


def test_an_aggregate_without_new_records_still_has_a_result(cluster: ManualCluster) -> None:
    cluster.execute(f"CREATE REPETITIVE CHANNEL c() {HOURLY} {{ SELECT count(*) AS n FROM Reports r WHERE is_new(r) }}")
    me = cluster.subscribed("c")
    cluster.run_channel("c")
    assert cluster.results_of("c", me) == [[{"n": 0}]]


def test_top_k_is_taken_for_each_subscription_and_comes_in_order(cluster: ManualCluster) -> None:
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} {{ SELECT r.id, r.severity FROM Reports r "
        "WHERE is_new(r) AND r.kind = kind ORDER BY r.severity DESC, r.id LIMIT 2 }"
    )
    fire, flood = cluster.subscribed("c", "fire"), cluster.subscribed("c", "flood")
    cluster.post(
        "ReportFeed",
        *[report(f"{kind}{n}", kind, severity=(n * 7) % 5) for n in range(5) for kind in ("fire", "flood")],
    )
    cluster.run_channel("c")
    assert [item["id"] for item in cluster.results_of("c", fire)[0]] == ["fire2", "fire4"]
    assert [item["id"] for item in cluster.results_of("c", flood)[0]] == ["flood2", "flood4"]


def test_results_are_enriched_from_other_datasets(cluster: ManualCluster) -> None:
    cluster.execute(
        "CREATE DATASET Shelters (name string, place string) PRIMARY KEY name;"
        "INSERT INTO Shelters VALUES ('school', 'north'), ('church', 'north'), ('hall', 'south');"
        f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} {{ "
        "SELECT r.id, sort_array(collect_list(s.name)) AS shelters "
        "FROM Reports r JOIN Shelters s ON s.place = r.place WHERE is_new(r) AND r.kind = kind GROUP BY r.id }"
    )
    me = cluster.subscribed("c", "fire")
    cluster.post("ReportFeed", report("1"))
    cluster.run_channel("c")
    assert cluster.results_of("c", me) == [[{"id": "1", "shelters": ["church", "school"]}]]


def test_a_near_me_channel_follows_the_subscriber(cluster: ManualCluster) -> None:
    cluster.execute(
        "CREATE ACTIVE DATASET Places (user string NOT NULL, lat double, lon double) PRIMARY KEY user;"
        "UPSERT INTO Places VALUES ('ann', 0.0, 0.0), ('bob', 10.0, 10.0);"
        f"CREATE REPETITIVE CHANNEL c(user string) {HOURLY} {{ SELECT r.id FROM Reports r, Places p "
        "WHERE is_new(r) AND p.user = user AND within(r.lat, r.lon, p.lat, p.lon, 1000) }"
    )
    ann, bob = cluster.subscribed("c", "ann"), cluster.subscribed("c", "bob")
    cluster.post("ReportFeed", report("1", lat=0.001), report("2", lat=10.0, lon=10.001))
    cluster.run_channel("c")
    cluster.execute("UPSERT INTO Places VALUES ('ann', 10.0, 10.0)")
    cluster.post("ReportFeed", report("3", lat=10.0, lon=10.0))
    cluster.run_channel("c")
    assert cluster.results_of("c", ann) == [[{"id": "1"}], [{"id": "3"}]]
    assert cluster.results_of("c", bob) == [[{"id": "2"}], [{"id": "3"}]]


def test_a_join_can_select_pairs_that_are_new_on_either_side(cluster: ManualCluster) -> None:
    cluster.execute(
        "CREATE ACTIVE DATASET Units (unit string, place string);"
        f"CREATE REPETITIVE CHANNEL c() {HOURLY} {{ "
        "SELECT r.id, u.unit FROM Reports r JOIN Units u ON u.place = r.place "
        "WHERE is_new(r) OR is_new(u) }"
    )
    me = cluster.subscribed("c")
    cluster.post("ReportFeed", report("1"))
    cluster.run_channel("c")
    cluster.execute("INSERT INTO Units VALUES ('engine', 'north')")
    cluster.run_channel("c")
    cluster.post("ReportFeed", report("2"))
    cluster.run_channel("c")
    assert cluster.results_of("c", me) == [[{"id": "1", "unit": "engine"}], [{"id": "2", "unit": "engine"}]]


def test_channel_times_follow_each_other(cluster: ManualCluster) -> None:
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c() {HOURLY} {{ SELECT unix_micros(current_channel_time()) AS now, "
        "unix_micros(previous_channel_time()) AS before FROM Reports r WHERE is_new(r) }"
    )
    me = cluster.subscribed("c")
    for id in ("1", "2"):
        cluster.post("ReportFeed", report(id))
        cluster.run_channel("c")
    (first,), (second,) = cluster.results_of("c", me)
    assert first["before"] < first["now"] == second["before"] < second["now"]


def test_channel_time_never_goes_back_when_the_clock_does(
    cluster: ManualCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.execute(f"CREATE REPETITIVE CHANNEL c() {HOURLY} {{ SELECT r.id FROM Reports r WHERE is_new(r) }}")
    me = cluster.subscribed("c")
    cluster.post("ReportFeed", report("1"))
    cluster.run_channel("c")
    monkeypatch.setattr("tocsin.cluster.channels.runner.time.time", lambda: 1000.0)
    cluster.post("ReportFeed", report("2"))
    cluster.run_channel("c")
    monkeypatch.undo()
    first, second = (item["time"] for item in cluster.executions("c"))
    assert first < second
    assert cluster.results_of("c", me) == [[{"id": "1"}], [{"id": "2"}]]


def test_a_continuous_channel_delivers_every_record_once(cluster: ManualCluster) -> None:
    cluster.execute("CREATE CONTINUOUS CHANNEL c() { SELECT r.id FROM Reports r WHERE is_new(r) }")
    me = cluster.subscribed("c")
    expected = [str(number) for number in range(40)]
    for id in expected:
        cluster.post("ReportFeed", report(id))
    found = cluster.wait_results("c", me, len(expected))
    assert sorted(item["id"] for item in found) == sorted(expected)


def test_repetitive_channels_run_periodically(cluster: ManualCluster) -> None:
    cluster.execute(
        'CREATE REPETITIVE CHANNEL c() PERIOD duration("PT0.2S") { SELECT r.id FROM Reports r WHERE is_new(r) }'
    )
    me = cluster.subscribed("c")
    cluster.post("ReportFeed", report("1"))
    assert cluster.wait_results("c", me, 1) == [{"id": "1"}]


def test_a_confirmed_subscription_is_in_the_next_execution_and_an_ended_one_is_not(cluster: ManualCluster) -> None:
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} {{ SELECT r.id FROM Reports r "
        "WHERE is_new(r) AND r.kind = kind }"
    )
    early = cluster.subscribed("c", "fire")
    cluster.post("ReportFeed", report("1"), report("2", "flood"))
    late = cluster.subscribed("c", "flood")
    cluster.run_channel("c")
    cluster.unsubscribe("c", [early], "b").result(120)
    cluster.post("ReportFeed", report("3"), report("4", "flood"))
    cluster.run_channel("c")
    assert cluster.results_of("c", early) == [[{"id": "1"}]]
    assert cluster.results_of("c", late) == [[{"id": "2"}], [{"id": "4"}]]


@pytest.mark.parametrize("found", [True, False])
def test_begins_after_names_the_execution_that_a_subscription_missed(
    cluster: ManualCluster, monkeypatch: pytest.MonkeyPatch, found: bool
) -> None:
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} "
        "{ SELECT r.id FROM Reports r WHERE is_new(r) AND r.kind = kind }"
    )
    before = cluster.subscribed("c", "fire")
    cluster.post("ReportFeed", report("1", "fire" if found else "flood"), report("2", "flood"))
    meanwhile: list[dict[str, Any]] = []

    def subscribe(point: str) -> None:
        if point == "execution.queried":
            late = cluster.subscribed("c", "flood")
            meanwhile.extend(cluster.subscription("c", number) for number in (before, late))

    monkeypatch.setattr(kill_points, "hit", subscribe)
    run = cluster.run_channel("c")
    monkeypatch.undo()
    assert [each["begins_after"] for each in meanwhile] == [0, None]
    late = meanwhile[1]["subscription"]
    assert run.outcome == ("ok" if found else "empty")
    assert cluster.subscription("c", late) == {
        "subscription": late,
        "args": ["flood"],
        "brokers": ["b"],
        "begins_after": int(found),
    }
    assert cluster.results_of("c", late) == []
    cluster.post("ReportFeed", report("3", "flood"))
    cluster.run_channel("c")
    assert cluster.results_of("c", late) == [[{"id": "3"}]]


def test_a_failed_run_leaves_no_subscription_waiting(cluster: ManualCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.execute(f"CREATE REPETITIVE CHANNEL d(k string) {HOURLY} {{ SELECT r.id FROM Reports r WHERE r.kind = k }}")
    cluster.subscribed("d", "fire")
    cluster.post("ReportFeed", report("1"))
    late: list[int] = []

    def fail(point: str) -> None:
        if point == "execution.result_written":
            late.append(cluster.subscribed("d", "flood"))
            raise OSError("no space")

    monkeypatch.setattr(kill_points, "hit", fail)
    with pytest.raises(OSError, match="no space"):
        cluster.run_channel("d")
    monkeypatch.undo()
    assert cluster.subscription("d", late[0])["begins_after"] is None
    cluster.runner("d").resync()
    assert cluster.subscription("d", late[0])["begins_after"] == 0


def test_identical_subscriptions_of_two_brokers_are_one_and_both_are_notified(
    cluster: ManualCluster, listener: Listener
) -> None:
    other = Listener()
    cluster.register_broker("one", listener.url, matched=True)
    cluster.register_broker("two", other.url, matched=True)
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} {{ SELECT r.id FROM Reports r "
        "WHERE is_new(r) AND r.kind = kind }"
    )
    shared = cluster.subscribed("c", "fire", broker="one")
    assert cluster.subscribed("c", "fire", broker="two") == shared
    own = cluster.subscribed("c", "flood", broker="two")
    cluster.post("ReportFeed", report("1"), report("2", "flood"))
    run = cluster.run_channel("c")
    cluster.channel_manager.notifier.wake(run.brokers)
    (to_one,), (to_two,) = listener.wait(1), other.wait(1)
    assert (to_one["channel"], to_one["execution"], to_one["subscriptions"]) == ("c", 1, [shared])
    assert to_two["subscriptions"] == sorted([shared, own])
    pulled = [json.loads(line) for line in b"".join(cluster.pull("c", 1, "two")).splitlines()]
    assert pulled == [
        {"subscription": shared, "execution": 1, "count": 1, "results": [{"id": "1"}]},
        {"subscription": own, "execution": 1, "count": 1, "results": [{"id": "2"}]},
    ]
    other.close()


def test_a_push_channel_sends_the_results_along(cluster: ManualCluster, listener: Listener) -> None:
    cluster.register_broker("one", listener.url)
    cluster.execute("CREATE CONTINUOUS PUSH CHANNEL c() { SELECT r.id FROM Reports r WHERE is_new(r) }")
    me = cluster.subscribed("c", broker="one")
    cluster.post("ReportFeed", report("1"))
    (notification,) = listener.wait(1)
    assert notification["results"] == [{"subscription": me, "execution": 1, "count": 1, "results": [{"id": "1"}]}]


def test_a_failing_channel_is_marked_and_the_others_continue(tmp_path: Path, spark_runtime: SparkRuntime) -> None:
    with running_cluster(tmp_path / "home", spark_runtime, retries=2) as cluster:
        cluster.execute(REPORTS)
        cluster.execute(
            "CREATE CONTINUOUS CHANNEL bad() { SELECT cast(r.id AS int) AS n FROM Reports r WHERE is_new(r) };"
            "CREATE CONTINUOUS CHANNEL good() { SELECT r.id FROM Reports r WHERE is_new(r) };"
        )
        bad, good = cluster.subscribed("bad"), cluster.subscribed("good")
        cluster.post("ReportFeed", report("not a number"))
        assert cluster.wait_results("good", good, 1) == [{"id": "not a number"}]
        while cluster.channel("bad")["state"] != "failing":
            cluster.wait_execution("bad", 0, 0.05)
        assert "not a number" in cluster.channel("bad")["error"]
        ((state, error),) = cluster.rows("SELECT state, error FROM catalog.channels WHERE name = 'bad'")
        assert state == "failing" and "not a number" in error
        assert cluster.results_of("bad", bad) == []
        # When the cause is gone, the channel catches up and is marked as running.
        cluster.execute("DELETE FROM Reports WHERE id = 'not a number'")
        cluster.post("ReportFeed", report("7"))
        assert cluster.wait_results("bad", bad, 1) == [{"n": 7}]
        while cluster.channel("bad")["state"] != "running":
            cluster.wait_execution("bad", 1, 0.05)


def test_results_can_be_read_from_any_position_until_they_expire(cluster: ManualCluster) -> None:
    cluster.execute(
        f'CREATE REPETITIVE CHANNEL c() {HOURLY} RETENTION duration("PT1M") '
        "{ SELECT r.id FROM Reports r WHERE is_new(r) }"
    )
    me = cluster.subscribed("c")
    for id in ("1", "2", "3"):
        cluster.post("ReportFeed", report(id))
        cluster.run_channel("c")
    assert cluster.results_of("c", me, after=1) == [[{"id": "2"}], [{"id": "3"}]]
    second = cluster.executions("c")[1]["time"]
    assert cluster.maintenance.expire(second + 60.0) == 1
    assert cluster.results_of("c", me) == [[{"id": "2"}], [{"id": "3"}]]
    assert cluster.maintenance.expire(second + 3600.0) == 2
    with pytest.raises(NotFound, match="c/2"):
        list(cluster.results("c", me, after=1))
    cluster.post("ReportFeed", report("4"))
    cluster.run_channel("c")
    assert [item["execution"] for item in cluster.executions("c")] == [4]


def test_executors_write_results_that_exceed_the_driver(tmp_path: Path, spark_runtime: SparkRuntime) -> None:
    with running_cluster(tmp_path / "home", spark_runtime, collect_rows=2) as cluster:
        cluster.execute(REPORTS)
        cluster.execute(
            f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} {{ SELECT r.id FROM Reports r "
            "WHERE is_new(r) AND r.kind = kind ORDER BY r.id DESC }"
        )
        fire, flood = cluster.subscribed("c", "fire"), cluster.subscribed("c", "flood")
        for _ in range(2):
            cluster.post("ReportFeed", report("1"), report("2"), report("3", "flood"))
            run = cluster.run_channel("c")
            # A folder of part files, the first time too.
            assert run.execution is not None and not str(run.execution.path).endswith(".parquet")
        assert cluster.runner("c").large
        assert cluster.results_of("c", fire) == [[{"id": "2"}, {"id": "1"}]] * 2
        assert cluster.results_of("c", flood) == [[{"id": "3"}]] * 2


def test_a_channel_resumes_after_a_restart(tmp_path: Path, spark_runtime: SparkRuntime) -> None:
    with running_cluster(tmp_path / "home", spark_runtime) as cluster:
        cluster.execute(REPORTS)
        cluster.execute(f"CREATE REPETITIVE CHANNEL c() {HOURLY} {{ SELECT r.id FROM Reports r WHERE is_new(r) }}")
        me = cluster.subscribed("c")
        cluster.post("ReportFeed", report("1"))
        cluster.run_channel("c")
        cluster.post("ReportFeed", report("2"))
    with running_cluster(tmp_path / "home", spark_runtime) as cluster:
        cluster.post("ReportFeed", report("3"))
        cluster.run_channel("c")
        assert [sorted(item["id"] for item in group) for group in cluster.results_of("c", me)] == [["1"], ["2", "3"]]


def test_results_and_subscriptions_can_be_queried(cluster: ManualCluster) -> None:
    cluster.execute(
        f"CREATE REPETITIVE CHANNEL c(kind string) {HOURLY} {{ SELECT r.id, r.severity FROM Reports r "
        "WHERE is_new(r) AND r.kind = kind }"
    )
    me = cluster.subscribed("c", "fire")
    assert cluster.rows("SELECT * FROM cResults") == []
    cluster.post("ReportFeed", report("1", severity=3))
    cluster.run_channel("c")
    assert cluster.rows("SELECT subscription_id, kind, brokers FROM cSubscriptions") == [(me, "fire", ["b"])]
    assert cluster.rows("SELECT execution, subscription_id, result.id, result.severity + 1 FROM cResults") == [
        (1, me, "1", 4)
    ]


def test_an_execution_that_takes_too_long_is_cancelled_and_other_channels_go_on(
    tmp_path: Path, spark_runtime: SparkRuntime
) -> None:
    with running_cluster(tmp_path / "home", spark_runtime, execution_seconds=3.0) as cluster:
        cluster.execute(
            """
            CREATE ACTIVE DATASET Events (n bigint); CREATE BROKER b AT "http://127.0.0.1:9/";
            CREATE FEED f; CONNECT FEED f TO DATASET Events; START FEED f;
            CREATE CONTINUOUS CHANNEL Short() { SELECT e.n FROM Events e WHERE is_new(e) };
            CREATE CONTINUOUS CHANNEL Endless() {
              SELECT e.n FROM Events e, range(1000000000000000) t WHERE is_new(e) AND t.id * rand() < -e.n
            };
            """
        )
        me = cluster.subscribed("Short")
        cluster.subscribed("Endless")
        cluster.post("f", {"n": 1})
        eventually(lambda: cluster.channel("Endless")["state"] == "failing")
        assert cluster.channel("Endless")["error"] == "the execution took longer than 3 s and was cancelled"
        cluster.post("f", {"n": 2})
        assert cluster.wait_results("Short", me, 2) == [{"n": 1}, {"n": 2}]
        assert cluster.channel("Short")["state"] == "running"
        cluster.execute("DROP CHANNEL Endless")
