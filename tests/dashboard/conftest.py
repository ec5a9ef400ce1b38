"""One browser and one network for all tests of the page; every test has its own page."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent.parent / "coordinator")]

from chromium import chromium
from page_network import CheckedPage, Network, network


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Closed after the last test of a file: while Playwright runs, no other test can run an event loop."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def shared_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with network(tmp_path_factory.mktemp("city")) as found:
        yield found


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    """Servers of one test. They stop after its pages are closed: a page without its server reports an error."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def open_page(browser: Browser, servers: ExitStack) -> Iterator[Callable[..., Page]]:
    """Opens a page. The test fails if an error that it did not expect occurred in the page."""
    opened: list[CheckedPage] = []

    def make(url: str, **options: object) -> Page:
        opened.append(CheckedPage(browser, url, **options))
        return opened[-1].page

    yield make
    for each in opened:
        each.close()


@pytest.fixture
def page(shared_network: Network, open_page: Callable[..., Page]) -> Page:
    found = open_page(shared_network.url)
    found.wait_for_selector("[data-broker] .state.up")
    return found
