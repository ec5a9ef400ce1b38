"""A live feed that the data cluster defines: its broker learns of it, delivers it, and ends it when it is dropped."""

from __future__ import annotations

from broker_lab import Speaker, broker

from eventually import eventually
from sparkless import sparkless


def test_a_broker_learns_of_the_feed_and_of_its_end(tmp_path):
    with sparkless(tmp_path / "data") as (cluster, url):
        cluster.execute("CREATE FEED Alarms (kind string NOT NULL, severity int) LIVE")
        with broker(tmp_path / "b", url, "b") as running:
            speaker = Speaker(running.url)

            def subscribed() -> bool:
                answer = speaker.ask("subscribe", channel="feed:Alarms", args=["severity >= 3"])
                return bool(answer["type"] == "subscribed")

            eventually(subscribed)
            records = [{"kind": "fire", "severity": 2}, {"severity": 5}, {"kind": "flood", "severity": 4}]
            answer = speaker.ask("publish", feed="alarms", records=records)
            assert answer["accepted"] == 2 and [each["index"] for each in answer["refused"]] == [1]
            found = speaker.next("notify")
            assert found["results"] == [{"kind": "flood", "severity": 4}] and found["publication"][::2] == ["b", 2]
            never = speaker.ask("subscribe", channel="feed:Alarms", args=["severity > 3 AND severity < 2"])
            assert "never true" in never["warnings"][0]
            cluster.execute("DROP FEED Alarms")
            assert speaker.next("ended")["subscription"] in (found["subscription"], never["subscription"])
            assert speaker.ask("publish", feed="Alarms", records=records)["code"] == "not_found"
