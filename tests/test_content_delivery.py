"""The benchmark of content delivery runs at a small size, with correct counts, without the peers."""

from __future__ import annotations

from collections import Counter

import pytest
from benchmarks import content_delivery
from benchmarks.content_delivery import Selective, Size
from benchmarks.content_servers import MARKER, SIZE, JetStream, JetStreamEach, Nats, condition, record
from benchmarks.fanout.__main__ import Effort
from benchmarks.fanout.golang import syncs_always

from tocsin.content import Advertisement, Condition

TINY = Size(3, 1, 3, 10, 4, Effort(1, 0.01), spark=False)


def test_every_publication_reaches_every_subscriber_and_is_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_delivery, "WARM", 1)
    monkeypatch.setattr(content_delivery, "LIVE", content_delivery.LIVE[:1])
    live, stored, selective = content_delivery.run(False, TINY, peers=False)
    assert [row[0] for row in live.rows] == ["Tocsin, live feed, one broker"]
    assert [row[0].rpartition(", ")[2] for row in stored.rows] == [
        "published at the data cluster",
        "published at the broker",
    ]
    assert all(0 < row[1] <= row[2] and row[3] == "–" for row in [*live.rows, *stored.rows])
    ((_, one, _, many, _),) = selective.rows
    assert one > 0 and many > 0


@pytest.mark.slow
def test_publications_pass_three_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(content_delivery, "LIVE", content_delivery.LIVE[1:])
    (row,) = content_delivery.live(TINY, []).rows
    assert row[0] == "Tocsin, live feed, three hops"


def test_ten_of_the_subscriptions_match_a_publication_each_of_another_connection() -> None:
    case = Selective.of(100, 1_000)
    assert case.topics == 10_000 and set(case.audience.values()) == {10}
    assert all(len(set(topics)) == 1_000 for topics in case.subscriptions)
    kinds = Advertisement.of_padres("[kind,isPresent,''],[severity,isPresent,0],[text,isPresent,'']").attributes
    conditions = Counter(
        Condition.parse(condition(topic, number + 1), kinds).to_sql()
        for number, topics in enumerate(case.subscriptions)
        for topic in topics[:2]
    )
    assert set(conditions.values()) == {1}


def test_ratios_are_those_to_the_reference() -> None:
    rows = [
        content_delivery.Row(name, None, lambda topics: None, times=times)  # type: ignore[arg-type]
        for name, times in ((Nats.name, [1.0, 2.0, 4.0]), ("Tocsin", [2.0, 3.0, 10.0]))
    ]
    table = content_delivery.latencies("Live", rows, TINY, Nats)
    assert [row[1:] for row in table.rows] == [(2.0, 4.0, "1.00×", "1.00×"), (3.0, 10.0, "1.50×", "2.50×")]


@pytest.mark.parametrize("topic", [0, 17, 9_999])
def test_a_record_has_its_size_and_one_marker(topic: int) -> None:
    assert len(record(topic)) == SIZE and record(topic).count(MARKER) == 1
    assert MARKER not in record(0, "probe")


def test_subscribers_of_a_stream_listen_where_its_consumers_deliver() -> None:
    for kind, subjects in ((JetStream, {"stored"}), (JetStreamEach, {"stored.0", "stored.1"})):
        server = kind(None)
        assert set(server.consumers(2)) == subjects
        sent = [server.opening(number, [0]).messages[0] for number in range(2)]
        assert {message.split(b"SUB ")[1].split()[0].decode() for message in sent} == subjects


@pytest.mark.parametrize(("version", "can"), [("2.9.10", False), ("2.10.0", True), ("2.15.2", True), ("3.0.0", True)])
def test_only_newer_servers_of_nats_sync_always(version: str, can: bool) -> None:
    assert syncs_always(version) is can
