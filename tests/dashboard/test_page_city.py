"""The page of a real city: ``tocsin demo`` with Spark. Takes minutes."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import ExitStack

import pytest
from page_network import shoot, text
from picture import city, prepare
from playwright.sync_api import Page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_the_page_shows_the_city_and_raises_a_flood(open_page: Callable[..., Page], servers: ExitStack) -> None:
    page = open_page(servers.enter_context(city()))
    prepare(page)
    assert text(page, "#place") == "Tocsin Bay" and page.locator("[data-broker] .state.up").count() == 5
    assert page.locator("[data-channel]").count() == 7
    _, period, took, results, subscriptions = page.locator("[data-channel=EmergenciesOfType] td").all_inner_texts()
    assert period == "2 s" and re.search(r"\d m?s$", took) and results[0].isdigit() and subscriptions[0].isdigit()
    page.get_by_role("button", name="Raise a flood").click()
    page.locator(".toast", has_text="A flood in").wait_for()
    page.locator("#emergencies button", has_text="Flood").first.wait_for()
    shoot(page, "city")
