"""The use of a component: its name, and the settings that differ from the default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tocsin.errors import UserError

Value: TypeAlias = float | str
#: In a configuration: a name, or a table with the name as ``use`` and settings beside it.
Given: TypeAlias = "str | Mapping[str, Value]"
HOW = 'write a name, or a table such as { use = "cov", alpha = 0.3 }'


@dataclass(frozen=True)
class Use:
    name: str
    settings: Mapping[str, Value] = field(default_factory=dict)

    def __str__(self) -> str:
        given = ", ".join(f"{name} {shown(value)}" for name, value in self.settings.items())
        return f"{self.name} ({given})" if given else self.name


def use(name: str, /, **settings: Value) -> Use:
    return Use(name, settings)


def shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def read(slot: str, given: Any) -> Use:
    """From a configuration."""
    if isinstance(given, str):
        return Use(given)
    if not isinstance(given, Mapping):
        raise UserError(f"{slot} is {given!r}, which names no component", hint=HOW)
    name = given.get("use")
    if not isinstance(name, str):
        raise UserError(f"{slot} has settings, and no component that uses them", hint=HOW)
    return Use(name, {key: value for key, value in given.items() if key != "use"})


def read_all(slot: str, given: Any) -> tuple[Use, ...]:
    """A list of them, which may be empty."""
    if isinstance(given, str | Mapping) or not hasattr(given, "__iter__"):
        raise UserError(f"{slot} is {given!r}", hint=f"write a list, in which each is one; {HOW}")
    return tuple(read(slot, each) for each in given)
