"""``tocsin balance components`` without a network, and how ``tocsin balance use`` reads components."""

from __future__ import annotations

import json

import pytest

from tocsin.balancing.catalogue.blueprint import GUARDS
from tocsin.balancing.catalogue.places import COORDINATOR, catalogue
from tocsin.balancing.catalogue.use import use
from tocsin.balancing.catalogue.view import view
from tocsin.balancing.strategies import registry
from tocsin.cli import components
from tocsin.errors import UserError


def test_without_an_address_it_prints_what_is_installed(capsys):
    components.show_components("", "", json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "at coordinator:" in lines and "at brokers:" in lines
    (relative,) = [line for line in lines if line.split()[:2] == ["detector", "relative"]]
    assert "k1 (1.1), k2 (0.9)" in relative
    (absolute,) = [line for line in lines if line.split()[:2] == ["detector", "absolute"]]
    assert "threshold (required)" in absolute


def test_json_has_the_types_of_settings(capsys):
    components.show_components("", "", json=True)
    coordinator, brokers, *others = json.loads(capsys.readouterr().out)
    assert [each["place"] for each in others] == ["edges", "deadline-edges", "deadline-heads"]
    assert (coordinator["place"], brokers["place"]) == ("coordinator", "brokers")
    (once,) = [each for each in brokers["components"] if each["name"] == "at-once"]
    assert once["settings"] == {"sessions": {"type": "int", "default": 1}}
    assert coordinator["running"] == {} and all(each["runs_as"] == [] for each in coordinator["components"])


def test_what_runs_is_marked_at_its_place(capsys):
    running = registry.make("multistage").blueprint.uses() | {
        GUARDS: (use("at-most", migrations=7), use("never-raise"))
    }
    components._print(view(catalogue(COORDINATOR), "multistage", running))
    out = capsys.readouterr().out
    lines = out.splitlines()
    (cov,) = [line for line in lines if line.split()[:2] == ["detector", "cov"]]
    assert "shuffle_detector, migrate_detector" in cov
    assert any(line.split() == ["guards", "at-most", "(migrations", "7)", "+", "never-raise"] for line in lines)
    assert "strategy multistage:" in lines


@pytest.mark.parametrize(
    ("text", "slot", "given"),
    [
        ("detector=cov", "detector", "cov"),
        ("detector=cov,alpha=0.3,beta=1", "detector", {"use": "cov", "alpha": 0.3, "beta": 1.0}),
        ("guards=never-raise", "guards", ["never-raise"]),
        ("guards=never-raise+at-most,migrations=5", "guards", ["never-raise", {"use": "at-most", "migrations": 5.0}]),
        ("guards=", "guards", []),
        ("detector=", "detector", ""),
    ],
)
def test_a_component_is_written_in_one_word(text, slot, given):
    assert components.swap(text) == (slot, given)


@pytest.mark.parametrize("text", ["", "detector", "=cov", "detector=cov,alpha", "detector=cov,=1"])
def test_a_component_that_cannot_be_read_is_refused_with_an_example(text):
    with pytest.raises(UserError) as refused:
        components.swap(text)
    assert "--component" in refused.value.message and "such as" in refused.value.hint


@pytest.mark.parametrize(("text", "value"), [("alpha=0.2", 0.2), ("mode=repair", "repair"), ("mode=", "")])
def test_a_setting_is_a_number_or_a_text(text, value):
    assert components.pair(text, "--set") == (text.partition("=")[0], value)
