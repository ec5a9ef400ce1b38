"""The page in a real browser: its live content and its appearance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from page_network import Network, repeat, shoot, text, until
from playwright.sync_api import Page, Route
from small_city import spot

from seeds import few

PEOPLE = 24

#: Pixels of a canvas that are not empty.
PAINTED = """id => {
  const { width, height } = document.getElementById(id);
  const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  copy.drawImage(document.getElementById(id), 0, 0);
  const data = copy.getImageData(0, 0, width, height).data;
  let painted = 0;
  for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
  return painted;
}"""


#: Visible text with a contrast below WCAG's AA, with its contrast.
FAINT = """() => {
  const parts = colour => {
    const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number);
    return colour.startsWith("color(") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
  const ground = node => {
    const colour = node ? parts(getComputedStyle(node).backgroundColor) : [255, 255, 255, 1];
    return colour[3] === 1 ? colour : over(colour, ground(node.parentElement));
  };
  const light = colour => {
    const [r, g, b] = colour.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = {};
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode.parentElement;
    const said = texts.currentNode.textContent.trim();
    if (!said || !node.checkVisibility() || node.closest(":disabled, noscript")) continue;
    const { color, fill } = getComputedStyle(node);
    const below = ground(node);
    const top = over(parts(node instanceof SVGElement ? fill : color), below);
    const [high, low] = [top, below].map(light).sort((a, b) => b - a);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) found[said] = contrast;
  }
  return found;
}"""


def test_the_page_shows_brokers_people_channels_and_the_log(page: Page, shared_network: Network) -> None:
    until(page, "() => document.getElementById('figure-subscribers').textContent === '24'")
    up = shared_network.city.up
    assert page.locator("[data-broker] .state.up").count() == len(up)
    people = page.locator("[data-broker] .broker-people strong").all_inner_texts()
    assert sum(map(int, people)) == PEOPLE
    page.wait_for_selector("[data-channel=OfKind]")
    assert page.locator("#log-list li.placed").count() > 0
    until(page, "() => document.getElementById('place').textContent === 'Bellhaven'")
    assert page.title() == "Bellhaven · Tocsin"
    assert all("bytes/s" in text(page, each) for each in ("#brokers", "#chart-load")), "figures have a unit"
    assert page.get_by_role("figure").count() == 0 and page.get_by_role("img", name="Imbalance: cov").count() == 1


def test_people_are_moving_dots_on_the_map(page: Page) -> None:
    until(page, f"() => ({PAINTED})('map-people') > 24 && ({PAINTED})('map-ground') > 1000")
    before = page.evaluate("() => document.getElementById('map-people').toDataURL()")
    until(page, "([before]) => document.getElementById('map-people').toDataURL() !== before", before)


def test_the_page_shows_changes_of_the_load(page: Page, shared_network: Network) -> None:
    """The figures update without a reload when the load rises."""
    out = "document.querySelectorAll('.broker-facts span + span b')"
    city = shared_network.city
    for _ in range(3):
        city.announce("flood", "Weir", *spot(0.9, 0.9))
    until(page, f"() => [...{out}].some(each => parseFloat(each.textContent))")


def test_a_person_is_followed_by_a_click_on_the_map(page: Page) -> None:
    until(page, "() => tocsin.view.people.pixels?.some(Boolean)")
    where = """() => {
      const { camera, people } = tocsin.view;
      const [u, v] = people.where(3, ...people.shown);
      const box = document.getElementById("map-signs").getBoundingClientRect();
      return [box.left + camera.x(u), box.top + camera.y(v)];
    }"""
    # The person may have walked on before the click of a busy machine arrives.
    repeat(page, lambda: page.mouse.click(*page.evaluate(where)), "() => !document.getElementById('phone').hidden")
    page.get_by_role("button", name="Stop following").click()
    assert page.locator("#phone").is_hidden()


def test_a_phone_shows_earlier_and_new_notifications_of_its_person(page: Page, shared_network: Network) -> None:
    city = shared_network.city
    city.announce("flood", "Old Town", *spot(0.8, 0.2))
    page.get_by_label("Follow a person").fill("0")
    page.get_by_role("button", name="Follow").click()
    phone = page.locator("#phone")
    phone.get_by_text("Flood in Old Town").first.wait_for()
    city.announce("flood", "Quayside", *spot(0.5, 0.8))
    card = phone.locator(".card", has_text="Flood in Quayside").first
    card.wait_for()
    shown = card.inner_text()
    assert all(each in shown for each in ("Bell Yard School", "140 m", "Leave the area on foot", "Of kind #"))
    until(page, "() => document.getElementById('figure-latency').textContent.endsWith('ms')")
    shoot(page, "phone")
    card.locator("summary").focus()
    page.keyboard.press("Enter")
    assert "report_id" in card.locator("pre").inner_text()
    city.announce("flood", "Bell Yard", *spot(0.4, 0.4))
    phone.locator(".card", has_text="Flood in Bell Yard").first.wait_for()
    still_open = "() => document.activeElement.closest('#phone .card details[open]') !== null"
    assert page.evaluate(still_open), "an open notification stays open when the next one arrives"


def test_a_notification_between_request_and_stream_is_on_the_phone_too(page: Page, shared_network: Network) -> None:
    city, received = shared_network.city, asyncio.Queue[Any]()
    person = city.people[8]
    person.phones.add(received)

    def meanwhile(route: Route) -> None:
        """The page has loaded earlier notifications, and its stream is not open yet."""
        city.announce("flood", "Tannery", *spot(0.7, 0.5))
        while shared_network.do(received.get())[0] != "notification":
            pass
        route.continue_()

    page.route("**/people/8/phone", meanwhile, times=1)
    page.get_by_label("Follow a person").fill("8")
    page.get_by_role("button", name="Follow").click()
    page.locator("#phone .card", has_text="Flood in Tannery").first.wait_for()
    person.phones.discard(received)


def test_an_unknown_person_is_not_followed(page: Page) -> None:
    until(page, "() => tocsin.view.frames > 0 && tocsin.view.people.pixels?.some(Boolean)")
    for who in ("", "24", "-1", "unknown"):
        page.get_by_label("Follow a person").fill(who)
        page.get_by_role("button", name="Follow").click()
        toast = page.locator(".toast.wrong", has_text=f"“{who}”" if who else "Enter the person")
        toast.get_by_text("from 0 to 23").wait_for()
        assert page.locator("#phone").is_hidden()


def test_keys_and_buttons_pan_and_zoom_the_map(page: Page) -> None:
    until(page, "() => tocsin.view.frames > 0")
    zoom = "() => tocsin.view.camera.zoom"
    page.get_by_role("button", name="Zoom in").click()
    assert page.evaluate(zoom) == 1.5
    page.locator("#map-signs").focus()
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(zoom) > 2 and page.evaluate("() => tocsin.view.camera.u / tocsin.view.camera.aspect") > 0.5
    page.mouse.move(400, 400)
    page.mouse.wheel(0, 200)
    until(page, f"() => ({zoom})() < 2")
    page.keyboard.press("0")
    assert page.evaluate(zoom) == 1


def test_choosing_a_broker_shows_its_people(page: Page) -> None:
    name = page.locator(".broker-name").first
    name.click()
    assert name.get_attribute("aria-pressed") == "true" and page.evaluate("() => tocsin.view.people.chosen") == 0
    name.click()
    assert page.evaluate("() => tocsin.view.people.chosen") == -1


def test_the_log_is_filtered_by_kind_and_by_words(page: Page) -> None:
    page.wait_for_selector("#log-list li.placed")
    page.get_by_label("Show", exact=True).select_option("brokers")
    page.wait_for_selector("#log-list li.joined")
    assert page.locator("#log-list li.placed").count() == 0
    page.get_by_label("Filter by text").fill("edge-2")
    until(page, "() => document.querySelectorAll('#log-list li').length > 0")
    rows = page.locator("#log-list li")
    assert all("edge-2" in row for row in rows.all_inner_texts())
    page.get_by_label("Filter by text").fill("no such thing")
    page.get_by_text("Nothing matches.").wait_for()


def test_the_log_scrolls_to_new_entries_until_the_user_scrolls_back(page: Page, shared_network: Network) -> None:
    until(page, "() => document.querySelectorAll('#log-list li').length > 20")
    gap = "() => { const { scrollHeight, scrollTop, clientHeight } = document.getElementById('log-list'); "
    gap += "return scrollHeight - scrollTop - clientHeight }"
    until(page, f"() => ({gap})() < 2")
    page.locator("#log-list").hover()
    page.mouse.wheel(0, -400)
    page.get_by_role("button", name="To the newest").click()
    until(page, f"() => ({gap})() < 2")
    assert page.locator("#log-follow").is_hidden()


def test_a_chart_shows_the_values_under_the_pointer(page: Page) -> None:
    until(page, "() => document.querySelector('#chart-cov path.line')?.getAttribute('d').length > 20")
    page.locator("#chart-cov .chart-box").hover()
    page.wait_for_selector("#chart-cov line.hover", state="attached")
    page.mouse.move(5, 5)
    page.wait_for_selector("#chart-cov line.hover", state="detached")
    page.locator("#chart-cov").focus()
    page.keyboard.press("ArrowLeft")
    page.wait_for_selector("#chart-cov line.hover", state="attached")


def test_the_replay_shows_the_past_and_returns_to_live(page: Page, shared_network: Network) -> None:
    page.wait_for_selector("[data-broker]")
    until(page, "() => document.getElementById('tape-slider').max - document.getElementById('tape-slider').min > 3")
    storm = shared_network.city.announce("storm", "Tannery", *spot(0.7, 0.5))
    chip = page.locator(f"#emergencies [data-id='{storm['id']}']")
    chip.wait_for()
    page.get_by_label("Moment that is shown").focus()
    page.keyboard.press("PageDown")
    assert page.get_by_role("button", name="Live").get_attribute("aria-pressed") == "false"
    chip.wait_for(state="detached")
    assert page.get_by_role("button", name="Drain edge-1").count() == 0, "the past cannot be changed"
    assert page.get_by_role("button", name="Raise a flood").is_disabled()
    assert page.locator("#balancing-open").is_disabled()
    page.get_by_label("Speed").select_option("20")
    until(page, "() => document.getElementById('tape-live').getAttribute('aria-pressed') === 'true'")
    chip.wait_for()
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_role("button", name="Play").count() == 1
    shoot(page, "replay")
    page.get_by_role("button", name="Live").click()
    assert page.get_by_role("button", name="Pause").count() == 1 and page.locator("#balancing-open").is_enabled()


def test_the_colour_scheme_can_be_switched_and_is_remembered(
    open_page: Callable[..., Page], shared_network: Network
) -> None:
    page = open_page(shared_network.url, color_scheme="dark")
    ground = "() => getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.get_by_role("button", name="Switch to light colours").click()
    light = page.evaluate(ground)
    assert light != dark
    page.reload()
    assert page.evaluate(ground) == light, "the choice is remembered"
    page.get_by_role("button", name="Switch to dark colours").click()
    assert page.evaluate(ground) == dark
    page.wait_for_selector("[data-broker]")


SCREENS = [(w, h, scheme) for scheme in ("light", "dark") for w, h in ((1440, 900), (390, 844), (1024, 768))]


@pytest.mark.parametrize("screen", few(SCREENS, 2), ids=str)
def test_the_page_fits_every_screen(
    open_page: Callable[..., Page], shared_network: Network, screen: tuple[int, int, str]
) -> None:
    width, height, scheme = screen
    page = open_page(shared_network.url, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.wait_for_selector("[data-broker] .state")
    until(page, f"() => ({PAINTED})('map-people') > 24")
    page.get_by_label("Follow a person").fill("4")
    page.get_by_role("button", name="Follow").click()
    page.wait_for_selector("#phone:not([hidden])")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    cut = """() => [...document.querySelectorAll("button, select, input, h2, dd")].filter(each => {
      const box = each.getBoundingClientRect();
      // The row of emergencies scrolls by itself.
      return box.width && !each.closest("#emergencies") && (box.right > innerWidth + 1 || box.left < -1);
    }).map(each => each.outerHTML)"""
    assert page.evaluate(cut) == []
    assert page.evaluate(FAINT) == {}
    shoot(page, f"page-{width}-{scheme}", full_page=width < 1200)


@pytest.mark.parametrize(("width", "height"), [(1440, 900), (390, 844)])
def test_the_layout_does_not_shift_while_the_page_loads(
    open_page: Callable[..., Page], shared_network: Network, width: int, height: int
) -> None:
    page = open_page(shared_network.url, viewport={"width": width, "height": height})
    page.evaluate("""() => {
      globalThis.moved = 0;
      new PerformanceObserver(list => {
        for (const each of list.getEntries()) if (!each.hadRecentInput) globalThis.moved += each.value;
      }).observe({ type: "layout-shift", buffered: true });
    }""")
    page.wait_for_selector("[data-broker] .state")
    page.wait_for_selector("[data-channel]")
    until(page, f"() => ({PAINTED})('map-people') > 24")
    before = text(page, "#tape-time")
    shared_network.city.announce("fire", "Weir", *spot(0.9, 0.9))
    until(page, "([before]) => document.getElementById('tape-time').textContent !== before", before)
    page.wait_for_selector("#emergencies button")
    assert page.evaluate("() => globalThis.moved") < 0.01


def test_reduced_motion_stops_animations(open_page: Callable[..., Page], shared_network: Network) -> None:
    shared_network.city.announce("fire", "Weir", *spot(0.9, 0.9))
    page = open_page(shared_network.url, reduced_motion="reduce")
    page.wait_for_selector("#emergencies button")
    until(page, f"() => ({PAINTED})('map-signs') > 100")
    frames = page.evaluate("() => tocsin.view.frames")
    before = page.evaluate("() => document.getElementById('map-signs').toDataURL()")
    until(page, "([frames]) => tocsin.view.frames > frames + 10", frames)
    assert page.evaluate("() => document.getElementById('map-signs').toDataURL()") == before
