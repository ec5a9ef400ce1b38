"""The reference of the demo names every route and every statistic of a run; its example runs."""

from __future__ import annotations

import re
from pathlib import Path

import pages
from pages import DOCS
from shell import SHOWN, SHOWN_BROKER, Shell

from tocsin.demo.city_api import CityApp
from tocsin.demo.statistics import Statistics
from tocsin.local import LocalApp

PAGE = DOCS / "reference" / "demo.md"


def test_every_statistic_is_described() -> None:
    facts = {*Statistics(1).summary(), "city_seconds", "channels"}
    table = PAGE.read_text().partition("## Statistics of a run")[2]
    assert {name for name in facts if f"`{name}`" not in table} == set()


def test_every_route_is_described() -> None:
    text = PAGE.read_text()
    for app in (object.__new__(LocalApp), object.__new__(CityApp)):
        for route in app.routes():
            method = next(iter(route.methods - {"HEAD"}))
            path = re.sub(r"\{number\}", "{n}", route.path)
            assert re.search(rf"\| `{method} {re.escape(path)}[`? ]", text), path


def test_the_example_runs(tmp_path: Path) -> None:
    (block,) = pages.blocks(PAGE)
    pages.check(PAGE, block, Shell(SHOWN, SHOWN_BROKER, tmp_path).run(PAGE, block))
