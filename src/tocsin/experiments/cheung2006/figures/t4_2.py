"""Tables 4.2 to 4.5: input balancing gives a heavy subscription away, and output balancing must not give it back.

The thesis gives loads and no data behind them, so the smallest scenario with these loads stands in: one heavy
subscription, whose place decides the loads of both brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.balancing.strategies.cheung2006.composition import Composition
from tocsin.balancing.strategies.cheung2006.detection.indices import Offload
from tocsin.balancing.strategies.cheung2006.estimation.press import Profile
from tocsin.balancing.strategies.cheung2006.estimation.resources import Resources
from tocsin.balancing.strategies.cheung2006.offload.covering import Covering
from tocsin.balancing.strategies.cheung2006.offload.guard import FIGURE as AS_FIGURE
from tocsin.balancing.strategies.cheung2006.offload.guard import InputNotAbove
from tocsin.balancing.strategies.cheung2006.offload.pair import Pair
from tocsin.balancing.strategies.cheung2006.parameters import Parameters
from tocsin.experiments.cheung2006.controls import SABOTAGES
from tocsin.experiments.cheung2006.figure import Figure
from tocsin.experiments.cheung2006.runs import Runs
from tocsin.experiments.outcome import Check

#: Input and output ratios of B1 and B2: Tables 4.2 and 4.5 with the heavy subscription at B1, Table 4.3 at B2.
LOADS = {"B1": ((0.8, 0.5), (0.2, 0.5)), "B2": ((0.5, 0.3), (0.5, 0.7))}
#: Publications a second of both, in each case; the heavy subscription gets 3 of 8 of its broker's.
RATES = {"B1": (10.0, 2.5), "B2": (6.25, 6.25)}
SUBSCRIPTIONS, OUTPUT, SAMPLES, VECTOR = 40, 1_000.0, 8, 0b111
ROUNDS = 12


@dataclass
class Scenario:
    """``sessions``: the actions that moved the heavy subscription, in order."""

    composition: Composition
    heavy_at: str = "B1"
    sessions: list[str] = field(default_factory=list)

    def run(self) -> list[str]:
        for _ in range(ROUNDS):
            if not self._session():
                break
        return self.sessions

    def _session(self) -> bool:
        (input1, output1), (input2, output2) = LOADS[self.heavy_at]
        threshold = Parameters().local_ratio_threshold
        if input1 - input2 > threshold:
            return self._offer("B1", Offload.INPUT)
        return output2 - output1 > threshold and self._offer("B2", Offload.OUTPUT)

    def _offer(self, source: str, action: Offload) -> bool:
        found = self.pair(source)
        self.composition.select(action, found, overloaded=False)
        if not found.selection:
            return False
        self.sessions.append(action.value)
        self.heavy_at = "B2" if source == "B1" else "B1"
        return True

    def pair(self, source: str) -> Pair:
        one, other = (
            resources(*load, rate) for load, rate in zip(LOADS[self.heavy_at], RATES[self.heavy_at], strict=True)
        )
        ours, theirs = (one, other) if source == "B1" else (other, one)
        rate = ours.input_rate * VECTOR.bit_count() / SAMPLES
        profile = Profile(SAMPLES, ours.input_rate, 0.2 * OUTPUT / rate, {0: VECTOR})
        return Pair(ours, theirs, profile, Covering({0: 0}), {0: 1}, 0, Parameters())


def resources(input_ratio: float, output_ratio: float, rate: float) -> Resources:
    slope = input_ratio / rate / SUBSCRIPTIONS
    used = output_ratio * OUTPUT
    return Resources(input_ratio, rate, 0.0, rate, slope, 1e9, OUTPUT, SUBSCRIPTIONS, used, 0.0, 1.0)


def found(runs: Runs) -> dict[str, list[str]]:
    guarded = Composition() if runs.sabotage is None else SABOTAGES[runs.sabotage]
    return {
        "with the guard": Scenario(guarded).run(),
        "without it": Scenario(Composition(guards=())).run(),
        "with the guard as figure 4.8 prints it": Scenario(Composition(guards=(InputNotAbove(AS_FIGURE),))).run(),
    }


def checks(runs: Runs) -> list[Check]:
    sessions = found(runs)
    guarded, free = sessions["with the guard"], sessions["without it"]
    return [
        Check(
            "without the guard the two balance in a circle", shown(free), (free == ["input", "output"] * (ROUNDS // 2),)
        ),
        Check("with it they come to rest after the input session", shown(guarded), (guarded == ["input"],)),
    ]


def shown(sessions: list[str]) -> str:
    return f"{len(sessions)} sessions ({', '.join(sessions[:4])}{', …' if len(sessions) > 4 else ''})"


def table(runs: Runs) -> tuple[list[str], list[list[str]]]:
    return ["variant", "sessions"], [[name, shown(each)] for name, each in found(runs).items()]


FIGURE = Figure(
    "T-4.2",
    "the loop of Tables 4.2 to 4.5",
    "input and output balancing would move a heavy subscription to and fro without end; the guard prevents it",
    (),
    checks,
    table,
    remarks=(
        "The text forbids what lets the acceptor's input exceed ours by more than the threshold. Figure 4.8 compares "
        "the outputs with the threshold, which does not end the loop, as the last row shows.",
    ),
)
