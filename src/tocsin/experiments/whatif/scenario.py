"""A scenario as a TOML file: the people, their subscriptions, the capacity of a broker, and what to compare."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import msgspec
from msgspec import Meta, Struct, field

from tocsin.balancing.placement import PLACEMENTS
from tocsin.balancing.strategies import registry
from tocsin.errors import UserError

Count = Annotated[int, Meta(ge=1, le=5_000_000)]
Positive = Annotated[float, Meta(gt=0, le=1e15)]
#: Strategies that work alone; the coordinator always runs the others.
STRATEGIES = ("none", "ldm", "sdm", "gsh", "multistage", "peal")


#: msgspec's names of types, and those that errors use.
KINDS = {
    "array": "a list in []",
    "int": "a whole number",
    "float": "a number",
    "str": "a text",
    "bool": "true or false",
    "object": "a table",
}


class Population(Struct, frozen=True, forbid_unknown_fields=True):
    """The number of subscribers, and how unevenly they are spread over places."""

    subscribers: Count
    spots: Annotated[int, Meta(ge=1, le=1_000)] = 16
    skew: Annotated[float, Meta(gt=0, le=1)] = 0.1


class Interests(Struct, frozen=True, forbid_unknown_fields=True):
    """``each``: fewest and most subscriptions of one subscriber. ``zipf``: 0 if all are equally popular."""

    subscriptions: Count
    each: tuple[Annotated[int, Meta(ge=1)], Annotated[int, Meta(ge=1)]]
    channels: Annotated[int, Meta(ge=1, le=1_000)] = 10
    zipf: Annotated[float, Meta(ge=0, le=3)] = 0.0


class Rates(Struct, frozen=True, forbid_unknown_fields=True):
    """The rates of one subscription's results. ``raised``: the factor by which some rates rise at times; 1: never."""

    bytes_per_second: Positive
    deviation: Annotated[float, Meta(ge=0, le=1e15)] = 0.0
    raised: Annotated[float, Meta(ge=1, le=100)] = 2.0
    periods: Annotated[list[Annotated[float, Meta(ge=1, le=3_600)]], Meta(min_length=1)] = field(
        default_factory=lambda: [5.0, 10.0, 20.0, 30.0, 60.0]
    )


class Brokers(Struct, frozen=True, forbid_unknown_fields=True):
    """``count``: the numbers of brokers to try. ``at_most``: share of its capacity that a broker may be loaded with."""

    count: Annotated[list[Annotated[int, Meta(ge=1, le=1_000)]], Meta(min_length=1)]
    bytes_per_second: Positive
    at_most: Annotated[float, Meta(gt=0, le=1)] = 0.8


class Compare(Struct, frozen=True, forbid_unknown_fields=True):
    strategies: Annotated[list[str], Meta(min_length=1)] = field(default_factory=lambda: ["none", "ldm", "peal"])
    placements: Annotated[list[str], Meta(min_length=1)] = field(default_factory=lambda: ["two-choices"])
    alpha: Annotated[list[Annotated[float, Meta(gt=0, le=10)]], Meta(min_length=1)] = field(
        default_factory=lambda: [0.15]
    )


class Scenario(Struct, frozen=True, forbid_unknown_fields=True):
    population: Population
    interests: Interests
    rates: Rates
    brokers: Brokers
    compare: Compare = field(default_factory=Compare)
    name: str = "scenario"
    minutes: Annotated[float, Meta(ge=2, le=1_440)] = 20.0
    seed: Annotated[int, Meta(ge=0)] = 1


def load(path: Path) -> Scenario:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise UserError(f"cannot read {path}: {reason}", hint="an example is examples/scenario.toml") from None
    try:
        found = msgspec.convert(tomllib.loads(text), Scenario)
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not TOML: {error}") from None
    except msgspec.ValidationError as error:
        raise _explained(path, text, str(error)) from None
    _sensible(path, text, found)
    return found


def _explained(path: Path, text: str, message: str) -> UserError:
    """Translates msgspec's message: the key, its line and the expected value."""
    what, _, place = message.partition(" - at `$")
    keys = [key for key in re.split(r"[.\[]", place.rstrip("`")) if key and not key.endswith("]") and key != "..."]
    extra = re.search(r"(?:unknown|missing required) field `(\w+)`", what)
    model: Any = Scenario
    for key in keys:
        model = (
            get_type_hints(model).get(key, model) if isinstance(model, type) and issubclass(model, Struct) else model
        )
    if extra is None:
        said = re.sub(r"`(\w+)`", lambda found: KINDS.get(found[1], found[1]), what)
        said = said.replace("got a number", "got a fraction")
        return _wrong(path, text, keys, said[:1].lower() + said[1:])
    known = ", ".join(model.__struct_fields__)
    if what.startswith("Object missing"):
        return _wrong(path, text, keys, f"{extra[1]!r} is missing", f"it takes: {known}")
    return _wrong(path, text, [*keys, extra[1]], "there is no such key", f"there are: {known}")


def _wrong(path: Path, text: str, keys: list[str], trouble: str, hint: str = "") -> UserError:
    line = line_of(text, keys)
    where = f"{path}:{line}" if line else str(path)
    name = ".".join(keys)
    return UserError(f"{where}: {name + ': ' if name else ''}{trouble}", hint=hint or "see examples/scenario.toml")


def line_of(text: str, keys: list[str]) -> int:
    """The line of the key, or of the table that lacks it; 0 if neither is there."""
    table, found = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if head := re.match(r"\s*\[\s*(\w+)\s*\]", line):
            table = head[1]
            if keys and table == keys[0]:
                found = found or number
        elif (key := re.match(r"\s*(\w+)\s*=", line)) and [*([table] if table else []), key[1]] == keys[:2]:
            return number
    return found


def _sensible(path: Path, text: str, found: Scenario) -> None:
    fewest, most = found.interests.each
    there, wanted = found.interests.subscriptions, found.interests.channels
    if fewest > most:
        raise _wrong(path, text, ["interests", "each"], f"the fewest, {fewest}, are more than the most, {most}")
    if most > there:
        raise _wrong(path, text, ["interests", "each"], f"a subscriber cannot have {most} of {there} subscriptions")
    if wanted > there:
        trouble = f"{wanted} channels need at least as many subscriptions, and there are {there}"
        raise _wrong(path, text, ["interests", "channels"], trouble)
    for key, names, known in (
        ("strategies", found.compare.strategies, STRATEGIES),
        ("placements", found.compare.placements, tuple(PLACEMENTS)),
    ):
        for name in names:
            if name not in known and name not in (registry.names() if key == "strategies" else ()):
                hint = f"there are: {', '.join(known)}"
                raise _wrong(path, text, ["compare", key], f"there is no {name!r}", hint)
