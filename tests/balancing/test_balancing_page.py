"""The code of the page about writing a strategy runs, prints the output shown, and works."""

from __future__ import annotations

import ast
import contextlib
import io
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from host_network import broker_network

from tocsin.balancing.brokers.strategies import make
from tocsin.balancing.catalogue import places
from tocsin.balancing.strategies import registry
from tocsin.broker.core.balancing.peer_balancer import check
from tocsin.config import BrokerConfig, CoordinatorConfig
from tocsin.coordinator.core.strategy_chain import guards, running

PAGE = (Path(__file__).resolve().parent.parent.parent / "docs" / "how-to" / "write-a-strategy.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def printed(monkeypatch) -> str:
    """What the code of the page prints; what it registers counts for this test."""
    monkeypatch.setattr(registry, "_registered", {})
    monkeypatch.setattr(places, "_registered", {place: {} for place in places.PLACES})
    names: dict[str, Any] = {}
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        for block in blocks("python"):
            exec(block, names)
    return out.getvalue()


def test_the_code_of_the_page_prints_the_output_shown(printed):
    assert printed == "".join(blocks("text"))


def test_a_detector_and_an_exchanger_take_less_than_ten_lines():
    classes = [node for block in blocks("python") for node in ast.parse(block).body if isinstance(node, ast.ClassDef)]
    lines = {each.name: [line for line in ast.unparse(each).splitlines() if line.strip()] for each in classes}
    assert len(lines["Median"]) < 10 and len(lines["Gossip"]) < 10


def test_brokers_balance_with_the_components_of_the_page(printed):
    often = {"balance_every": 5.0, "exchange_every": 2.0}
    swap = {"detector": {"use": "median", "k1": 1.05}, "exchanger": "gossip"}
    net = broker_network({f"b{i}": 2 + 4 * i for i in range(5)}, lambda: make("rao-one-to-one", often, swap))
    for _ in range(300):
        net.tick()
        net.run()
    loads = [model.measure("load") for model in net.models.values()]
    assert max(loads) <= 1.2 * sum(loads) / len(loads)


def test_the_configurations_of_the_page_are_accepted(printed):
    coordinator, broker, _ = (tomllib.loads(block) for block in blocks("toml"))
    check(msgspec.convert(broker, BrokerConfig))
    config = msgspec.convert(coordinator, CoordinatorConfig)
    assert str(running(config)["migrate_detector"]) == "cov (alpha 0.3)" and len(guards(config)) == 2
