"""Table 4.1 and equations 4.1 to 4.6: the worked example of PRESS, to the bit."""

from __future__ import annotations

from random import Random

from tocsin.balancing.strategies.cheung2006.composition import Composition
from tocsin.balancing.strategies.cheung2006.estimation.press import Press, Profile, and_not, text, union
from tocsin.content import Attribute, Attributes, Condition
from tocsin.content.language.domains import domain_of
from tocsin.experiments.cheung2006.controls import SABOTAGES
from tocsin.experiments.cheung2006.figure import Figure
from tocsin.experiments.cheung2006.runs import Runs
from tocsin.experiments.outcome import Check

_TYPES = {"class": "string", "volume": "bigint", "type": "string"}
ATTRIBUTES = Attributes(Attribute(name, domain_of(kind)) for name, kind in _TYPES.items())
PUBLICATIONS: list[dict[str, object]] = [
    {"class": "STOCK", "volume": 0},
    {"class": "STOCK", "volume": 10},
    {"class": "STOCK", "volume": 20},
    {"class": "SPORTS", "type": "racing"},
    {"class": "STOCK", "volume": 100},
    {"class": "STOCK", "volume": 500},
]
#: What the thesis prints beside each candidate, and beside each of the acceptor's CSS.
CANDIDATES = {
    "[class,eq,'STOCK']": "110111",
    "[class,eq,'STOCK'],[volume,>,15]": "110100",
    "[class,eq,'STOCK'],[volume,>,150]": "100000",
    "[class,eq,'SPORTS']": "001000",
}
ACCEPTING = {
    "[class,eq,'STOCK'],[volume,>,50]": "110000",
    "[class,eq,'STOCK'],[volume,<,5]": "000001",
    "[class,eq,'MOVIES']": "000000",
}
PRINTED = CANDIDATES | ACCEPTING
SAMPLES, RATE = 6, 3.0


def profile(runs: Runs) -> Profile:
    conditions = [Condition.of_padres(each, ATTRIBUTES) for each in PRINTED]
    press = Press(range(len(CANDIDATES), len(PRINTED)), SAMPLES, 30.0, 0.0)
    for publication in PUBLICATIONS:
        press.enqueue(1)
        press.observe(number for number, each in enumerate(conditions) if each.matches(publication))
    composition = Composition() if runs.sabotage is None else SABOTAGES[runs.sabotage]
    return composition.estimator.estimate(press.profile(SAMPLES / RATE), Random(runs.seeds[0]))


def found(runs: Runs) -> dict[str, tuple[str, str]]:
    """Each quantity as printed, and as it came out."""
    sampled = profile(runs)
    vectors = [sampled.vector(number) for number in range(len(PRINTED))]
    stock, css = vectors[0], sampled.accepting
    bits = {name: (printed, text(vectors[n], SAMPLES)) for n, (name, printed) in enumerate(PRINTED.items())}
    return bits | {
        "4.2: rate of [class,eq,'STOCK'], msg/s": ("2.5", f"{sampled.rate_of(stock):g}"),
        "4.3: CSS of the acceptor": ("110001", text(css, SAMPLES)),
        "4.4: ANDNOT": ("000110", text(and_not(stock, css), SAMPLES)),
        "4.5: additional rate, msg/s": ("1", f"{sampled.rate_of(and_not(stock, css)):g}"),
        "4.6: CSS afterwards": ("110111", text(union([stock, css]), SAMPLES)),
    }


def checks(runs: Runs) -> list[Check]:
    return [Check(f"{name} is {printed}", came, (printed == came,)) for name, (printed, came) in found(runs).items()]


def table(runs: Runs) -> tuple[list[str], list[list[str]]]:
    return ["quantity", "thesis", "here"], [[name, *both] for name, both in found(runs).items()]


FIGURE = Figure(
    "T-4.1",
    "bit vectors of PRESS",
    "the vectors of Table 4.1 and the results of equations 4.1 to 4.6",
    (),
    checks,
    table,
    remarks=("Equation 4.6 is printed with seven bits; there are six samples.",),
)
