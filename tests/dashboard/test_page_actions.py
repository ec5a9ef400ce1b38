"""Every action of the page works, and the page shows its effect."""

from __future__ import annotations

import pytest
from page_network import Network, shoot, text, until
from playwright.sync_api import Page


def state(page: Page, broker: str, expected: str) -> None:
    page.wait_for_selector(f"[data-broker='{broker}'] .state.{expected}")


def toast(page: Page, words: str) -> None:
    page.locator(".toast", has_text=words).wait_for()


def people(page: Page, broker: str) -> int:
    return int(text(page, f"[data-broker='{broker}'] .broker-people strong"))


@pytest.fixture
def spare(page: Page) -> str:
    """A broker that was added on the page, for the test alone."""
    page.get_by_role("button", name="Add a broker").click()
    name = page.locator(".toast strong", has_text="was started").inner_text().split()[0]
    state(page, name, "up")
    return name


def test_a_broker_is_added_and_takes_its_share(page: Page, spare: str, shared_network: Network) -> None:
    assert spare in shared_network.city.brokers
    page.locator("#log-list li.joined", has_text=spare).wait_for()
    assert "of" in text(page, "#figure-brokers")


def test_a_broker_is_killed_and_its_people_reconnect(page: Page, spare: str, shared_network: Network) -> None:
    page.get_by_role("button", name=f"Kill {spare}").click()
    dialog = page.get_by_role("dialog", name=f"Kill {spare}?")
    shoot(page, "kill")
    dialog.get_by_role("button", name="Cancel").click()
    assert shared_network.city.processes[spare].process.poll() is None
    page.get_by_role("button", name=f"Kill {spare}").click()
    dialog.get_by_role("button", name="Kill it").click()
    state(page, spare, "gone")
    page.locator("#log-list li.died", has_text=spare).wait_for()
    until(page, "() => document.getElementById('figure-subscribers').textContent === '24'")
    shoot(page, "killed")
    page.get_by_role("button", name=f"Forget {spare}").click()
    page.wait_for_selector(f"[data-broker='{spare}']", state="detached")


def test_a_broker_is_drained_until_it_is_empty_and_undrained(page: Page) -> None:
    page.get_by_role("button", name="Drain edge-1").click()
    state(page, "edge-1", "draining")
    toast(page, "edge-1 is being drained")
    until(page, "() => document.querySelector('[data-broker=edge-1] .broker-people strong').textContent === '0'")
    moved = page.locator("#log-list li.migration", has_text="edge-1 →").last
    assert "drain" in moved.locator("em").inner_text() or "arrived" in moved.locator("em").inner_text()
    shoot(page, "drained")
    page.get_by_role("button", name="Undrain edge-1").click()
    state(page, "edge-1", "up")


def test_the_keyboard_focus_survives_actions_and_dialogs(page: Page) -> None:
    """Drain becomes Undrain in place, and a closed dialog returns the focus."""
    page.get_by_role("button", name="Drain edge-2").focus()
    page.keyboard.press("Enter")
    state(page, "edge-2", "draining")
    until(page, "() => document.activeElement.dataset.do === 'undrain'")
    page.keyboard.press("Enter")
    state(page, "edge-2", "up")
    until(page, "() => document.activeElement.closest('[data-broker]')?.dataset.broker === 'edge-2'")
    page.locator("#balancing-open").focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Balancing").wait_for()
    page.keyboard.press("Escape")
    until(page, "() => document.activeElement.id === 'balancing-open'")


def test_a_flood_raised_in_a_district_notifies_people(page: Page) -> None:
    page.get_by_label("Follow a person").fill("8")
    page.get_by_role("button", name="Follow").click()
    page.wait_for_selector("#phone:not([hidden])")
    page.get_by_label("District", exact=True).select_option("Ropewalk")
    page.get_by_role("button", name="Raise a flood").click()
    toast(page, "A flood in Ropewalk.")
    page.locator("#emergencies button", has_text="Flood").first.wait_for()
    page.locator("#phone .card", has_text="Flood in Ropewalk").first.wait_for()
    until(page, "() => document.querySelector('#chart-count path.line').getAttribute('d').length > 0")


def test_strategy_and_placement_are_switched(page: Page) -> None:
    page.locator("#balancing-open").click()
    dialog = page.get_by_role("dialog", name="Balancing")
    for choice in ("strategy", "placement"):
        for each in dialog.locator(f"#{choice} option").all():
            dialog.locator(f"#{choice}").select_option(each.get_attribute("value"))
            assert text(page, f"#{choice}-about"), f"{each.inner_text()} is not explained"
    dialog.get_by_label("Strategy").select_option("multistage")
    dialog.get_by_label("gamma").fill("0.6")
    dialog.get_by_label("Placement").select_option("least-loaded")
    shoot(page, "balancing")
    dialog.get_by_role("button", name="Apply").click()
    until(page, "() => document.getElementById('balancing-now').textContent === 'multistage · least-loaded'")
    page.locator("#log-list li.strategy", has_text="multistage with gamma 0.6").wait_for()
    # The thresholds of the strategy are in the chart from now on.
    until(page, "() => /γ 0.60/.test(document.getElementById('chart-cov').getAttribute('aria-label'))")
    page.locator("#balancing-open").click()
    assert dialog.get_by_label("gamma").input_value() == "0.6"
    dialog.get_by_label("Strategy").select_option("peal")
    dialog.get_by_label("Placement").select_option("two-choices")
    dialog.get_by_role("button", name="Apply").click()
    until(page, "() => document.getElementById('balancing-now').textContent === 'peal · two-choices'")
    until(page, "() => /acts above/.test(document.getElementById('chart-load').getAttribute('aria-label'))")


def test_a_dialog_that_is_cancelled_changes_nothing(page: Page) -> None:
    page.locator("#balancing-open").click()
    dialog = page.get_by_role("dialog", name="Balancing")
    dialog.get_by_label("Strategy").select_option("gsh")
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    assert text(page, "#balancing-now") == "peal · two-choices"


def test_an_action_that_fails_shows_its_error_and_a_hint(open_page, shared_network: Network) -> None:
    page = open_page(shared_network.url, expected=("Failed to load resource",))
    page.wait_for_selector("[data-broker] .state.up")
    page.locator("#balancing-open").click()
    dialog = page.get_by_role("dialog", name="Balancing")
    dialog.get_by_label("mode").fill("reverse")
    dialog.get_by_role("button", name="Apply").click()
    wrong = page.locator(".toast.wrong")
    wrong.wait_for()
    assert "Peal has no mode 'reverse'." in wrong.inner_text() and "Use auto, repair, regroup." in wrong.inner_text()
    shoot(page, "refused")
    wrong.get_by_role("button", name="Dismiss").click()
    wrong.wait_for(state="detached")
