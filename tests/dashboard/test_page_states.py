"""The page of an empty network, without a coordinator, and with an admin token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from coordinator_lab import Coordinator, coordinator
from page_network import FAST, Network, shoot, text, until
from playwright.sync_api import Page

from brokers import broker
from tocsin.client import connect

TOKEN = "sesame"
#: What Chromium itself writes when a request is refused, and when no server answers it.
REFUSED = ("Failed to load resource: the server responded with a status of 40",)
UNREACHABLE = ("net::ERR_",)


@pytest.fixture(scope="module")
def empty_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Coordinator]:
    """A coordinator with an admin token, without brokers, data cluster and city."""
    with coordinator(tmp_path_factory.mktemp("empty_network"), admin_token=TOKEN) as running:
        yield running


def test_an_empty_network_shows_how_to_start_a_broker(
    open_page: Callable[..., Page], empty_network: Coordinator
) -> None:
    page = open_page(f"{empty_network.url}/ui/", expected=REFUSED)
    page.get_by_text("No broker has registered yet.").wait_for()
    assert f"tocsin broker --coordinator {empty_network.url}" in text(page, "#brokers-empty")
    page.get_by_text("tocsin coordinator --cluster ADDRESS").wait_for()
    assert "Nothing has happened yet." in text(page, "#log")
    for part in ("#city", "#latency", "#add", "#phone"):
        assert page.locator(part).is_hidden()
    shoot(page, "empty")


def test_without_a_city_the_other_panels_use_its_space(
    open_page: Callable[..., Page], empty_network: Coordinator
) -> None:
    for width in (1440, 1024, 390):
        page = open_page(f"{empty_network.url}/ui/", expected=REFUSED, viewport={"width": width, "height": 900})
        page.get_by_text("No broker has registered yet.").wait_for()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        for part in ("#brokers", "#balance", "#log", "#channels"):
            box = page.locator(part).bounding_box()
            assert box is not None and box["height"] > 200 and box["width"] > min(width * 0.4, 300)


def test_a_network_without_a_city_can_be_operated_on_the_page(
    open_page: Callable[..., Page], shared_network: Network, servers: ExitStack, tmp_path: Path
) -> None:
    cluster = shared_network.city.cluster_url
    running = servers.enter_context(coordinator(tmp_path / "coordinator", cluster=cluster, **FAST))
    servers.enter_context(broker(tmp_path / "west", cluster, "west", "--coordinator", running.url, heartbeat=2))
    page = open_page(f"{running.url}/ui/")
    west = page.locator("[data-broker=west]")
    west.locator(".state.up").wait_for()
    page.wait_for_selector("[data-channel=OfKind]")
    client = connect(coordinator=running.url)
    shared_network.do(client.open())
    west.get_by_text("1 subscriber", exact=True).wait_for()
    page.locator("#log-list li.placed", has_text="to west").wait_for()
    assert west.get_by_role("button").all_inner_texts() == ["west", "Drain"], (
        "the page cannot kill a process that it did not start"
    )
    for part in ("#city", "#latency", "#add", "#phone"):
        assert page.locator(part).is_hidden()
    shoot(page, "network")
    west.get_by_role("button", name="Drain").click()
    west.locator(".state.draining").wait_for()
    shared_network.do(client.close())


def test_the_page_asks_again_for_a_wrong_token(open_page: Callable[..., Page], empty_network: Coordinator) -> None:
    page = open_page(f"{empty_network.url}/ui/", expected=REFUSED)
    page.get_by_text("No broker has registered yet.").wait_for()
    page.locator("#balancing-open").click()
    page.get_by_label("Placement").select_option("random")
    page.get_by_role("button", name="Apply").click()
    dialog = page.get_by_role("dialog", name="Admin token")
    dialog.get_by_label("Token").fill("guessed")
    dialog.get_by_role("button", name="Go on").click()
    page.get_by_text("That is not the token.").wait_for()
    shoot(page, "token")
    dialog.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    until(page, "() => document.getElementById('balancing-now').textContent.endsWith('random')")
    assert httpx.get(f"{empty_network.url}/placement", timeout=60).json()["placement"] == "random"


def test_beyond_loopback_the_page_asks_for_the_token_before_it_shows_the_network(
    open_page: Callable[..., Page], servers: ExitStack, tmp_path: Path
) -> None:
    settings = {"admin_token": TOKEN, "host": "0.0.0.0", "join_secret": "s"}
    running = servers.enter_context(coordinator(tmp_path, **settings))
    url = f"http://127.0.0.1:{running.port}/ui/"
    page = open_page(url, expected=REFUSED)
    page.get_by_role("dialog", name="Admin token").get_by_role("button", name="Cancel").click()
    page.get_by_text("The network is shown to operators only.").wait_for()
    page = open_page(url, expected=REFUSED)
    page.get_by_role("dialog", name="Admin token").get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.get_by_text("No broker has registered yet.").wait_for()


def test_an_action_without_the_token_shows_an_error(open_page: Callable[..., Page], empty_network: Coordinator) -> None:
    page = open_page(f"{empty_network.url}/ui/", expected=REFUSED)
    page.get_by_text("No broker has registered yet.").wait_for()
    page.locator("#balancing-open").click()
    page.get_by_label("Strategy").select_option("gsh")
    page.get_by_role("button", name="Apply").click()
    page.get_by_role("dialog", name="Admin token").get_by_role("button", name="Cancel").click()
    page.locator(".toast.wrong", has_text="admin token").wait_for()


def test_a_banner_shows_that_the_coordinator_is_unreachable_until_it_returns(
    open_page: Callable[..., Page], servers: ExitStack, tmp_path: Path
) -> None:
    running = servers.enter_context(coordinator(tmp_path))
    httpx.put(f"{running.url}/placement", json={"placement": "nearest"}, timeout=60)
    page = open_page(f"{running.url}/ui/", expected=REFUSED + UNREACHABLE)
    page.locator("#log-list li.placement").wait_for()
    running.end()
    banner = page.locator("#banner[role=alert]")
    banner.wait_for()
    assert "has not answered since" in banner.inner_text() and "continue without it" in banner.inner_text()
    page.locator("#balancing-open").click()
    page.locator(".toast.wrong", has_text="does not answer").wait_for()
    shoot(page, "away")
    running.start()
    banner.wait_for(state="hidden")
    page.locator("#log-list li.placement").wait_for()
    assert page.locator("#log-list li.placement").count() == 1, "old entries are shown once"
    httpx.put(f"{running.url}/placement", json={"placement": "random"}, timeout=60)
    page.locator("#log-list li.placement", has_text="random").wait_for()


def test_every_control_has_a_name_and_can_be_reached_by_keyboard(page: Page, shared_network: Network) -> None:
    nameless = """() => [...document.querySelectorAll("button, input, select, canvas[tabindex], [role=img]")].filter(
      each => each.checkVisibility() && !each.ariaLabel && !each.labels?.length && !each.textContent.trim()
    ).map(each => each.outerHTML)"""
    assert page.evaluate(nameless) == []
    assert page.locator("h1").count() == 1 and page.locator("main").count() == 1
    assert page.evaluate("() => document.documentElement.lang") == "en"
    assert page.locator("[tabindex]:not([tabindex='0']):not([tabindex='-1'])").count() == 0
    expected = page.evaluate("""() => [...document.querySelectorAll("button, input, select, [tabindex='0']")]
      .filter(each => each.checkVisibility() && !each.disabled && !each.closest("dialog")).length""")
    page.evaluate("() => document.activeElement.blur()")
    seen: list[str] = []
    for _ in range(expected + 4):
        page.keyboard.press("Tab")
        found = page.evaluate("""() => {
          const at = document.activeElement;
          const { outlineStyle, outlineWidth } = getComputedStyle(at);
          globalThis.order ??= [];
          if (at !== document.body && !globalThis.order.includes(at)) globalThis.order.push(at);
          return [at.tagName, at.id || at.textContent.trim(), outlineStyle, outlineWidth];
        }""")
        if found[0] != "BODY":
            seen.append(found[1])
            assert found[2] != "none" and found[3] != "0px", f"{found[1]} has no visible focus"
    assert page.evaluate("() => globalThis.order.length") >= expected
    assert seen[0] == "Skip to the brokers"
    # In reading order.
    ordered = """() => globalThis.order.every((each, index, all) =>
      !index || all[index - 1].compareDocumentPosition(each) & Node.DOCUMENT_POSITION_FOLLOWING)"""
    assert page.evaluate(ordered)


def test_every_figure_is_explained(page: Page) -> None:
    page.get_by_role("button", name="What the figures mean").click()
    explanation = page.get_by_role("dialog", name="What the figures mean").inner_text().casefold()
    shown = page.locator("#figures dt").all_inner_texts() + page.locator(".broker-facts span").all_inner_texts()
    words = {word for each in shown for word in each.split() if word.isalpha()} - {"up", "brokers"}
    words |= {word for each in page.locator("#channels th").all_inner_texts() for word in each.split()}
    words -= {"channel", "last", "took"}
    assert words and [word for word in sorted(words) if word.casefold() not in explanation] == []
    shoot(page, "words")
    page.keyboard.press("Escape")
    assert page.evaluate("() => document.activeElement.id") == "words-open"


def test_controls_are_large_enough_for_fingers(open_page: Callable[..., Page], shared_network: Network) -> None:
    page = open_page(shared_network.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page.wait_for_selector("[data-broker] .state.up")
    small = """() => [...document.querySelectorAll("button, select, input")].filter(each => {
      const { width, height } = each.getBoundingClientRect();
      return each.checkVisibility() && (height < 30 || width < 30);
    }).map(each => each.outerHTML)"""
    assert page.evaluate(small) == []
    high = page.locator("header").bounding_box()
    page.evaluate("() => document.getElementById('balancing-now').append(' and a very long name')")
    assert page.locator("header").bounding_box() == high, "a longer strategy does not push the page down"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(open_page: Callable[..., Page], empty_network: Coordinator, scheme: str) -> None:
    page = open_page(f"{empty_network.url}/ui/", expected=REFUSED, color_scheme=scheme)
    script = """pairs => {
      const probe = document.body.appendChild(document.createElement("i"));
      const light = name => {
        probe.style.color = `var(--${name})`;
        const parts = getComputedStyle(probe).color.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
          .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
      };
      return pairs.map(([a, b]) => {
        const [high, low] = [light(a), light(b)].sort((x, y) => y - x);
        return (high + 0.05) / (low + 0.05);
      });
    }"""
    pairs = [[name, ground] for name in ("ink", "muted") for ground in ("panel", "paper", "raised")]
    pairs += [["bronze", "panel"], ["alarm", "panel"], ["alarm", "alarm-soft"], ["good", "good-soft"]]
    pairs += [["warn", "warn-soft"], ["muted", "bronze-soft"], ["focus", "panel"]]
    found = page.evaluate(script, pairs)
    assert [each for each in zip(pairs, found, strict=True) if each[1] < 4.5] == []
