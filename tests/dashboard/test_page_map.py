"""Search for people, pan and zoom of the map, and replay of the time before the page was opened."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from page_network import Network, repeat, text, until
from playwright.sync_api import Page
from small_city import spot

FOUND = "#search-found li"
ZOOM = "() => tocsin.view.camera.zoom"


def search(page: Page) -> Any:
    return page.get_by_label("Follow a person")


@pytest.fixture
def drawn(page: Page) -> Page:
    until(page, "() => tocsin.view.people.pixels?.some(Boolean)")
    return page


def test_people_are_suggested_by_name_during_typing(drawn: Page) -> None:
    search(drawn).press_sequentially("cleo")
    options = drawn.locator(FOUND)
    options.first.wait_for()
    assert all("Cleo Vale" in each for each in options.all_inner_texts())
    assert search(drawn).get_attribute("aria-expanded") == "true"
    drawn.keyboard.press("ArrowDown")
    drawn.keyboard.press("ArrowDown")
    marked = drawn.locator(f"{FOUND}[aria-selected=true]")
    assert search(drawn).get_attribute("aria-activedescendant") == marked.get_attribute("id")
    number = marked.locator("span").first.inner_text()
    drawn.keyboard.press("Enter")
    drawn.wait_for_selector("#phone:not([hidden])")
    assert text(drawn, "#phone-name") == "Cleo Vale" and number in text(drawn, "#phone-where")
    assert options.count() == 0 and search(drawn).input_value() == ""


def test_a_person_is_found_by_district_and_chosen_with_the_pointer(drawn: Page) -> None:
    search(drawn).press_sequentially("ropewalk")
    first = drawn.locator(FOUND).first
    first.wait_for()
    assert "Ropewalk" in first.inner_text()
    first.click()
    drawn.wait_for_selector("#phone:not([hidden])")


def test_escape_closes_the_suggestions(drawn: Page) -> None:
    search(drawn).press_sequentially("ada")
    drawn.locator(FOUND).first.wait_for()
    drawn.keyboard.press("Escape")
    drawn.locator(FOUND).first.wait_for(state="detached")
    assert search(drawn).input_value() == "ada"


def test_the_wheel_zooms_the_map_of_a_page_that_does_not_scroll(drawn: Page) -> None:
    drawn.locator("#map-signs").hover()
    drawn.mouse.wheel(0, -300)
    until(drawn, f"() => ({ZOOM})() > 1.5")


def test_the_wheel_scrolls_a_page_that_is_longer_than_the_window(
    open_page: Callable[..., Page], shared_network: Network
) -> None:
    page = open_page(shared_network.url, viewport={"width": 1000, "height": 700})
    until(page, "() => tocsin.view.people.pixels?.some(Boolean)")
    page.locator("#map-signs").hover()
    page.mouse.wheel(0, 300)
    until(page, "() => scrollY > 100")
    assert page.evaluate(ZOOM) == 1
    page.locator("#map-signs").focus()
    page.mouse.wheel(0, -300)
    until(page, f"() => ({ZOOM})() > 1.5")


def test_two_fingers_zoom_the_map_and_one_pans_it(open_page: Callable[..., Page], shared_network: Network) -> None:
    page = open_page(shared_network.url, viewport={"width": 390, "height": 844}, has_touch=True)
    page.wait_for_selector("[data-broker] .state.up")
    until(page, "() => tocsin.view.people.pixels?.some(Boolean)")
    fingers = page.context.new_cdp_session(page)

    def gesture(*path: tuple[float, ...]) -> None:
        """Puts one finger after the other on the map, moves them along the path, and lifts them."""
        page.locator("#map-signs").scroll_into_view_if_needed()
        box = page.locator("#map-signs").bounding_box()
        assert box is not None
        middle, high = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

        def touch(kind: str, *xs: float) -> None:
            points = [{"x": middle + x, "y": high, "id": n} for n, x in enumerate(xs)]
            fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        for count in range(1, len(path[0]) + 1):
            touch("touchStart", *path[0][:count])
        for xs in path[1:]:
            touch("touchMove", *xs)
        touch("touchEnd")

    # Chromium cancels a touch that a busy page does not acknowledge in time, so a gesture is repeated.
    repeat(page, lambda: gesture(*[(-reach, reach) for reach in range(20, 90, 10)]), f"() => ({ZOOM})() > 2.5")
    where = page.evaluate("() => tocsin.view.camera.u")
    repeat(page, lambda: gesture(*[(x,) for x in range(0, 60, 10)]), "([u]) => tocsin.view.camera.u < u", where)
    assert page.locator("#phone").is_hidden(), "neither gesture counts as a click"


def test_a_tooltip_names_the_emergency_under_the_pointer(drawn: Page, shared_network: Network) -> None:
    shared_network.city.announce("gas leak", "Fairfield", *spot(0.12, 0.85))
    drawn.locator("#emergencies button", has_text="Gas leak").first.wait_for()
    at = drawn.evaluate(
        """([lon, lat]) => {
      const { camera } = tocsin.view;
      const [u, v] = camera.place(lon, lat);
      const box = document.getElementById("map-signs").getBoundingClientRect();
      return [box.left + camera.x(u), box.top + camera.y(v)];
    }""",
        list(spot(0.12, 0.85)),
    )
    drawn.mouse.move(*at)
    drawn.locator("#map-tip", has_text="Gas leak").wait_for()
    drawn.mouse.move(5, 5)
    drawn.locator("#map-tip").wait_for(state="hidden")


def test_the_replay_begins_before_the_page_was_opened(open_page: Callable[..., Page], shared_network: Network) -> None:
    city = shared_network.city
    city.announce("power cut", "Weir", *spot(0.85, 0.8))
    opened = time.time()
    page = open_page(shared_network.url)
    page.wait_for_selector("[data-broker] .state.up")
    until(page, "([opened]) => tocsin.tape.start < opened && tocsin.tape.people.times[0] < opened", opened)
    until(page, "([opened]) => tocsin.tape.emergencies.times.some(at => at <= opened)", opened)
    people = page.locator("[data-broker] .broker-people strong")
    page.get_by_label("Moment that is shown").focus()
    page.keyboard.press("Home")
    assert page.get_by_role("button", name="Live").get_attribute("aria-pressed") == "false"
    until(page, "() => document.querySelectorAll('[data-broker]').length > 0")
    assert all(each.replace(",", "").isdigit() for each in people.all_inner_texts())
    until(page, "([opened]) => document.getElementById('tape-slider').value < opened", opened)
    page.get_by_text("as they are now").wait_for()


def test_the_replay_shows_broker_states_from_before_the_page_was_opened(
    open_page: Callable[..., Page], shared_network: Network
) -> None:
    url = shared_network.coordinator.url
    first = open_page(shared_network.url)
    first.wait_for_selector("[data-broker=edge-1] .state.up")
    httpx.post(f"{url}/brokers/edge-1/drain", timeout=60).raise_for_status()
    first.wait_for_selector("[data-broker=edge-1] .state.draining")
    drained = first.evaluate("() => tocsin.tape.topologies.times.at(-1)")
    until(first, "([drained]) => tocsin.tape.samples.times.at(-1) > drained", drained)
    moment = first.evaluate("() => tocsin.tape.samples.times.at(-1)")
    httpx.post(f"{url}/brokers/edge-1/undrain", timeout=60).raise_for_status()
    first.wait_for_selector("[data-broker=edge-1] .state.up")
    page = open_page(shared_network.url)
    page.wait_for_selector("[data-broker=edge-1] .state.up")
    until(page, "([moment]) => tocsin.tape.start < moment", moment)
    page.evaluate(
        """([moment]) => {
            const slider = document.getElementById('tape-slider');
            slider.value = moment + 0.1;
            slider.dispatchEvent(new Event('input'));
        }""",
        [moment],
    )
    page.wait_for_selector("[data-broker=edge-1] .state.draining")
    page.wait_for_selector("[data-broker=edge-2] .state.up")
