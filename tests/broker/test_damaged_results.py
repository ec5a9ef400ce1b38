"""One damaged result file is a gap for its subscribers; everything after it and all other channels go on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from broker_lab import Speaker, broker

from sparkless import Sparkless, sparkless

Damage = Callable[[Path], None]


class Network:
    """A data cluster, a broker process and a subscriber of it."""

    def __init__(self, cluster: Sparkless, url: str, broker: str) -> None:
        self.cluster, self.url, self.broker = cluster, url, broker

    def find(self, channel: str, value: int, damage: Damage | None = None) -> int:
        """An execution; ``damage`` happens to its result file before any broker is notified."""
        results = self.cluster.context.results
        write = results.write

        def damaged(*args: Any) -> Any:
            written = write(*args)
            if damage is not None:
                damage(Path(self.cluster.config.segment_root) / written.path)
            return written

        results.write = damaged  # type: ignore[method-assign]
        try:
            return self.cluster.found(channel, ([5], [{"n": value}]))
        finally:
            results.write = write  # type: ignore[method-assign]


def scribble(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2] + b"?" * (len(data) - len(data) // 2))


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with sparkless(tmp_path / "data") as (cluster, url), broker(tmp_path / "b", url) as running:
        yield Network(cluster, url, running.url)


def received(speaker: Speaker, count: int) -> list[tuple[str, int]]:
    found = []
    while len(found) < count:
        message = speaker.next()
        if message["type"] == "notify":
            found.append(("notify", message["execution"]))
        elif message["type"] == "gap":
            assert (message["after"], message["reason"]) == (message["next"] - 2, "damaged")
            found.append(("gap", message["next"] - 1))
    return found


@pytest.mark.parametrize("damage", [scribble, Path.unlink])
@pytest.mark.parametrize("channel", ["Above", "PushedAbove"])
def test_a_damaged_result_file_is_a_gap_and_later_notifications_arrive(
    network: Network, channel: str, damage: Damage, caplog: pytest.LogCaptureFixture
) -> None:
    speaker, other = Speaker(network.broker), Speaker(network.broker)
    id = speaker.ask("subscribe", channel=channel, args=[5])["subscription"]
    other.ask("subscribe", channel="OfKind", args=["fire"])
    with caplog.at_level(logging.ERROR):
        network.find(channel, 6)
        network.find(channel, 7, damage)
        network.find(channel, 8)
        network.cluster.found("OfKind", (["fire"], [{"n": 1}]))
        expected = [("notify", 1), ("gap", 2), ("notify", 3)]
        assert received(speaker, 3) == expected
    assert other.next("notify")["execution"] == 1

    late = Speaker(network.broker)
    late.ask("subscribe", channel=channel, args=[5], after=0, subscription=id)
    assert received(late, 3) == expected

    (line,) = httpx.get(f"{network.url}/brokers").json()["brokers"]
    (text,) = line["damaged"]
    assert f"{channel}/2" in text and line["last_error"] is None
    assert f'tocsin_results_damaged_total{{channel="{channel}"}} 1.0' in httpx.get(f"{network.url}/metrics").text
    assert [record.levelname for record in caplog.records if f"{channel}/2" in record.getMessage()] == ["ERROR"]
    for each in (speaker, other, late):
        each.close()


def test_an_expired_result_file_is_not_called_damaged(network: Network) -> None:
    speaker = Speaker(network.broker)
    speaker.ask("subscribe", channel="Above", args=[5])
    network.find("Above", 6)
    speaker.next("notify")
    network.cluster.maintenance.expire(now=1e12)
    late = Speaker(network.broker)
    late.ask("subscribe", channel="Above", args=[5], after=0)
    network.find("Above", 7)
    assert speaker.next("notify")["execution"] == 2
    assert network.cluster.context.damaged == {}
    speaker.close()
    late.close()
