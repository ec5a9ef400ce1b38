"""``tocsin bench`` against a real broker and a data cluster without Spark."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from brokers import Broker
from brokers import broker as broker_process
from served import Ran, tocsin
from sparkless import Sparkless, sparkless
from tocsin.cli.crowd import Crowd, moment
from tocsin.cli.spread import Spread
from tocsin.errors import UserError

RECORDS = [{"user": f"u{n}", "lat": n / 2, "lon": 1.5} for n in range(7)]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Sparkless, str]]:
    with sparkless(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def broker(cluster: tuple[Sparkless, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with broker_process(tmp_path_factory.mktemp("broker"), cluster[1]) as found:
        yield found


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "records.ndjson"
    path.write_text("".join(json.dumps(record) + "\n" for record in RECORDS))
    return str(path)


# -- sub ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def during(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], Any]], None]]:
    """Calls a function once all subscribers are connected, before any result of it can arrive."""
    threads: list[threading.Thread] = []
    count = Crowd.count

    def arrange(work: Callable[[], Any]) -> None:
        threads.append(threading.Thread(target=work))

        async def counting(crowd: Crowd, seconds: float, expected: int | None) -> None:
            threads[-1].start()
            await count(crowd, seconds, expected)

        monkeypatch.setattr(Crowd, "count", counting)

    yield arrange
    for thread in threads:
        thread.join()


def executions(cluster: Sparkless, count: int, row: Callable[[int], dict[str, Any]]) -> None:
    for number in range(count):
        cluster.found("OfKind", (["fire"], [row(number), row(number)]), (["flood"], [row(number)]))


def bench_sub(broker: Broker, *words: str) -> Ran:
    return tocsin("bench", "sub", "OfKind", "kind=fire", "--broker", broker.url, "--seconds", "60", *words)


def test_every_notification_of_every_subscriber_is_counted(cluster, broker, during):
    during(lambda: executions(cluster[0], 4, lambda number: {"n": number, "at": time.time()}))
    ran = bench_sub(broker, "--subscribers", "5", "--count", "4", "--time-column", "at", "--json")
    found = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert (found["channel"], found["subscribers"]) == ("OfKind", 5)
    assert (found["notifications"], found["results"], found["gaps"]) == (20, 40, 0)
    assert found["slowest"] == {"notifications": 4, "of": 4, "lag": 0}
    assert (found["lagging"], found["twice"], found["lost"]) == (0, 0, 0)
    assert found["bytes"] > 20 * 80
    assert 0 <= found["latency_ms"]["p50"] <= found["latency_ms"]["p99"] <= found["latency_ms"]["max"]


def test_the_figures_are_printed_in_lines(cluster, broker, during):
    during(lambda: executions(cluster[0], 2, lambda number: {"n": number}))
    lines = bench_sub(broker, "--subscribers", "3", "--count", "2").stdout.decode().splitlines()
    assert lines[0].startswith("3 subscribers of OfKind, ")
    assert [line.split()[0] for line in lines[1:]] == ["notifications", "bytes", "slowest", "gaps"]
    assert lines[1].split()[1] == "6," and "2 of 2 notifications, lag 0 executions" in lines[3]


def test_the_benchmark_ends_after_its_duration(broker):
    found = json.loads(bench_sub(broker, "--subscribers", "2", "--seconds", "0.1", "--json").stdout)
    assert (found["notifications"], found["results"], found["latency_ms"]) == (0, 0, None)


def test_notifications_before_all_subscribers_are_connected_are_not_counted(cluster, broker, monkeypatch):
    gather, notified = Crowd.gather, Crowd._notified
    arrived = asyncio.Semaphore(0)

    def noticed(crowd: Crowd, *what: Any) -> None:
        notified(crowd, *what)
        arrived.release()

    async def gathering(crowd: Crowd, count: int) -> None:
        await gather(crowd, count)
        executions(cluster[0], 1, lambda number: {"n": number})
        for _ in range(count):
            await arrived.acquire()

    monkeypatch.setattr(Crowd, "_notified", noticed)
    monkeypatch.setattr(Crowd, "gather", gathering)
    found = json.loads(bench_sub(broker, "--subscribers", "2", "--seconds", "0.1", "--json").stdout)
    assert found["notifications"] == 0


def test_subscribers_of_a_dead_broker_are_counted_as_lost(cluster, tmp_path, during):
    with broker_process(tmp_path / "mortal", cluster[1], "mortal") as mortal:
        during(mortal.kill)
        found = json.loads(bench_sub(mortal, "--subscribers", "3", "--json").stdout)
        assert (found["lost"], found["notifications"]) == (3, 0)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["Nothing"], 1, "Nothing"),
        (["OfKind"], 1, "kind"),
        (["OfKind", "kind:=[1]"], 1, "kind"),
        (["OfKind", "fire"], 2, "not name=value"),
        (["OfKind", "kind=fire", "--subscribers", "0"], 2, "--subscribers"),
        (["OfKind", "kind=fire", "--subscribers", "100000000"], 1, "files"),
        (["OfKind", "kind=fire", "--seconds", "0"], 2, "--seconds"),
        (["OfKind", "kind=fire", "--count", "0"], 2, "--count"),
        ([], 2, "Missing"),
    ],
)
def test_wrong_arguments_are_reported(broker, words, code, said):
    ran = tocsin("bench", "sub", *words, "--broker", broker.url)
    assert (ran.returncode, ran.stdout) == (code, b"")
    assert ran.stderr.startswith(b"error: ") and said in ran.stderr.decode()


@pytest.mark.parametrize(("row", "said"), [({"n": 1}, "they have: n"), ({"n": 1, "at": "noon"}, "not a time")])
def test_a_column_without_times_is_reported(cluster, broker, during, row, said):
    during(lambda: executions(cluster[0], 1, lambda number: row))
    ran = bench_sub(broker, "--subscribers", "2", "--time-column", "at")
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert said in ran.stderr.decode()


@pytest.mark.parametrize("words", [["sub", "OfKind"], ["pub", "F"]])
def test_an_unreachable_broker_is_reported(words):
    ran = tocsin("bench", *words, "--broker", "http://127.0.0.1:1", data=b"{}")
    error, hint = ran.stderr.decode().splitlines()
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert error.startswith("error: no broker answers at http://127.0.0.1:1") and "tocsin broker" in hint


def test_a_server_that_is_not_a_broker_is_reported(cluster):
    ran = tocsin("bench", "sub", "OfKind", "--broker", cluster[1])
    assert ran.returncode == 1 and b"does not answer like a broker" in ran.stderr


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (12, 12.0),
        (1_800_000_000.25, 1_800_000_000.25),
        (1_800_000_000_250, 1_800_000_000.25),
        ("2027-01-15T08:00:00Z", 1_800_000_000.0),
        ("2027-01-15 08:00:00", 1_800_000_000.0),
        ("2027-01-15T09:00:00.5+01:00", 1_800_000_000.5),
    ],
)
def test_a_time_has_several_notations(value, seconds):
    assert moment({"at": value}, "at") == seconds


@pytest.mark.parametrize("value", [None, True, "", "soon", [1], {}])
def test_a_value_that_is_not_a_time_is_refused(value):
    with pytest.raises(UserError):
        moment({"at": value}, "at")


# -- pub ---------------------------------------------------------------------------------------------------------------


def where(way: str, cluster: tuple[Sparkless, str], broker: Broker) -> list[str]:
    return ["--cluster", cluster[1]] if way == "cluster" else ["--broker", broker.url]


@pytest.mark.parametrize("way", ["cluster", "broker"])
def test_the_records_of_the_file_are_published_in_rotation(cluster, broker, file, way, monkeypatch):
    taken: list[Any] = []
    monkeypatch.setattr(cluster[0], "posted", lambda feed, records: taken.extend(records), raising=False)
    words = ["--clients", "3", "--batch", "4", "--count", "50", "--seconds", "60", "--json"]
    ran = tocsin("bench", "pub", "LocationFeed", file, *where(way, cluster, broker), *words)
    found = json.loads(ran.stdout)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert (found["accepted"], found["refused"], found["posts"], found["clients"]) == (50, 0, 13, 3)
    assert 0 < found["receipt_ms"]["p50"] <= found["receipt_ms"]["p99"] <= found["receipt_ms"]["max"]
    counts = [taken.count(record) for record in RECORDS]
    assert counts == [8, 7, 7, 7, 7, 7, 7] and len(taken) == 50
    assert found["bytes"] == sum(len(json.dumps(record)) * times for record, times in zip(RECORDS, counts, strict=True))


@pytest.mark.parametrize("way", ["cluster", "broker"])
def test_refused_records_are_counted_and_lead_to_exit_code_1(cluster, broker, way):
    data = b'[{"user": "a"},\n {"lat":\n 1}]'
    words = ["--clients", "1", "--count", "10", "--batch", "5"]
    ran = tocsin("bench", "pub", "LocationFeed", *where(way, cluster, broker), *words, data=data)
    lines = ran.stdout.decode().splitlines()
    assert ran.returncode == 1 and lines[0].startswith("1 publishers to LocationFeed, ")
    assert [line.split()[:2] for line in lines[1:] if not line.startswith(("bytes", "receipts"))] == [
        ["records", "5,"],
        ["refused", "5"],
    ]


@pytest.mark.parametrize("way", ["cluster", "broker"])
def test_an_unknown_feed_is_reported(cluster, broker, file, way):
    ran = tocsin("bench", "pub", "Nowhere", file, *where(way, cluster, broker))
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert ran.stderr.startswith(b"error: ") and b"Nowhere" in ran.stderr and b"Traceback" not in ran.stderr


def test_an_unreachable_data_cluster_is_reported(file):
    ran = tocsin("bench", "pub", "F", file, "--cluster", "http://127.0.0.1:1")
    assert ran.returncode == 1 and ran.stderr.startswith(b"error: no server answers at http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "there are no records"),
        (b"\n\n", "there are no records"),
        (b"[]", "there are no records"),
        (b'{"user": "a"}\nnonsense\n', "record 2 is not JSON"),
        (b'[{"user": "a"},', "in the middle"),
        (b'{"user": "a"}\n{"user": "\xff"}\n', "record 2 is not JSON"),
        (gzip.compress(b'{"user": "a"}\n')[:-5], "truncated"),
    ],
)
def test_a_broken_file_is_reported_before_anything_is_sent(data, said):
    ran = tocsin("bench", "pub", "LocationFeed", "--cluster", "http://127.0.0.1:1", data=data)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert said in ran.stderr.decode()


def test_a_missing_file_is_reported():
    ran = tocsin("bench", "pub", "F", "nothing.ndjson")
    assert ran.returncode == 1 and b"cannot read nothing.ndjson" in ran.stderr


@pytest.mark.parametrize("words", [["--clients", "0"], ["--batch", "0"], ["--seconds", "-1"], ["--count", "0"]])
def test_a_wrong_number_leads_to_exit_code_2(words):
    assert tocsin("bench", "pub", "F", *words).returncode == 2


# -- the rest ----------------------------------------------------------------------------------------------------------


def test_percentiles_are_correct_within_two_per_cent():
    spread = Spread()
    for number in range(1, 1_001):
        spread.add(number / 1e3)
    assert spread.percentile(50) == pytest.approx(0.5, rel=0.02)
    assert spread.percentile(99) == pytest.approx(0.99, rel=0.02)
    assert (spread.percentile(100), spread.least, spread.greatest) == (1.0, 0.001, 1.0)


def test_a_negative_latency_is_counted():
    spread = Spread()
    spread.add(-0.25)  # the clock of the publisher is ahead
    assert spread.milliseconds() == {"p50": -250.0, "p99": -250.0, "max": -250.0}


@pytest.mark.parametrize("part", ["sub", "pub"])
def test_the_help_has_an_example(part):
    ran = tocsin("bench", part, "--help")
    assert ran.returncode == 0 and f"tocsin bench {part}" in ran.stdout.decode().partition("Example:")[2]
