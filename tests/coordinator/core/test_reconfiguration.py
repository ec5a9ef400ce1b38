"""Strategy and placement are changed while the coordinator runs."""

from __future__ import annotations

import msgspec
import pytest
from coordinator_harness import CoordinatorHarness, lopsided

from tocsin.balancing.strategies import registry
from tocsin.coordinator.core import events as ev
from tocsin.errors import NotFound, TocsinError, UserError


def switch(harness, **fields):
    return harness.handle(ev.Reconfigure(0, **fields))


def test_a_new_strategy_is_used_at_the_next_evaluation():
    harness = lopsided(strategy="", balance_every=1000.0)
    harness.tick(4)
    assert harness.notes_of("migration") == []
    assert switch(harness, strategy="ldm")["strategy"] == "ldm"
    harness.tick(1)
    assert len(harness.notes_of("migration")) == 5 and harness.topology()["strategy"] == "ldm"


def test_settings_reach_the_strategy():
    harness = lopsided(strategy="ldm")
    switch(harness, strategy="ldm", settings={"alpha": 5.0})
    harness.tick(1)
    assert harness.notes_of("migration") == [] and harness.notes_of("strategy") == ["ldm with alpha 5.0"]


def test_without_a_strategy_no_subscriber_migrates():
    harness = lopsided()
    switch(harness, strategy="")
    harness.tick(1)
    assert harness.notes_of("migration") == [] and harness.notes_of("strategy") == ["none"]


def test_a_new_placement_policy_applies_to_the_next_subscribers():
    harness = CoordinatorHarness(placement="random")
    for name in "abc":
        harness.join(name)
    switch(harness, placement="round-robin")
    assert [harness.place(f"subscriber-{n}").broker for n in range(3)] == ["a", "b", "c"]
    assert harness.notes_of("placement") == ["round-robin"] and harness.topology()["placement"] == "round-robin"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"strategy": "psychic"}, "there are: gsh, join, ldm"),
        ({"strategy": "drain"}, "there are: gsh, join, ldm"),
        ({"placement": "psychic"}, "there are: nearest, round-robin"),
        ({"strategy": "ldm", "settings": {"delta": 1.0}}, "it takes: alpha, beta"),
        ({"strategy": "ldm", "settings": {"alpha": "much"}}, "alpha of ldm is a number"),
        ({"strategy": "peal", "settings": {"mode": 3.0}}, "mode of peal is a text"),
        ({"strategy": "peal", "settings": {"mode": "reverse"}}, "use auto, repair, regroup"),
        ({"strategy": "", "settings": {"alpha": 1.0}}, "leave settings out"),
    ],
)
def test_an_invalid_choice_is_refused_and_changes_nothing(change, words):
    harness = lopsided()
    with pytest.raises(UserError, match=words):
        switch(harness, **change)
    assert harness.choice is None and harness.state.config == harness.config


def test_a_choice_is_restored_after_a_restart():
    harness = lopsided()
    switch(harness, strategy="multistage", settings={"alpha": 0.3, "scheme": "sdm"})
    switch(harness, placement="nearest")
    harness.restart()
    found = harness.state.config
    assert (found.strategy, found.placement) == ("multistage", "nearest")
    assert found.settings == {"alpha": 0.3, "scheme": "sdm"}


def test_a_changed_configuration_overrides_an_earlier_choice():
    harness = lopsided()
    switch(harness, strategy="gsh")
    harness.config = msgspec.structs.replace(harness.config, strategy="sdm")
    harness.restart()
    assert harness.state.config.strategy == "sdm" and harness.choice is None


def test_choosing_the_configured_strategy_deletes_the_stored_choice():
    harness = lopsided()
    switch(harness, strategy="gsh")
    assert harness.choice is not None
    switch(harness, strategy="ldm")
    assert harness.choice is None


def test_a_stored_choice_of_an_unknown_strategy_is_logged_and_deleted():
    harness = lopsided()
    registry.register("passing", registry.factory("gsh"))
    try:
        switch(harness, strategy="passing")
    finally:
        del registry._registered["passing"]
    harness.restart()
    assert harness.state.config.strategy == "ldm" and harness.choice is None
    assert "passing" in harness.notes_of("strategy")[-1]


def test_a_plan_is_summarized_in_one_line_of_the_log():
    harness = lopsided()
    harness.tick(1)
    (line,) = harness.notes_of("plan")
    assert line == "5 migrations, cov 1.000 to 0.000: 5 × LDM: heaviest of the most loaded to the least loaded"


def test_an_order_is_logged_when_it_is_issued():
    harness = lopsided()
    harness.tick(1)
    assert harness.notes_of("order") == []
    issued = harness.report("a").migrations
    notes = [note for note in harness.notes if note.kind == "order"]
    assert [(note.subscriber, note.target) for note in notes] == [(each.subscriber, each.broker) for each in issued]
    assert len(notes) == 5


def test_the_refusal_is_an_error_with_a_code():
    with pytest.raises(TocsinError) as caught:
        switch(CoordinatorHarness(), strategy="psychic")
    assert isinstance(caught.value, NotFound) and caught.value.code == "not_found"
