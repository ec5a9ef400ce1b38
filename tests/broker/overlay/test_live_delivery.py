"""Live feeds over broker processes: publications reach what they match, once; losses are announced."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from broker_lab import Speaker
from overlay_lab import Overlay, overlay, roles

from tocsin.client import connect

ALARMS = "[kind,isPresent,''],[severity,isPresent,0]"
FEEDS = {"Alarms": ALARMS}


def tree(net: Overlay) -> None:
    """a – b – c: publishers belong at b, subscribers at a and c. Roles are pinned, so that clients stay."""
    net.start("a", live_feeds=FEEDS, role="both")
    net.start("b", "a", live_feeds=FEEDS, role="both")
    net.start("c", "b", live_feeds=FEEDS, role="both")
    net.until_known("a", "b", "c")


def subscribe(net: Overlay, name: str, where: str) -> Speaker:
    speaker = Speaker(net.brokers[name].url)
    answer = speaker.ask("subscribe", channel="feed:Alarms", args=[where])
    assert answer["type"] == "subscribed", answer
    return speaker


def publish(speaker: Speaker, *records: Any) -> dict[str, Any]:
    return speaker.ask("publish", feed="Alarms", records=list(records))


def reached(net: Overlay, publisher: Speaker, subscriber: Speaker) -> dict[str, Any]:
    """Publishes until the path is there; the publications of it are the only ones with severity 0."""
    while True:
        publish(publisher, {"kind": "probe", "severity": 0})
        try:
            return subscriber.next("notify", timeout=0.5)
        except TimeoutError:
            continue


def test_a_publication_goes_through_three_brokers_to_what_it_matches(tmp_path):
    with overlay(tmp_path) as net:
        tree(net)
        fires = subscribe(net, "c", "kind = 'probe' OR kind = 'fire' AND severity >= 3")
        near = subscribe(net, "a", "severity > 3")
        publisher = Speaker(net.brokers["a"].url)
        reached(net, publisher, fires)
        answer = publish(
            publisher,
            {"kind": "fire", "severity": 2},
            {"kind": "fire", "severity": 3},
            {"kind": "flood", "severity": 9},
            {"kind": "fire", "severity": "high"},
            {"kind": "fire", "severity": 4, "place": "here"},
            ["fire"],
            {"kind": "fire", "severity": 5},
        )
        assert answer["accepted"] == 4
        assert [(each["index"], each["code"]) for each in answer["refused"]] == [
            (3, "type_mismatch"),
            (4, "bad_request"),
            (5, "malformed"),
        ]
        found: list[dict[str, Any]] = []
        while len(found) < 2:
            found += [each for each in fires.next("notify")["results"] if each["severity"]]
        assert found == [{"kind": "fire", "severity": 3}, {"kind": "fire", "severity": 5}]
        assert [near.next("notify")["results"] for _ in range(2)] == [
            [{"kind": "flood", "severity": 9}],
            [{"kind": "fire", "severity": 5}],
        ]


@pytest.mark.slow
def test_a_broker_that_is_killed_is_a_gap_and_publications_flow_again(tmp_path):
    with overlay(tmp_path) as net:
        tree(net)
        subscriber = subscribe(net, "c", "TRUE")
        publisher = Speaker(net.brokers["a"].url)
        reached(net, publisher, subscriber)
        net.brokers["b"].kill()
        publish(publisher, {"kind": "fire", "severity": 1})
        net.brokers["b"].start()
        gap = subscriber.next("gap")
        assert gap["reason"] in ("restarted", "restored", "unreachable")
        while subscriber.next("gap")["reason"] != "restored":
            pass
        reached(net, publisher, subscriber)
        seen = [tuple(each["publication"]) for each in subscriber.waiting if each["type"] == "notify"]
        assert len(seen) == len(set(seen)) and seen == sorted(seen)


@pytest.mark.slow
def test_clients_migrate_when_the_third_broker_makes_roles(tmp_path):
    """With the SDK: a subscriber at the broker that becomes a head, and a publisher at one that becomes an edge."""
    with overlay(tmp_path) as net:
        net.start("a", live_feeds=FEEDS)
        net.start("b", "a", live_feeds=FEEDS)
        net.until_known("a", "b")
        asyncio.run(_migrates(net))


async def _migrates(net: Overlay) -> None:
    async with connect(net.brokers["b"].url) as subscriber, connect(net.brokers["a"].url) as publisher:
        alarms = subscriber.subscribe_feed("Alarms", "severity >= 0")
        await alarms.confirmed()
        found: list[int] = []

        async def read() -> None:
            async for notification in alarms:
                found.extend(result["severity"] for result in notification.results)

        reading = asyncio.create_task(read())
        await publisher.publish("Alarms", {"kind": "fire", "severity": 1})
        await asyncio.to_thread(net.start, "c", "b", live_feeds=FEEDS)
        number = 1
        while subscriber.status.broker == "b" or publisher.status.broker != "b" or not found or found[-1] != number:
            number += 1
            await publisher.publish("Alarms", {"kind": "fire", "severity": number})
            await asyncio.sleep(0.2)
        reading.cancel()
        assert roles(net.view("b")) == {"a": "edge", "b": "head", "c": "edge"}
        assert found == sorted(set(found))  # once, and in order


@pytest.mark.slow
def test_five_brokers_deliver_across_a_tree_in_order(tmp_path):
    """a – b – c, with d and e at c."""
    with overlay(tmp_path) as net:
        for name, *neighbours in (("a",), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "c")):
            net.start(name, *neighbours, live_feeds=FEEDS, role="both")
        net.until_known("a", "b", "c", "d", "e")
        readers = [subscribe(net, name, "kind = 'probe' OR severity > 0") for name in ("d", "e", "b")]
        publisher = Speaker(net.brokers["a"].url)
        for reader in readers:
            reached(net, publisher, reader)
        assert publish(publisher, *({"kind": "fire", "severity": n} for n in range(1, 201)))["accepted"] == 200
        for reader in readers:
            found: list[int] = []
            while len(found) < 200:
                found += [each["severity"] for each in reader.next("notify")["results"] if each["severity"]]
            assert found == list(range(1, 201))
