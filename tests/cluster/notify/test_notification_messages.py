"""The content of notifications, and how often results are read for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkless import Sparkless, sparkless
from tocsin.cluster.model import Broker

NOWHERE = "http://127.0.0.1:9/notify"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Sparkless]:
    with sparkless(tmp_path / "data") as (running, _):
        yield running


@pytest.fixture
def reads(cluster: Sparkless, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths of the result files that were read."""
    found: list[str] = []
    segments = cluster.context.segments
    read = segments.read

    def spy(path: str, *more: Any, **options: Any) -> Any:
        found.append(path)
        return read(path, *more, **options)

    monkeypatch.setattr(segments, "read", spy)
    return found


def notification(cluster: Sparkless, broker: str) -> dict[str, Any]:
    definition = cluster.context.definitions.get(Broker, broker)
    (entry,) = cluster.context.catalog.outbox(definition.id)
    found: dict[str, Any] = json.loads(cluster.channel_manager.message(definition, entry) or b"null")
    return found


def subscribed(cluster: Sparkless, channel: str, **brokers: bool) -> int:
    for name, matched in brokers.items():
        cluster.register_broker(name, NOWHERE, matched)
        (id,) = cluster.subscribe(channel, name, [[5]]).result()
    return id


def test_a_notification_lists_subscriptions_only_for_brokers_that_ask(cluster, reads):
    id = subscribed(cluster, "Above", plain=False, asking=True)
    cluster.found("Above", ([5], [{"n": 7}]))
    assert "subscriptions" not in notification(cluster, "plain") and reads == []
    assert notification(cluster, "asking")["subscriptions"] == [id]


@pytest.mark.parametrize("channel", ["Above", "PushedAbove"])
def test_results_are_read_once_for_all_brokers(cluster, reads, channel):
    subscribed(cluster, channel, a=True, b=True, c=True)
    cluster.found(channel, ([5], [{"n": 7}]))
    found = [notification(cluster, name) for name in "abc"]
    assert len(reads) == 1
    if channel == "PushedAbove":
        assert [each["results"][0]["results"] for each in found] == [[{"n": 7}]] * 3


def test_a_large_push_execution_is_sent_whole(cluster, monkeypatch):
    monkeypatch.setattr("tocsin.cluster.storage.results.RECENT_BYTES", 10)
    id = subscribed(cluster, "PushedAbove", a=False)
    cluster.found("PushedAbove", ([5], [{"n": 7}]))
    message = notification(cluster, "a")
    assert [(each["subscription"], each["results"]) for each in message["results"]] == [(id, [{"n": 7}])]
    assert "subscriptions" not in message


def test_a_broker_may_stop_asking_for_subscriptions(cluster):
    subscribed(cluster, "Above", a=True)
    cluster.register_broker("a", NOWHERE)
    cluster.found("Above", ([5], [{"n": 7}]))
    assert "subscriptions" not in notification(cluster, "a")
