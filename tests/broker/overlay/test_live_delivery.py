"""Live feeds over broker processes: publications reach what they match, once; losses are announced."""

from __future__ import annotations

from typing import Any

from broker_lab import Speaker
from overlay_lab import Overlay, overlay

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
