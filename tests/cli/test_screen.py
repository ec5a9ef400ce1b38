"""The demo's output on terminals of several widths."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from tocsin.cli.screen import channels_table, overview, sentence, size, summary_lines
from tocsin.demo.city import City
from tocsin.demo.options import CityOptions
from tocsin.demo.statistics import Statistics

CHANNEL = "EmergenciesOfTypeAtLocationWithShelter"


def notification(**more: Any) -> dict[str, Any]:
    row = {"kind": "fire", "location": "Weavers' Row", "severity": 4, "metres": 1744.0}
    shelter = {"name": "Orchard Park Community Centre 172", "metres": 812.0}
    return {
        "person": 3,
        "at": 1.0,
        "channel": CHANNEL,
        "rows": [row | {"shelters": [shelter, shelter, shelter]}, row],
        "latency_ms": 1234.5,
        **more,
    }


@pytest.fixture(scope="module")
def loop() -> Any:
    brokers = [
        {"name": f"broker-{n}", "state": "up", "subscribers": 99_999, "load_in": 123e6, "load_out": 9e9, "capacity": 1}
        for n in (1, 2)
    ]
    return SimpleNamespace(
        options=CityOptions(),
        city=City(3, 400),
        now=61.0,
        connected=400,
        newest={CHANNEL: notification()},
        topology={"brokers": brokers, "cov": 0.123, "maximum": 1.0},
        supervisor=SimpleNamespace(brokers=["broker-1", "broker-2", "broker-3"], killed={"broker-2"}),
        statistics=Statistics(400),
        latency={"count": 7, "p50_ms": 1500.0, "p99_ms": 4500.0},
    )


def drawn(thing: Any, width: int = 80) -> str:
    console = Console(width=width, highlight=False, force_terminal=False)
    with console.capture() as captured:
        console.print(thing)
    return captured.get()


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_overview_shortens_nothing(loop: Any, width: int) -> None:
    text = drawn(overview(loop, "http://127.0.0.1:8483/ui/", width), width)
    assert "…" not in text and all(len(line) <= width for line in text.splitlines())
    flat = " ".join(text.split())
    for words in (
        CHANNEL,
        "killed",
        "starting",
        "http://127.0.0.1:8483/ui/",
        "Orchard Park Community Centre 172 812 m",
    ):
        assert words in flat
    assert "cov 0.123" in flat and "latency 1.5 s, 99% within 4.5 s" in flat


def test_a_notification_reads_like_a_sentence(loop: Any) -> None:
    text = drawn(sentence(loop, notification()), 200)
    assert "Dina Marsh: Fire in Weavers' Row, level 4 of 5, 1744 m away (and 1 more)" in text
    assert f"{CHANNEL}, 1.2 s after the report" in text and "→ Orchard Park" in text


def test_markup_in_a_report_is_shown_as_text(loop: Any) -> None:
    odd = notification(rows=[{"kind": "[red]fire", "location": "[/]", "severity": 1, "metres": None}], latency_ms=None)
    assert "[red]fire in [/], level 1 of 5" in drawn(sentence(loop, odd), 200)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2.5e6, "2.5 MB"), (3e9, "3.0 GB")]
)
def test_sizes_are_short(number: float, text: str) -> None:
    assert size(number) == text


def test_the_summary_of_a_run_without_notifications() -> None:
    facts = Statistics(3).summary() | {"city_seconds": 60.0, "channels": []}
    assert "reached 0 of 0 people, the first after –" in summary_lines(facts)[0]
    assert len(summary_lines(facts)) == 2


def test_the_table_of_channels_has_whole_names_in_80_columns() -> None:
    row = {"channel": CHANNEL, "period": 30.0, "executions": 1234, "results": 1_234_567, "mean_ms": 12345.6}
    facts = {"channels": [row | {"state": "failing"}, row | {"mean_ms": None, "state": "running"}]}
    text = drawn(channels_table(facts))
    assert text.count(CHANNEL) == 2 and "1,234,567" in text and "failing" in text and "…" not in text
