"""One browser and one network for all tests of the page; every test has a page of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent / "coordinator")]

from chromium import chromium
from page_network import Network, Viewed, network


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Let go with the last test of a file: while Playwright is there, no other test of this process can run a loop."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def watched_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with network(tmp_path_factory.mktemp("city")) as found:
        yield found


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """Servers of one test. They stop after its pages are closed: a page without its server reports an error."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def look(browser: Browser, servers: ExitStack) -> Iterator[Callable[..., Page]]:
    """Opens a page. The test fails if an error that it did not expect occurred in the page."""
    opened: list[Viewed] = []

    def make(url: str, **options: object) -> Page:
        opened.append(Viewed(browser, url, **options))
        return opened[-1].page

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def page(watched_network: Network, look: Callable[..., Page]) -> Page:
    found = look(watched_network.url)
    found.wait_for_selector("[data-broker] .state.up")
    return found
