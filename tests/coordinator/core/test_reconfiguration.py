"""Strategy and placement are changed while the coordinator runs."""

from __future__ import annotations

import msgspec
import pytest
from coordinator_harness import CoordinatorHarness, lopsided

from tocsin.balancing.catalogue.use import use
from tocsin.balancing.strategies import registry
from tocsin.config import CoordinatorBalancing
from tocsin.coordinator.core import events as ev
from tocsin.coordinator.core.strategy_chain import running
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
        ({"strategy": "psychic"}, "there are: .*gsh, join, ldm"),
        ({"strategy": "drain"}, "there are: .*gsh, join, ldm"),
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


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"components": {"detector": "psychic"}}, "there are: always, cov"),
        ({"components": {"detector": "draining"}}, "as detector would fit: always, cov, newcomer"),
        ({"components": {"balancer": "one-to-one"}}, "there are: drain, gsh"),
        ({"components": {"exchanger": "silent"}}, "there are: paced-reports, reports"),
        ({"components": {"exchanger": {"use": "paced-reports", "calm": 6.0}}}, "at most 5 s, half of gone_after"),
        ({"components": {"exchanger": {"use": "paced-reports", "busy": 0.0}}}, "0 < busy ≤ calm"),
        ({"components": {"exchanger": {"use": "reports", "every": -1.0}}}, "give 0 or more"),
        ({"components": {"migrate_detector": "cov"}}, "has: criterion, detector, balancer"),
        ({"components": {"detector": {"use": "cov", "gamma": 1.0}}}, "it has: alpha, beta"),
        ({"components": {"guards": ["psychic"]}}, "there are: at-most"),
        ({"components": {"guards": ["room"]}}, "the target has not reached"),
        ({"components": {"guards": [{"use": "at-most", "migrations": 0}]}}, "use 1 or more"),
        ({"strategy": "", "components": {"detector": "cov"}}, "name a strategy"),
    ],
)
def test_a_component_that_does_not_fit_is_refused_at_start_and_at_run_time(change, words):
    harness = lopsided()
    with pytest.raises(UserError) as refused:
        switch(harness, **{"strategy": "ldm"} | change)
    assert words in refused.value.hint.lower()
    assert harness.choice is None and harness.state.config == harness.config
    with pytest.raises(UserError) as refused:
        configured = {"strategy": change.get("strategy", "ldm")}
        CoordinatorHarness(**configured, balancing=CoordinatorBalancing(components=change["components"]))
    assert words in refused.value.hint.lower()


def test_a_strategy_in_one_piece_has_no_components_to_swap():
    with registry.registered("fixed", lambda: Nothing()), pytest.raises(NotFound) as refused:
        switch(lopsided(), strategy="fixed", components={"detector": "cov"})
    assert "it is in one piece" in refused.value.hint


class Nothing:
    def suggest(self, view):
        return iter(())

    def objective(self, view):
        return 0.0


def test_a_component_is_swapped_at_run_time_and_by_the_configuration():
    for settings in ({}, {"balancing": CoordinatorBalancing(components=CALM)}):
        harness = lopsided(**settings)
        if not settings:
            switch(harness, strategy="ldm", components=CALM)
            assert harness.notes_of("strategy") == ["ldm with detector cov (alpha 5)"]
        harness.tick(1)
        assert harness.notes_of("migration") == []
        assert running(harness.state.config)["detector"] == use("cov", alpha=5.0)
        switch(harness, strategy="ldm")
        harness.tick(1)
        assert len(harness.notes_of("migration")) == 5


CALM = {"detector": {"use": "cov", "alpha": 5.0}}


def test_guards_are_swapped_at_run_time():
    harness = lopsided()
    switch(harness, strategy="ldm", components={"guards": [{"use": "at-most", "migrations": 2.0}, "never-raise"]})
    harness.tick(1)
    assert len(harness.notes_of("migration")) == 2
    assert running(harness.state.config)["guards"] == (use("at-most", migrations=2), use("never-raise"))


def test_the_exchanger_is_swapped_at_run_time_and_by_the_configuration():
    paced = {"exchanger": {"use": "paced-reports", "busy": 0.5, "calm": 5.0}}
    harness = lopsided()
    assert harness.report("b").interval == 0.0  # as registered
    switch(harness, strategy="ldm", components=paced)
    assert harness.notes_of("strategy") == ["ldm with exchanger paced-reports (busy 0.5, calm 5)"]
    assert harness.report("b").interval == 5.0
    harness.tick(1)
    assert harness.state.host.pending
    assert {harness.report(each).interval for each in ("a", "b")} == {0.5}
    switch(harness, strategy="ldm")
    assert harness.report("b").interval == 0.0
    configured = CoordinatorHarness(strategy="", balancing=CoordinatorBalancing(components=paced))
    assert configured.join("b1").interval == 5.0
    assert running(configured.state.config)["exchanger"] == use("paced-reports", busy=0.5, calm=5.0)


def test_a_broker_that_was_asked_to_report_later_has_not_missed_a_report():
    for every, missed in ((0.0, True), (5.0, False)):
        swap = {"exchanger": {"use": "reports", "every": every}}
        harness = CoordinatorHarness(balancing=CoordinatorBalancing(components=swap))
        harness.join("b1")
        harness.tick(7)
        assert harness.state.members.missed(harness.state.members["b1"], harness.now) is missed


def test_a_stage_of_several_is_swapped_by_its_name():
    harness = lopsided(strategy="multistage")
    switch(harness, strategy="multistage", components={"migrate_balancer": "sdm"})
    found = running(harness.state.config)
    assert (found["migrate_balancer"], found["shuffle_balancer"]) == (use("sdm"), use("gsh"))
    assert found["drain_balancer"] == use("drain")


def test_swapped_components_are_restored_after_a_restart():
    harness = lopsided()
    switch(harness, strategy="ldm", components=CALM)
    switch(harness, placement="nearest")
    stored = msgspec.json.decode(msgspec.json.encode(harness.choice), type=ev.Choice)
    harness.choice = stored
    harness.restart()
    assert harness.state.config.balancing.components == CALM
    harness.config = msgspec.structs.replace(
        harness.config, balancing=CoordinatorBalancing(components={"balancer": "sdm"})
    )
    harness.restart()
    assert harness.state.config.balancing.components == {"balancer": "sdm"} and harness.choice is None


def test_a_choice_of_a_version_without_components_is_restored():
    harness = lopsided()
    switch(harness, strategy="gsh")
    stored = msgspec.json.decode(msgspec.json.encode(harness.choice))
    del stored["components"], stored["configured_components"]
    harness.choice = msgspec.convert(stored, ev.Choice)
    harness.restart()
    assert harness.state.config.strategy == "gsh"


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
    with registry.registered("passing", registry.factory("gsh")):
        switch(harness, strategy="passing")
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
