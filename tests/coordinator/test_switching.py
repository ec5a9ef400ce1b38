"""Another strategy or placement while the coordinator runs."""

from __future__ import annotations

import msgspec
import pytest
from office import Office, lopsided

from tocsin.balancing.strategies import registry
from tocsin.coordinator.core import events as ev
from tocsin.errors import NotFound, TocsinError, UserError


def switch(office, **fields):
    return office.tell(ev.Switch(0, **fields))


def test_the_next_look_at_the_balance_is_the_new_strategys():
    office = lopsided(strategy="", balance_every=1000.0)
    office.tick(4)
    assert office.said("move") == []
    assert switch(office, strategy="ldm")["strategy"] == "ldm"
    office.tick(1)
    assert len(office.said("move")) == 5 and office.topology()["strategy"] == "ldm"


def test_settings_reach_the_strategy():
    office = lopsided(strategy="ldm")
    switch(office, strategy="ldm", settings={"alpha": 5.0})
    office.tick(1)
    assert office.said("move") == [] and office.said("strategy") == ["ldm with alpha 5.0"]


def test_no_strategy_moves_nobody():
    office = lopsided()
    switch(office, strategy="")
    office.tick(1)
    assert office.said("move") == [] and office.said("strategy") == ["none"]


def test_newcomers_are_placed_in_the_new_way():
    office = Office(placement="random")
    for name in "abc":
        office.join(name)
    switch(office, placement="round-robin")
    assert [office.place(f"subscriber-{n}").broker for n in range(3)] == ["a", "b", "c"]
    assert office.said("placement") == ["round-robin"] and office.topology()["placement"] == "round-robin"


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ({"strategy": "psychic"}, "there are: gsh, join, ldm"),
        ({"strategy": "drain"}, "there are: gsh, join, ldm"),
        ({"placement": "psychic"}, "there are: nearest, round-robin"),
        ({"strategy": "ldm", "settings": {"delta": 1.0}}, "it takes: alpha, beta"),
        ({"strategy": "ldm", "settings": {"alpha": "much"}}, "alpha of ldm is a number"),
        ({"strategy": "peal", "settings": {"gear": 3.0}}, "gear of peal is a word"),
        ({"strategy": "peal", "settings": {"gear": "reverse"}}, "use auto, repair, regroup"),
        ({"strategy": "", "settings": {"alpha": 1.0}}, "leave settings out"),
    ],
)
def test_what_is_not_known_is_refused_and_changes_nothing(wish, words):
    office = lopsided()
    with pytest.raises(UserError, match=words):
        switch(office, **wish)
    assert office.choice is None and office.state.config == office.config


def test_what_was_chosen_is_there_after_a_restart():
    office = lopsided()
    switch(office, strategy="multistage", settings={"alpha": 0.3, "scheme": "sdm"})
    switch(office, placement="nearest")
    office.restart()
    found = office.state.config
    assert (found.strategy, found.placement) == ("multistage", "nearest")
    assert found.settings == {"alpha": 0.3, "scheme": "sdm"}


def test_another_configuration_counts_more_than_what_was_chosen_before():
    office = lopsided()
    switch(office, strategy="gsh")
    office.config = msgspec.structs.replace(office.config, strategy="sdm")
    office.restart()
    assert office.state.config.strategy == "sdm" and office.choice is None


def test_going_back_to_the_configuration_leaves_nothing_to_remember():
    office = lopsided()
    switch(office, strategy="gsh")
    assert office.choice is not None
    switch(office, strategy="ldm")
    assert office.choice is None


def test_a_choice_that_is_not_there_any_more_is_told_of_and_forgotten():
    office = lopsided()
    registry.register("passing", registry.factory("gsh"))
    try:
        switch(office, strategy="passing")
    finally:
        del registry._registered["passing"]
    office.restart()
    assert office.state.config.strategy == "ldm" and office.choice is None
    assert "passing" in office.said("strategy")[-1]


def test_a_plan_is_summed_up_in_one_line():
    office = lopsided()
    office.tick(1)
    (line,) = office.said("plan")
    assert line == "5 moves, cov 1.000 to 0.000: 5 × LDM: heaviest of the most loaded to the least loaded"


def test_an_order_is_noted_when_it_is_handed_out():
    office = lopsided()
    office.tick(1)
    assert office.said("order") == []
    handed = office.report("a").moves
    notes = [note for note in office.notes if note.kind == "order"]
    assert [(note.subscriber, note.target) for note in notes] == [(each.subscriber, each.broker) for each in handed]
    assert len(notes) == 5


def test_the_refusal_is_an_error_with_a_code():
    with pytest.raises(TocsinError) as caught:
        switch(Office(), strategy="psychic")
    assert isinstance(caught.value, NotFound) and caught.value.code == "not_found"
