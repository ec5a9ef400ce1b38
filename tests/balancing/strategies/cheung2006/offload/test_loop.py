"""T55: input balancing gives a heavy subscription away, output balancing gives it back, without end; the guard ends it.

The loads are those of Table 4.2: B1 has an input ratio of 0.8, B2 of 0.2, and both have 0.5 of their output in use.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from offload_pairs import broker, pair

from tocsin.balancing.strategies.cheung2006.offload import input_offload, output_offload
from tocsin.balancing.strategies.cheung2006.offload.guard import FIGURE, TEXT, InputNotAbove
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair

THRESHOLD = 0.1
FEW = 40


@dataclass
class Two:
    """Where the heavy subscription is decides the loads of both; other subscriptions do not migrate here."""

    guards: list[InputNotAbove]
    heavy_at: str = "B1"
    sessions: list[str] = field(default_factory=list)

    def loads(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Input and output of B1 and of B2: Tables 4.2 and 4.5, or Table 4.3."""
        return ((0.8, 0.5), (0.2, 0.5)) if self.heavy_at == "B1" else ((0.5, 0.3), (0.5, 0.7))

    def session(self) -> bool:
        (i1, o1), (i2, o2) = self.loads()
        if i1 - i2 > THRESHOLD:
            return self._offer("B1", "input")
        if o2 - o1 > THRESHOLD:
            return self._offer("B2", "output")
        return False

    def _offer(self, source: str, action: str) -> bool:
        found = self.pair(source)
        if action == "input":
            input_offload.select(found, overloaded=False)
        else:
            output_offload.select(found, overloaded=False, guards=self.guards)
        if not found.selection:
            return False
        self.sessions.append(action)
        self.heavy_at = "B2" if source == "B1" else "B1"
        return True

    def pair(self, source: str) -> Pair:
        (i1, o1), (i2, o2) = self.loads()
        # Both have a slope with which 40 subscriptions and 10 publications a second are a ratio of 0.8.
        rates = {"B1": 10.0 if self.heavy_at == "B1" else 6.25, "B2": 2.5 if self.heavy_at == "B1" else 6.25}
        sides = {
            "B1": broker(FEW, rates["B1"], o1, slope=i1 / rates["B1"] / FEW),
            "B2": broker(FEW, rates["B2"], o2, slope=i2 / rates["B2"] / FEW),
        }
        target = "B2" if source == "B1" else "B1"
        # The heavy subscription: 3 of 8 publications, and 0.2 of the output.
        rate = sides[source].input_rate * 3 / 8
        return pair(sides[source], sides[target], {0: 0b111}, {0: 1}, samples=8, size=200.0 / rate)


def run(guards: list[InputNotAbove], rounds: int = 12) -> Two:
    two = Two(guards)
    for _ in range(rounds):
        if not two.session():
            break
    return two


def test_without_the_guard_two_brokers_balance_in_a_circle():
    assert run([]).sessions == ["input", "output"] * 6


def test_the_guard_ends_it_after_one_session():
    two = run([InputNotAbove(TEXT)])
    assert two.sessions == ["input"] and two.heavy_at == "B2"


def test_as_figure_4_8_prints_it_the_guard_does_not_end_it():
    """It compares the outputs, which the unfavourable move makes equal."""
    assert run([InputNotAbove(FIGURE)]).sessions == ["input", "output"] * 6


@pytest.mark.parametrize("source", ["B1", "B2"])
def test_the_scenario_estimates_what_the_tables_say(source):
    two = Two([], "B1" if source == "B1" else "B2")
    found = two.pair(source)
    found.offload(0, 1)
    ours, theirs = found.ours, found.theirs
    if source == "B1":
        assert (ours.output_ratio, theirs.output_ratio) == (pytest.approx(0.3), pytest.approx(0.7))
        assert ours.input_ratio == pytest.approx(0.5, abs=0.03) and theirs.input_ratio == pytest.approx(0.5, abs=0.03)
    else:
        assert (ours.output_ratio, theirs.output_ratio) == (pytest.approx(0.5), pytest.approx(0.5))
        assert theirs.input_ratio - ours.input_ratio > THRESHOLD
