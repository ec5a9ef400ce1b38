"""What the fault campaigns have in common: their options, and how their results are printed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin.cli.output import print_line, print_table
from tocsin.errors import UserError

if TYPE_CHECKING:
    from tocsin.simulation.violation import Violation

Runs = Annotated[int, typer.Option(min=1, max=10_000_000, help="How many runs.")]
Seed = Annotated[int, typer.Option(min=0, max=2**53, help="Seed of the first run; the others have the next seeds.")]
Jobs = Annotated[int, typer.Option(min=0, max=256, help="Processes; 0: one per core.")]
Traced = Annotated[bool, typer.Option("--trace", help="Run this seed only, and print its events.")]
Only = Annotated[str, typer.Option(help="Run this seed only, with these faults, such as 0,3,4, or none.")]

#: Seeds with a violation that are shown in detail.
DETAILED = 3


def places(text: str) -> list[int] | None:
    if not text:
        return None
    if text == "none":
        return []
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise UserError(f"{text!r} is not a list of numbers", hint="like --only 0,3,4") from None


def check_places(seed: int, only: list[int] | None, there: int) -> None:
    for place in only or ():
        if not 0 <= place < there:
            raise UserError(f"seed {seed} has no fault {place}", hint=f"its faults are 0 to {there - 1}")


def print_run(
    seed: int, script: list[str], only: list[int] | None, violations: Sequence[Violation], checked: str
) -> None:
    """One seed: its faults, and what it violates."""
    for place, each in enumerate(script):
        print_line(f"fault {place if only is None else only[place]}: {each}")
    for violation in violations:
        print_line(f"violation: {violation}")
    if not violations:
        print_line(f"seed {seed}: {checked}, every promise kept")


def print_campaign(
    rows: Sequence[Sequence[str]],
    faults: dict[str, int],
    details: list[dict[str, object]],
    violations: list[tuple[int, Violation]],
) -> None:
    for each in details:
        print_line(f"seed {each['seed']} violates “{each['invariant']}”: {each['what']}")
        for name, lines in (("the faults that cause it", each["faults"]), ("the end of its trace", each["last"])):
            print_line(f"  {name}:")
            for line in lines if isinstance(lines, list) else ():
                print_line(f"    {line}")
        print_line(f"  replay: {each['replay']}\n")
    print_table(["", "in all"], rows, [False, True])
    print_table(["fault", "times"], sorted(faults.items()), [False, True])
    for seed, violation in violations[DETAILED:20]:
        print_line(f"seed {seed}: {violation}")
